"""Compiled executables kept on disk between runs, by JAX's compilation cache.

A second start of a script then loads its machine code instead of compiling it.  JAX's key holds the program, the
versions and XLA's flags; the folder adds the processor, and the rank, so that ranks of a job do not write one file.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

from .. import config

#: Bytes that each rank keeps; above them the oldest half goes.
LIMIT = 256 << 20


def keep(rank: int) -> None:
    """Let JAX keep what it compiles, unless the setting ``cache`` or the user's own JAX settings say otherwise."""
    import jax

    folder = _folder(rank)
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder)
    except OSError:
        return  # nowhere to write: all is compiled anew
    if not os.access(folder, os.W_OK):
        return
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)


def _folder(rank: int) -> Path | None:
    """Where executables of this rank are kept; None if they are not to be."""
    chosen = config.get("cache")
    if chosen == "0":
        return None
    if chosen == "1":
        chosen = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "diffuse_trace")
    # Unlike Path's, this one does not fail where a user has no home.
    chosen = os.path.expanduser(chosen)
    return None if chosen.startswith("~") else Path(chosen, _processor(), f"rank{rank}")


def _processor() -> str:
    """Names what machine code depends on: code for one processor may stop another."""
    parts = [platform.system(), platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        parts += sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        pass
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def _prune(folder: Path) -> None:
    files = []
    for path in folder.iterdir():
        try:
            found = path.stat()
        except FileNotFoundError:
            continue  # another job was faster
        files.append((found.st_mtime, found.st_size, path))
    size = sum(nbytes for _, nbytes, _ in files)
    if size <= LIMIT:
        return
    for _, nbytes, path in sorted(files):
        path.unlink(missing_ok=True)
        size -= nbytes
        if size <= LIMIT // 2:
            return
