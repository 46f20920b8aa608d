"""What there is: versions of the software, cores that this process may use."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

from .. import __version__

_PACKAGES = ("numpy", "jax", "jaxlib", "numba", "mpi4py")
# CuPy has one distribution for each version of CUDA.
_CUPY = ("cupy", "cupy-cuda13x", "cupy-cuda12x")


def versions() -> dict[str, str | None]:
    """Versions of Python, this package and what it runs on, by name; None is not installed.

    Taken from the metadata: none of them is imported.
    """
    found = {"python": platform.python_version(), "diffuse_trace": __version__}
    cupy = next(filter(None, map(_version, _CUPY)), None)
    return found | {name: _version(name) for name in _PACKAGES} | {"cupy": cupy}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def processors() -> set[int]:
    """The logical processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def restricted() -> bool:
    """Whether this process may use a part of the machine only: then ranks must not be bound to cores.

    Launchers bind to the first cores of the machine, whichever this process was given.
    """
    return len(processors()) < (os.cpu_count() or 1) or _quota() is not None


def cores() -> int:
    """Physical cores that this process may use: within its affinity mask and its container's quota."""
    allowed = processors()
    # Two hardware threads of a core have the same list of siblings.
    distinct = {_siblings(processor) or str(processor) for processor in allowed}
    count = len(distinct)
    quota = _quota()
    return max(1, count if quota is None else min(count, int(quota)))


def _siblings(processor: int) -> str | None:
    topology = Path(f"/sys/devices/system/cpu/cpu{processor}/topology")
    return _read(topology / "core_cpus_list") or _read(topology / "thread_siblings_list")


def _quota() -> float | None:
    """Processors granted by the control group (version 2, then 1), or None."""
    group = Path("/sys/fs/cgroup")
    words = (_read(group / "cpu.max") or "").split()
    if len(words) != 2:
        words = [_read(group / "cpu" / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", or no control group
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
