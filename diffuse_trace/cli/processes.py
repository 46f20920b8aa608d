"""Processes of a job, and the end of those that outlive it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def kill_marked(mark: str, patience: float) -> None:
    """Kill every process with `mark` (NAME=value) in its environment, those they start meanwhile too.

    Unlike process groups this finds what has made a session of its own, as launchers' helpers do.  Where there is
    no /proc, nothing happens.
    """
    deadline = time.monotonic() + patience
    while (left := _marked(mark)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def _marked(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        # Processes of other users cannot be read, ended ones are gone or, as zombies, empty.
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def end_with_parent() -> Callable[[], None] | None:
    """To be called in a child before exec: it gets SIGTERM when this process dies, however that happens (Linux)."""
    if sys.platform != "linux":
        return None
    # Loaded here: after the fork there must be no import.
    library = ctypes.CDLL(None)
    pr_set_pdeathsig = 1

    def prepare() -> None:
        library.prctl(pr_set_pdeathsig, signal.SIGTERM, 0, 0, 0)

    return prepare
