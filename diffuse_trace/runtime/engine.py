"""The table that compiled code works with, its memory, and what becomes of the failures that it records."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import config
from ..errors import CommunicationError, RankMismatchError
from . import messages as at
from . import wire
from .ranks import World

#: Bytes of the largest piece of a message: MPI counts in C ints.
CHUNK = 1 << 30
_SPIN = 1000  # polls of a rank that has a core of its own, before it offers it to others
_NEVER = 2**62
_LINE = 64
_SAME = (
    "Every rank must run the same operations in the same order: look for a branch that depends on the rank, on the "
    "clock, on a file or on random numbers that differ between ranks"
)


class Engine:
    """State of the communication of one rank; `table` is its address."""

    def __init__(self, world: World) -> None:
        from mpi4py import MPI

        self.world = world
        library = ctypes.CDLL(MPI.__file__)  # which finds the functions in the MPI that it is linked to
        self._words = np.zeros(at.TABLE_BYTES // wire.WORD, np.int64)
        self.table = self._words.ctypes.data
        self._kept: list[Any] = [library]
        self._lost: list[Any] = []  # memory that MPI may still read
        self._sizes: dict[int, int] = {}
        for place, name in (
            (at.ISEND, "MPI_Isend"),
            (at.IRECV, "MPI_Irecv"),
            (at.TEST, "MPI_Test"),
            (at.IPROBE, "MPI_Iprobe"),
            (at.RECV, "MPI_Recv"),
            (at.CANCEL, "MPI_Cancel"),
            (at.WTIME, "MPI_Wtime"),
        ):
            self._set(place, _address(getattr(library, name)))
        self._set(at.YIELD, _address(ctypes.CDLL(None).sched_yield))
        self._set(at.COMM, MPI._handleof(world.device_comm))
        self._set(at.BYTE_TYPE, MPI._handleof(MPI.BYTE))
        self._set(at.ANY_SOURCE, MPI.ANY_SOURCE)
        self._set(at.REQUEST_SIZE, MPI._sizeof(MPI.Request))
        self._set(at.RANK, world.rank)
        self._set(at.FLAG, self._memory(8))
        self._set(at.STATUS, self._memory(2 * MPI._sizeof(MPI.Status)))
        self._set(at.NOTICE, self._memory(wire.NOTICE_WORDS * wire.WORD))
        self._failure = np.zeros(at.FAIL_BYTES // wire.WORD, np.int64)
        self._set(at.FAILURE, self._failure.ctypes.data)
        self._failed = ctypes.c_int64.from_address(self._failure.ctypes.data)
        self._requests = 0
        self.reserve([wire.HEADER], [wire.HEADER])
        self._begin_epoch()
        self.configure()

    def configure(self) -> None:
        """Take over the settings ``timeout`` and ``yield``."""
        give_way = config.get("yield")
        crowded = give_way == "1" or (give_way == "auto" and self.world.crowded)
        self._set(at.SPIN, 0 if crowded else _NEVER if give_way == "0" else _SPIN)
        self._set(at.TIMEOUT_MS, int(config.get("timeout") * 1000))
        self._set(at.CHUNK, CHUNK)

    def reserve(self, sends: Sequence[int], receives: Sequence[int]) -> None:
        """Make room for messages of these sizes in bytes, with their headers."""
        pieces = sum(-(-size // CHUNK) for size in (*sends, *receives))
        if pieces > self._requests:
            self._requests = max(pieces, 2 * self._requests, 16)
            self._set(at.REQUESTS, self._memory(self._requests * int(self._words[at.REQUEST_SIZE // wire.WORD])))
            self._set(at.SLOTS, self._memory(self._requests * at.SLOT_BYTES))
        for place, sizes in ((at.OUTBOX, sends), (at.INBOX, receives)):
            wanted = sum(size + _LINE for size in sizes)
            if wanted > self._sizes.get(place, 0):
                self._sizes[place] = wanted = max(wanted, 4096)
                self._set(place, self._memory(wanted))

    def check(self) -> None:
        """Raise the failure on record, after telling the other ranks of it, and make ready for what comes after.

        Raises:
            RankMismatchError: two ranks ran different operations, or one has ended.
            CommunicationError: MPI failed, or a rank waited too long.
        """
        if self._failed.value != wire.OK:
            self._raise()

    def _raise(self) -> None:
        kind, code, waiting = (int(w) for w in self._failure[:3])
        peers = [int(w) for w in self._failure[3 : 3 + min(waiting, at.MOST_PEERS)]]
        first = at.FAIL_HEADERS // wire.WORD
        mine = self._failure[first : first + wire.HEADER_WORDS].copy()
        met = self._failure[first + wire.HEADER_WORDS :].copy()
        epoch = int(self.world.epoch[0])
        if kind == wire.NOTICED:
            epoch = int(mine[1])
        else:
            self.world.tell(mine, met)
        self.world.epoch[0] = epoch + 1
        if self._words[at.ABANDONED // wire.WORD]:
            # MPI may still send from the old memory, and the requests that say so are lost.
            self._set(at.ABANDONED, 0)
            self._sizes.clear()
            self._requests = 0
            self.reserve([wire.HEADER], [wire.HEADER])
            for sends, receives in self._wanted:
                self.reserve(sends, receives)
        self._failure[:] = 0
        self._begin_epoch()
        raise self._error(kind, code, peers, mine, met)

    def _error(self, kind: int, code: int, peers: list[int], mine: np.ndarray, met: np.ndarray) -> Exception:
        raise NotImplementedError
