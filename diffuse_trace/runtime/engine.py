"""The table that compiled code works with, its memory, and what becomes of the failures that it records."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
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
        self._areas: dict[int, np.ndarray] = {}
        self._lost: list[np.ndarray] = []
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
        self._rings = world.rings.addresses if world.rings else np.zeros((world.size, 2), np.int64)
        self._set(at.RINGS, self._rings.ctypes.data)
        for place, size in (
            (at.FLAG, wire.WORD),
            (at.STATUS, MPI._sizeof(MPI.Status)),
            (at.NOTICE, wire.NOTICE_WORDS * wire.WORD),
        ):
            self._set(place, self._memory(place, size))
        self._failure = np.zeros(at.FAIL_BYTES // wire.WORD, np.int64)
        self._set(at.FAILURE, self._failure.ctypes.data)
        self._failed = ctypes.c_int64.from_address(self._failure.ctypes.data)
        self._requests = 0
        self.reserve([0], [0])
        self._begin_epoch()

    def configure(self) -> None:
        """Take over the settings ``timeout`` and ``yield``, and `CHUNK`."""
        give_way = config.get("yield")
        crowded = give_way == "1" or (give_way == "auto" and self.world.crowded)
        self._set(at.SPIN, 0 if crowded else _NEVER if give_way == "0" else _SPIN)
        self._set(at.TIMEOUT_MS, int(config.get("timeout") * 1000))
        self._set(at.CHUNK, CHUNK)
        self._set(at.CLOCKED, int(config.get("profile")))

    @property
    def waiting(self) -> int:
        """The address of the nanoseconds that this rank has waited for others, noted where it is profiled."""
        return self.table + at.WAITED

    def reserve(self, sends: Sequence[int], receives: Sequence[int]) -> None:
        """Make room for messages that carry these numbers of bytes, with the settings of now."""
        self.configure()
        # Header and payload may be requests of their own.
        pieces = sum(1 - (-size // CHUNK) for size in (*sends, *receives))
        if pieces > self._requests:
            self._requests = max(pieces, 2 * self._requests, 16)
            size = int(self._words[at.REQUEST_SIZE // wire.WORD])
            self._set(at.REQUESTS, self._memory(at.REQUESTS, self._requests * size))
            self._set(at.SLOTS, self._memory(at.SLOTS, self._requests * at.SLOT_BYTES))
        for place, sizes in ((at.OUTBOX, sends), (at.INBOX, receives)):
            wanted = sum(max(wire.HEADER + size, wire.EAGER) + _LINE for size in sizes)
            if place not in self._areas or wanted > self._areas[place].size:
                self._set(place, self._memory(place, wanted))

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
        peers = sorted({int(w) for w in self._failure[3 : 3 + min(waiting, at.MOST_PEERS)]})
        first = at.FAIL_HEADERS // wire.WORD
        told = self._failure[first : first + wire.HEADER_WORDS].copy()
        met = self._failure[first + wire.HEADER_WORDS :].copy()
        own = self._areas[at.NOTICE].view(np.int64)[: wire.HEADER_WORDS].copy() if kind == wire.NOTICED else told
        epoch = int(told[1]) if kind == wire.NOTICED else int(self.world.epoch[0])
        if kind == wire.NOTICED:
            kind = wire.kind_of(told)
        else:
            told[2] = self.world.rank | kind << wire.KIND_SHIFT
            self.world.tell(told, met)
        self._failure[:] = 0
        self.world.epoch[0] = epoch + 1
        self._begin_epoch()
        raise self._error(kind, code, peers, own, told, met)

    def _error(
        self, kind: int, code: int, peers: list[int], own: np.ndarray, told: np.ndarray, met: np.ndarray
    ) -> Exception:
        """``own`` is the header of what runs here; the rank that wrote ``told`` found the failure, and met ``met``."""
        here, there = wire.text_of(own), wire.text_of(met)
        finder, text = wire.rank_of(told), wire.text_of(told)
        if kind == wire.MISMATCH:
            if wire.kind_of(met) == wire.GOODBYE:
                what = f"rank {wire.rank_of(met)} has ended, while rank {finder} runs {text}"
            else:
                what = f"rank {finder} runs {text}, rank {wire.rank_of(met)} runs {there}"
                if text == there:
                    what += ", with other shapes, dtypes or settings"
            return RankMismatchError(f"{what}. {_SAME}")
        if finder != self.world.rank:
            why = "waited too long" if kind == wire.TIMEOUT else "got an error from MPI"
            return CommunicationError(f"rank {finder} {why} in {text}; rank {self.world.rank} runs {here}")
        if kind == wire.TIMEOUT:
            return CommunicationError(
                f"{here}: rank {self.world.rank} has waited {config.get('timeout'):g} s for {_ranks(peers)}; "
                f"if nothing is wrong there, let ranks wait longer with DIFFUSE_TIMEOUT"
            )
        from mpi4py import MPI

        return CommunicationError(f"{here}: MPI reports {MPI.Get_error_string(code)!r} on rank {self.world.rank}")

    def _begin_epoch(self) -> None:
        epoch = int(self.world.epoch[0])
        self._set(at.EPOCH, epoch)
        self._set(at.TAG, wire.tag(epoch))
        if self._words[at.ABANDONED // wire.WORD]:
            # MPI may still read and write this memory, and the requests that would tell are given up.
            self._set(at.ABANDONED, 0)
            for place in (at.OUTBOX, at.INBOX, at.REQUESTS, at.SLOTS):
                self._lost.append(self._areas[place])
                self._set(place, self._memory(place, self._areas[place].size))

    def _set(self, place: int, value: int) -> None:
        # Addresses and the handles of some MPIs are unsigned.
        self._words[place // wire.WORD] = (value + 2**63) % 2**64 - 2**63

    def _memory(self, place: int, size: int) -> int:
        """New memory for a place of the table: its address, at the beginning of a cache line."""
        memory = np.zeros(-(-size // _LINE) * _LINE + _LINE, np.uint8)
        start = -memory.ctypes.data % _LINE
        self._areas[place] = memory[start : start + -(-size // _LINE) * _LINE]
        return memory.ctypes.data + start


def _ranks(peers: list[int]) -> str:
    return f"rank{'s' if len(peers) > 1 else ''} {', '.join(map(str, peers))}"


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


_engine: Engine | None = None


def engine(world: World) -> Engine:
    """The engine of this process, made at the first call."""
    global _engine
    if _engine is None or _engine.world is not world:
        _engine = Engine(world)
    return _engine
