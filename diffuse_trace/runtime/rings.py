"""Rings of slots in memory that the ranks of one node share: the way of short messages between them.

A message through MPI costs its ends a microsecond or two, which is most of an iteration over arrays in the caches.
There is a ring for each ordered pair of ranks.  Its sender fills slots in turn and numbers them, its receiver counts
those it has taken, so neither writes what the other does.  `near.py` is what compiled code does with them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from typing import Any

import numpy as np

from .. import config
from . import wire

#: Places in a ring, in bytes.  A line of the cache for what the sender writes (messages put, and how many of them it
#: knows to be taken), one for what the receiver does (messages taken), then the slots.
PUT, KNOWN, TAKEN, FIRST = 0, wire.WORD, 64, 128
#: Places in a slot: the message's number from 1, its epoch and its bytes, then the message, but the text of its header,
#: which is read only where ranks differ, stands last: a message of two numbers is one line for the cache to move.
NUMBER, EPOCH, SIZE, MESSAGE = 0, wire.WORD, 2 * wire.WORD, 3 * wire.WORD
PAYLOAD = MESSAGE + wire.TEXT_WORD * wire.WORD
TEXT = PAYLOAD + wire.EAGER - wire.HEADER
TEXT_BYTES = wire.HEADER - wire.TEXT_WORD * wire.WORD
SLOTS = 4
SLOT_BYTES = -(-(TEXT + TEXT_BYTES) // 64) * 64
RING_BYTES = FIRST + SLOTS * SLOT_BYTES

_FOLDER = "/dev/shm"
_MOST = 1 << 28  # bytes on a node; more ranks than that allows use MPI


class Rings:
    """The rings of one rank.

    Attributes:
        addresses: for each rank the addresses of the ring from it and of that to it; 0 for ranks of other nodes.
    """

    def __init__(self, memory: mmap.mmap, ranks: list[int], rank: int, size: int) -> None:
        self._words = np.frombuffer(memory, np.int64)  # keeps the memory
        self._from: dict[int, int] = {}
        self.addresses = np.zeros((size, 2), np.int64)
        start, me = self._words.ctypes.data, ranks.index(rank)
        for other, peer in enumerate(ranks):
            if peer != rank:
                ends = [(other * len(ranks) + me) * RING_BYTES, (me * len(ranks) + other) * RING_BYTES]
                self.addresses[peer] = np.add(start, ends)
                self._from[peer] = ends[0] // wire.WORD
        self._fence = threading.Lock()

    def left(self, epoch: int) -> list[tuple[int, np.ndarray]]:
        """Take all that has come and was not received: (rank, header) of what belongs to an epoch."""
        found = []
        for peer, ring in self._from.items():
            while True:
                taken = int(self._words[ring + TAKEN // wire.WORD])
                slot = ring + (FIRST + taken % SLOTS * SLOT_BYTES) // wire.WORD
                if self._words[slot] != taken + 1 or self._words[slot + EPOCH // wire.WORD] > epoch:
                    break
                with self._fence:  # the message is read after its number
                    places = (MESSAGE, PAYLOAD), (TEXT, TEXT + TEXT_BYTES)
                    parts = [self._words[slot + a // wire.WORD : slot + b // wire.WORD] for a, b in places]
                    header = np.concatenate(parts)
                    if self._words[slot + EPOCH // wire.WORD] == epoch:
                        found.append((peer, header))
                self._words[ring + TAKEN // wire.WORD] = taken + 1
        return found


def share(comm: Any) -> Rings | None:
    """The rings of this rank, made by all ranks together; None where there is nobody to share them with, or no memory.

    Args:
        comm: the mpi4py communicator of all ranks.
    """
    from mpi4py import MPI

    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = node.allgather(comm.Get_rank())
    wanted = node.allreduce(config.get("shared"), MPI.LAND) and len(ranks) > 1
    memory = _map(node, len(ranks) ** 2 * RING_BYTES) if wanted else None
    node.Free()
    return Rings(memory, ranks, comm.Get_rank(), comm.Get_size()) if memory is not None else None


def _map(node: Any, size: int) -> mmap.mmap | None:
    """New memory shared by the ranks of a communicator; None for all if one of them cannot have it."""
    name, file, memory = "", -1, None
    if node.Get_rank() == 0 and size <= _MOST:
        try:
            file, name = tempfile.mkstemp(prefix="diffuse_trace_", dir=_FOLDER)
            os.posix_fallocate(file, 0, size)  # or the first write to a full folder would end the process
        except OSError:
            size = 0
    name, size = node.bcast((name, size))
    try:
        if size and name:
            file = file if file >= 0 else os.open(name, os.O_RDWR)
            memory = mmap.mmap(file, size)
    except OSError:
        pass
    finally:
        if file >= 0:
            os.close(file)
    complete = all(node.allgather(memory is not None))
    if node.Get_rank() == 0 and name:
        os.unlink(name)  # the memory lives on until the last rank has ended
    return memory if complete else None
