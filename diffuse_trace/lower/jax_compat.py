"""All that depends on the version of JAX: foreign functions, and what JAX has been told or has started.

Written for JAX 0.10.  The layout of XLA's call frames comes from the header that JAX ships, so a version that
inserts a field needs no change here.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_POINTER = 8
_SIZES = {"size_t": 8, "int64_t": 8, "int": 4, "uint32_t": 4, "int32_t": 4}


@dataclass(frozen=True)
class FrameLayout:
    """Byte offsets in what XLA hands to a foreign function, on a 64-bit machine.

    ``extension``, ``arguments``, ``results`` and ``attributes`` are those of pointers within the call frame (the last
    three to arrays of pointers), ``data`` within a buffer and ``value`` within a scalar attribute.  The rest answers
    XLA's question which interface the function was written for: ``metadata`` is the pointer within the extension,
    ``major`` and ``minor`` are offsets of the answer, ``version`` is the answer.  ``api`` and ``context`` are pointers
    within the call frame, to XLA's functions and to what these ask for; ``threads``, ``schedule`` and ``destroy`` are
    functions: the size of XLA's pool of threads, a task for it, and the end of an error.
    """

    extension: int
    arguments: int
    results: int
    attributes: int
    data: int
    value: int
    metadata: int
    major: int
    minor: int
    version: tuple[int, int]
    api: int
    context: int
    threads: int
    schedule: int
    destroy: int


@cache
def frame_layout() -> FrameLayout:
    """Read the layout from the header of the installed JAX.

    Raises:
        RuntimeError: the header does not declare what is needed.
    """
    import jax.ffi

    path = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    structs = _Structs(path.read_text())
    frame, at = "XLA_FFI_CallFrame", structs.offset
    return FrameLayout(
        extension=at(frame, "extension_start"),
        arguments=at(frame, "args") + at("XLA_FFI_Args", "args"),
        results=at(frame, "rets") + at("XLA_FFI_Rets", "rets"),
        attributes=at(frame, "attrs") + at("XLA_FFI_Attrs", "attrs"),
        data=at("XLA_FFI_Buffer", "data"),
        value=at("XLA_FFI_Scalar", "value"),
        metadata=at("XLA_FFI_Metadata_Extension", "metadata"),
        major=at("XLA_FFI_Metadata", "api_version") + at("XLA_FFI_Api_Version", "major_version"),
        minor=at("XLA_FFI_Metadata", "api_version") + at("XLA_FFI_Api_Version", "minor_version"),
        version=(structs.constant("XLA_FFI_API_MAJOR"), structs.constant("XLA_FFI_API_MINOR")),
        api=at(frame, "api"),
        context=at(frame, "ctx"),
        threads=at("XLA_FFI_Api", "_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_NumThreads)"),
        schedule=at("XLA_FFI_Api", "_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_Schedule)"),
        destroy=at("XLA_FFI_Api", "_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Error_Destroy)"),
    )


class _Structs:
    """The structs of a C header: enough of C to find the offsets of their fields."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"//.*", "", text)
        self.enums = set(re.findall(r"}\s*(\w+)\s*;", "".join(re.findall(r"typedef enum {.*?;", self.text, re.S))))

    def constant(self, name: str) -> int:
        found = re.search(rf"#define {name} (\d+)", self.text)
        if found is None:
            raise RuntimeError(f"the header of XLA's foreign function interface does not define {name}")
        return int(found.group(1))

    def offset(self, struct: str, field: str) -> int:
        for name, start, _, _ in self.fields(struct):
            if name == field:
                return start
        raise RuntimeError(f"{struct} of XLA's foreign function interface has no field {field}")

    def fields(self, struct: str) -> list[tuple[str, int, int, int]]:
        """(name, offset, size, alignment) of each field."""
        found = re.search(rf"struct {struct} {{(.*?)\n}}", self.text, re.S)
        if found is None:
            raise RuntimeError(f"the header of XLA's foreign function interface does not declare {struct}")
        fields, end = [], 0
        for line in found.group(1).split(";"):
            if not line.strip():
                continue
            kind, _, name = line.strip().rpartition(" ")
            size, alignment = self.measure(kind.strip()) if "(" not in line else (_POINTER, _POINTER)
            start = -(-end // alignment) * alignment
            fields.append((name.lstrip("*"), start, size, alignment))
            end = start + size
        return fields

    def measure(self, kind: str) -> tuple[int, int]:
        """Size and alignment of a type."""
        kind = kind.removeprefix("const ").removeprefix("struct ")
        if kind.endswith("*"):
            return _POINTER, _POINTER
        if kind in self.enums or kind.endswith(("Type", "Code", "Stage")):
            return 4, 4
        if kind in _SIZES:
            return _SIZES[kind], _SIZES[kind]
        if kind == "XLA_FFI_Handler_Traits":
            return 4, 4
        fields = self.fields(kind)
        alignment = max(f[3] for f in fields)
        end = fields[-1][1] + fields[-1][2]
        return -(-end // alignment) * alignment, alignment


def register(name: str, address: int) -> None:
    """Make the C function at an address, ``XLA_FFI_Error* (XLA_FFI_CallFrame*)``, known to XLA on CPUs as ``name``."""
    import jax.ffi

    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(ctypes.c_void_p(address)), platform="cpu")


def call(
    name: str, results: Sequence[Any], arguments: Sequence[Any], aliases: Mapping[int, int], **attributes: Any
) -> list[Any]:
    """Call a registered function in a traced one.

    Args:
        name: what it was registered as.
        results: shapes and dtypes.
        arguments: arrays.
        aliases: results that are written over an argument: {argument number: result number}.
        attributes: constants of the call, NumPy scalars; the function sees them sorted by name.
    """
    import jax.ffi

    function = jax.ffi.ffi_call(name, list(results), input_output_aliases=dict(aliases))
    return list(function(*arguments, **attributes))


def is_literal(atom: Any) -> bool:
    """Whether an operand in a jaxpr is a constant written in its place."""
    from jax.extend.core import Literal

    return isinstance(atom, Literal)


def configure(**flags: Any) -> None:
    """Set flags of JAX: ``configure(jax_enable_x64=True)``."""
    import jax

    for name, value in flags.items():
        jax.config.update(name, value)


def backend_started() -> bool:
    """Whether JAX has started a backend, after which XLA no longer reads its settings."""
    from jax._src import xla_bridge  # no public function tells

    return xla_bridge.backends_are_initialized()
