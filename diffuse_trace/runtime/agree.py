"""Communication from Python: agreement of the ranks, and whole blocks from each to each.

`agree` comes first.  It speaks the protocol of the messages inside executables, so that a rank that gathers and one
that exchanges find out about each other.  What follows it uses mpi4py on a communicator of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from . import wire
from .ranks import World


def agree(world: World, digest: int, where: str) -> None:
    """Make sure that all ranks run the same collective operation.

    Args:
        world: the ranks.
        digest: identifies the operation; equal on ranks that run the same program.
        where: the user's line.

    Raises:
        RankMismatchError: another rank runs something else, or has ended.
        CommunicationError: a rank waited too long, or MPI failed.
    """
    if world.size == 1:
        return
    from .engine import engine

    state = engine(world)
    header = wire.header(digest, where, world.rank)
    step, distance = _step(), 1
    # After each step a rank knows of twice as many ranks that they came here.
    while distance < world.size:
        target, source = (world.rank + distance) % world.size, (world.rank - distance) % world.size
        step(state.table, header.ctypes.data, target, source)
        state.check()
        distance *= 2


@cache
def _step() -> Callable[[int, int, int, int], int]:
    from . import handlers
    from .native import compiled

    word = ctypes.c_int64
    handler = compiled(handlers.step, 4)
    function = ctypes.CFUNCTYPE(word, word, word, word, word)(handler.address)
    function.handler = handler  # type: ignore[attr-defined]  # which owns the code
    return function


def bcast(world: World, value: Any, root: int = 0) -> Any:
    """The object of rank ``root``, on every rank; it must be picklable."""
    return value if world.size == 1 else world.comm.bcast(value, root)


def allgather_blocks(world: World, array: np.ndarray) -> list[np.ndarray]:
    """The arrays of all ranks, by rank; shapes and dtypes may differ."""
    if world.size == 1:
        return [np.asarray(array, order="C")]
    kinds = world.comm.allgather((array.shape, array.dtype.str))
    own = np.asarray(array, order="C")
    blocks = [own if rank == world.rank else np.empty(*kind) for rank, kind in enumerate(kinds)]
    # Each rank hands on to its right what came from its left: no rank has more than two messages under way.
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    for step in range(world.size - 1):
        send, receive = (world.rank - step) % world.size, (world.rank - step - 1) % world.size
        _swap(world, right, blocks[send], left, blocks[receive])
    return blocks


def alltoall_blocks(world: World, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Give each rank its array of ``arrays``; the result holds what came from each rank.

    Raises:
        ValueError: there are not as many arrays as ranks.
    """
    if len(arrays) != world.size:
        raise ValueError(f"{len(arrays)} arrays for {world.size} ranks")
    if world.size == 1:
        return [np.asarray(arrays[0], order="C")]
    kinds = world.comm.alltoall([(a.shape, a.dtype.str) for a in arrays])
    result = [np.empty(*kind) for kind in kinds]
    result[world.rank] = np.asarray(arrays[world.rank], order="C")
    for step in range(1, world.size):
        target, source = (world.rank + step) % world.size, (world.rank - step) % world.size
        _swap(world, target, np.asarray(arrays[target], order="C"), source, result[source])
    return result


def _swap(world: World, target: int, outgoing: np.ndarray, source: int, incoming: np.ndarray) -> None:
    from mpi4py import MPI

    requests = [world.comm.Irecv([piece, MPI.BYTE], source) for piece in _pieces(incoming)]
    requests += [world.comm.Isend([piece, MPI.BYTE], target) for piece in _pieces(outgoing)]
    MPI.Request.Waitall(requests)


def _pieces(array: np.ndarray) -> list[np.ndarray]:
    """The bytes of a contiguous array, in pieces that MPI can count."""
    from .engine import CHUNK

    data = array.reshape(-1).view(np.uint8)
    return [data[start : start + CHUNK] for start in range(0, data.size, CHUNK)]
