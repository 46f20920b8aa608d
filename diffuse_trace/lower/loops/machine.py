"""Loops as machine code: compiled once for each text, known to XLA by the text's digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from llvmlite import binding

from .. import jax_compat
from .body import Code
from .emit import emit

_PREFIX = "diffuse_loops_"
_NAME = "loops"
#: Bytes of the last cache where the system does not say.
_CACHE = 32 << 20


def call(code: Code, given: Sequence[Any], after: Any) -> tuple[Any, list[Any]]:
    """Call the loops in a traced function.

    Args:
        code: the loops.
        given: the arrays that exist.
        after: an int32 that is known once all is over that must be before.

    Returns:
        An int32 that is known once the loops are over, and the results.
    """
    shapes = [jax.ShapeDtypeStruct((), np.int32)]
    shapes += [jax.ShapeDtypeStruct(code.arrays[n][1], code.arrays[n][0]) for n in code.results]
    aliases = {1 + k: 1 + code.results.index(n) for k, n in enumerate(code.given) if n in code.results}
    made = jax_compat.call(_registered(emit(code, _NAME)), shapes, [after, *given], aliases)
    return made[0], made[1:]


@cache
def caches() -> int:
    """Bytes of the last cache that are for this process: as large a share as its threads are of the processors."""
    sizes = [_CACHE]
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, size = (int((index / name).read_text().strip().rstrip("K")) for name in ("level", "size"))
        except (OSError, ValueError):
            continue
        sizes = [size << 10] if level > 2 else sizes
    processors = os.cpu_count() or 1
    threads = int(os.environ.get("NPROC", processors))
    return sizes[-1] * min(threads, processors) // processors


@cache
def _target() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    host = binding.Target.from_default_triple()
    features = binding.get_host_cpu_features().flatten()
    return host.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=3)


_engines: list[Any] = []  # they own the code


@cache
def _registered(text: str) -> str:
    """Compile a module; the name under which XLA finds its function."""
    name = _PREFIX + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    module = binding.parse_assembly(text)
    module.verify()
    engine = binding.create_mcjit_compiler(module, _target())
    engine.finalize_object()
    _engines.append(engine)
    jax_compat.register(name, engine.get_function_address(_NAME))
    return name
