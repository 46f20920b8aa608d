"""Settings of XLA, of the allocator and of JAX, made once before the first array."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from .. import config
from . import kept
from .ranks import world

# glibc's mallopt parameters.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
# Linux's madvise, and the size of a huge page.
_MADV_HUGEPAGE, _HUGE = 14, 2 << 20
_STRICT = 2  # of the ways to count memory that is asked for


@cache
def configure() -> None:
    """Prepare this process; the first call does it, later ones cost nothing.

    JAX gets 64-bit types, and runs executables in the calling thread: MPI calls of one replay are then over before
    those of the next begin, in the same order on every rank, and a failed one is known at once.
    """
    started = "jax" in sys.modules and _backend_started()
    threads = config.get("threads") or max(1, cores() // world().size)
    if not started:
        flags = [os.environ.get("XLA_FLAGS", "")]
        if threads == 1 and "multi_thread_eigen" not in flags[0]:
            flags.append("--xla_cpu_multi_thread_eigen=false")
        # A loop of one operation, as of `x += y`, goes to a code generator that copies every eight elements thrice.
        if "xla_backend_extra_options" not in flags[0]:
            flags.append("--xla_backend_extra_options=xla_cpu_disable_tiled_emitter")
        os.environ["XLA_FLAGS"] = " ".join(f for f in flags if f)
        # The size of XLA's thread pool; loops are cut into as many parts.
        for name in ("PJRT_NPROC", "NPROC"):
            os.environ.setdefault(name, str(threads))
    _keep_freed_memory()
    import jax

    if started and not jax.config.read("jax_enable_x64"):
        warnings.warn(
            "JAX was started before diffuse_trace, with 32-bit types; set jax_enable_x64 before its first use, "
            "since float64 arrays need it",
            stacklevel=3,
        )
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    kept.keep(world().rank)


def put(tree: Any) -> Any:
    """Arrays of the host, on the device; they are there when this returns.

    JAX copies in the background, and runs what reads an array that is not there yet in the background too, as it does
    what takes over a buffer from that, and so on: what `configure` promises would not hold.
    """
    configure()
    import jax

    return jax.block_until_ready(jax.tree.map(jax.numpy.array, tree))


def cores() -> int:
    """The cores that this process may use, or that the launcher says its node has for all ranks together."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _keep_freed_memory() -> None:
    # XLA's temporaries come from malloc: pages given back to the system fault again at every call.
    try:
        libc = ctypes.CDLL(None)
        mallopt = libc.mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)
    mallopt(_M_ARENA_MAX, 1)
    _use_huge_pages(libc)


def _use_huge_pages(libc: ctypes.CDLL) -> None:
    """Let all that malloc will hand out lie in huge pages, where the system has some for who asks.

    The heap is made as large as memory once, which takes none until it is touched, and the system told.  Over small
    pages the processor waits for their addresses: gathers of a graph's product are a fifth slower, streams a little.
    """
    try:
        if int(Path("/proc/sys/vm/overcommit_memory").read_text()) == _STRICT:
            return  # what is not touched counts too
    except (OSError, ValueError):
        return  # not Linux
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // world().size // _HUGE * _HUGE
    room = libc.malloc(size)
    if room:
        libc.free(room)
        start = -(-room // _HUGE) * _HUGE
        libc.madvise(start, size - _HUGE, _MADV_HUGEPAGE)


def _backend_started() -> bool:
    from ..lower import jax_compat

    return jax_compat.backend_started()
