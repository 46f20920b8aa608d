"""What ranks and launcher print, on its way to the terminal."""

from __future__ import annotations

import contextlib
import os
import re

_CHUNK = 1 << 16
# MPICH says on the rank's own stderr that MPI_Abort was called, where Open MPI's launcher says it.
_ABORT = re.compile(rb"^Abort\(-?\d+\) on node \d+ \(rank \d+ in comm \S+\): application called MPI_Abort\(.*\n?", re.M)


class Channel:
    """The output of one rank: a named pipe whose content goes to a descriptor, each line after `prefix`."""

    def __init__(self, path: str, sink: int, prefix: bytes = b"") -> None:
        os.mkfifo(path, 0o600)
        # Open for writing too: the pipe then exists before the rank opens it and does not end when it leaves.
        self.source = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._sink = sink
        self._prefix = prefix
        self._line = b""
        self.aside = b""  # MPI's word that the job was aborted: of use if nothing better explains it

    def fileno(self) -> int:
        return self.source

    def pump(self) -> bool:
        """Pass on what is there; whether there may be more.

        Raises:
            BrokenPipeError: nobody reads the output any more.
        """
        try:
            data = os.read(self.source, _CHUNK)
        except BlockingIOError:
            return False
        if b"called MPI_Abort(" in data:
            self.aside += b"".join(_ABORT.findall(data))
            data = _ABORT.sub(b"", data)
        self._write(data)
        return True

    def finish(self) -> None:
        """Pass on all that is left, the unfinished line too, and close."""
        with contextlib.suppress(BrokenPipeError):
            while self.pump():
                pass
            if self._line:
                self._write(b"\n")
        os.close(self.source)

    def _write(self, data: bytes) -> None:
        if self._prefix:
            # Whole lines only: those of other ranks would get in between.
            *lines, self._line = (self._line + data).split(b"\n")
            data = b"".join(self._prefix + line + b"\n" for line in lines)
        write(self._sink, data)


def write(sink: int, data: bytes) -> None:
    """Write all of `data`: os.write may write less."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]


def killed(text: str) -> tuple[int | None, int | None, int] | None:
    """Rank, process and signal of the process whose death the launcher reports; None where it does not say.

    Open MPI names the rank (and not always the process), hydra the process.
    """
    text = " ".join(text.split())
    if found := re.search(r"process rank (\d+) with PID (\d+) on node \S+ exited on signal (\d+)", text):
        rank, process, number = map(int, found.groups())
        return rank, process or None, number
    if found := re.search(r"PID (\d+) RUNNING AT .*\(signal (\d+)\)", text):
        return None, int(found.group(1)), int(found.group(2))
    return None


def tail(path: str, lines: int = 20) -> str:
    """The last lines of a file; empty if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _CHUNK))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "".join(f"{line}\n" for line in text.splitlines()[-lines:])
