"""One run on several ranks: starts the launcher, passes output and signals on, says how it ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ..runtime.bootstrap import FOLDER, PATIENCE
from . import output
from .processes import end_with_parent, kill_marked

_TICK = 0.1
# What the launcher itself prints is held back this long: if the job is ending, something better explains it.
_HOLD = 2.0
# Seconds from a signal to the next harder measure.
_GRACE = 3.0
# Seconds that a job may go on after an error was reported: exit functions run, MPI_Abort works.
_STRAGGLE = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_job(command: list[str], environment: dict[str, str], ranks: int, all_output: bool) -> int:
    """Run an mpiexec command and return the exit code for the whole job.

    Args:
        command: mpiexec, its options and what each rank runs (`runtime/bootstrap.py`).
        environment: of mpiexec and the ranks; the folder of the job is added.
        ranks: their number.
        all_output: show the output of all ranks, each line after ``[rank]``, and not of rank 0 only.
    """
    folder = tempfile.mkdtemp(prefix="diffuse-")
    try:
        return _Job(command, environment, ranks, all_output, Path(folder)).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Job:
    def __init__(
        self, command: list[str], environment: dict[str, str], ranks: int, all_output: bool, folder: Path
    ) -> None:
        self.command = command
        self.environment = environment | {FOLDER: str(folder)}
        self.ranks = ranks
        self.folder = folder
        self.selector = selectors.DefaultSelector()
        self.channels = [
            output.Channel(str(folder / f"{name}.{rank}"), sink, f"[{rank}] ".encode() if all_output else b"")
            for rank in range(ranks if all_output else 1)
            for name, sink in (("out", 1), ("err", 2))
        ]
        self.input = -1  # of rank 0, where this process has to pass it on
        self.launcher_output: dict[int, int] = {}  # what it writes to: our own stdout or stderr
        self.held: list[tuple[int, bytes]] = []  # of the launcher: (descriptor, data)
        self.held_since = 0.0
        self.said = b""
        self.signals: list[int] = []  # received
        self.measures: list[Callable[[], None]] = []  # against a job that was told to end, still to be taken
        self.next_measure = 0.0
        self.next_look = self.failed_since = 0.0

    def run(self) -> int:
        # What is ignored stays so: nohup ignores SIGHUP, a shell SIGINT of what it starts in the background.
        heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._on_signal) for number in heeded}
        try:
            self._start()
            self._watch()
            code = self.process.wait()
            for channel in self.channels:
                channel.finish()
            if code or self.signals:
                self._kill_all()
            return self._verdict(code)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        for channel in self.channels:
            self.selector.register(channel, selectors.EVENT_READ, lambda channel=channel: self._pump(channel))
        writers = []
        for sink in (1, 2):
            source, writer = os.pipe()
            os.set_blocking(source, False)
            self.launcher_output[source] = sink
            writers.append(writer)
            self.selector.register(source, selectors.EVENT_READ, lambda source=source: self._hold(source))
        stdin = self._stdin()
        if stdin > 0:
            writers.append(stdin)
        # A session of its own: a Ctrl-C at the terminal comes to this process only, which passes it on once.
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=stdin,
            stdout=writers[0],
            stderr=writers[1],
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
        for writer in writers:
            os.close(writer)

    def _stdin(self) -> int:
        """What mpiexec shall read and give to rank 0."""
        try:
            if not os.isatty(0):
                os.fstat(0)
                return 0
            foreground = os.tcgetpgrp(0) == os.getpgrp()
        except OSError:  # closed
            foreground = False
        if not foreground:
            return subprocess.DEVNULL
        # mpiexec would read the terminal only in the terminal's session: the input goes through a pipe.
        source, self.input = os.pipe()
        self.selector.register(0, selectors.EVENT_READ, self._feed)
        return source

    def _watch(self) -> None:
        """Pass output on until mpiexec has ended."""
        while self.process.poll() is None:
            for key, _ in self.selector.select(_TICK):
                key.data()
            self._end_stragglers()
            self._take_measures()
            if self.held and time.monotonic() > self.held_since + _HOLD and not self._explained():
                self._release()
        for source in self.launcher_output:
            while self._hold(source):
                pass

    def _pump(self, channel: output.Channel) -> None:
        try:
            channel.pump()
        except BrokenPipeError:
            # Ranks that print on get the same error, as a single process would.
            self.selector.unregister(channel)
            self.channels.remove(channel)
            os.close(channel.source)

    def _hold(self, source: int) -> bool:
        """Keep what the launcher says; whether it may have more to say."""
        try:
            data = os.read(source, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            with contextlib.suppress(KeyError):
                self.selector.unregister(source)
            return False
        if not self.held:
            self.held_since = time.monotonic()
        self.held.append((self.launcher_output[source], data))
        self.said = (self.said + data)[-(1 << 16) :]
        return True

    def _release(self) -> None:
        for sink, data in self.held:
            with contextlib.suppress(BrokenPipeError):
                output.write(sink, data)
        self.held.clear()

    def _feed(self) -> None:
        data = os.read(0, 1 << 16)
        try:
            output.write(self.input, data)
        except BrokenPipeError:
            data = b""
        if not data:
            self.selector.unregister(0)
            os.close(self.input)

    # How a job ends early

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        if len(self.signals) == 1:
            # Ctrl-C goes to the ranks, which may save something; Ctrl-\ has each show where it is.
            first = {signal.SIGINT: signal.SIGINT, signal.SIGQUIT: signal.SIGABRT}.get(signal.Signals(number))
            if first is not None and len(self._processes()) == self.ranks:
                self.measures.append(lambda: self._signal_ranks(first))
            self.measures += [self._terminate, self._kill_all]
        self.next_measure = 0.0  # at once: a second signal is impatience

    def _end_stragglers(self) -> None:
        """End what mpiexec leaves running after a rank has failed: hydra does so if that rank had not started MPI."""
        now = time.monotonic()
        if self.measures or now < self.next_look:
            return
        self.next_look = now + _TICK
        leaver = self._note("exit").split()
        left = bool(leaver) and (self.folder / f"end.{leaver[0]}").exists()
        if left or self._note("error"):
            self.failed_since = self.failed_since or now
            if now > self.failed_since + (PATIENCE + 0.5 if left else _STRAGGLE):
                self.measures += [self._terminate, self._kill_all]

    def _take_measures(self) -> None:
        if self.measures and time.monotonic() >= self.next_measure:
            self.measures.pop(0)()
            self.next_measure = time.monotonic() + _GRACE

    def _signal_ranks(self, number: int) -> None:
        for process in self._processes():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)

    def _terminate(self) -> None:
        self.process.terminate()

    def _kill_all(self) -> None:
        """Kill what is left of the job, mpiexec included: whoever has the job's folder in its environment."""
        kill_marked(f"{FOLDER}={self.folder}", _GRACE)
        if self.process.poll() is None:
            self.process.kill()

    def _processes(self) -> dict[int, int]:
        """Ranks by process id, as far as they have started."""
        found = {}
        for rank in range(self.ranks):
            if text := self._note(f"pid.{rank}"):
                found[int(text)] = rank
        return found

    # How it ended

    def _note(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(errors="replace")
        except OSError:
            return ""

    def _explained(self) -> bool:
        return bool(self.signals) or any((self.folder / name).exists() for name in ("error", "exit"))

    def _verdict(self, code: int) -> int:
        """Print why the job failed, once, and return its exit code; `code` is mpiexec's."""
        error, leaver = self._note("error"), self._note("exit").split()
        if self.signals:
            if self.signals[0] == signal.SIGQUIT:
                self._say_logs()
            return 128 + self.signals[0]
        if error:
            self._say(error)
        if leaver:
            rank, left_with = map(int, leaver)
            if not error and self._note("end.0") in ("", "0"):
                self._say(self._log(rank))  # rank 0 did not leave by itself, so it did not say why
            return left_with
        if error:
            return 128 - code if code < 0 else code or 1
        if death := output.killed(self.said.decode(errors="replace")):
            return self._mourn(*death)
        self._release()
        if code:
            self._say(b"".join(channel.aside for channel in self.channels).decode(errors="replace"))
            self._say_logs()
        return 128 - code if code < 0 else code

    def _mourn(self, rank: int | None, process: int | None, number: int) -> int:
        if rank is None and process is not None:
            rank = self._processes().get(process)
        who = "a rank" if rank is None else f"rank {rank}"
        name = signal.strsignal(number) or "unknown"
        self._say(f"diffuse run: {who} was killed by signal {number} ({name})\n")
        if rank is not None:
            self._say(self._log(rank))
        return 128 + number

    def _say_logs(self) -> None:
        self._say("".join(map(self._log, range(self.ranks))))

    def _log(self, rank: int) -> str:
        """The end of what a silent rank wrote to stderr, under a heading."""
        text = output.tail(str(self.folder / f"log.{rank}"))
        return f"stderr of rank {rank}:\n{text}" if text else ""

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            output.write(2, text.encode("utf-8", "backslashreplace"))
