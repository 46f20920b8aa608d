"""Element by element access, where the elements are known at run time only: index arrays, masks, reshapes.

Each rank lists the elements that it wants or gives by their flat (row-major) index in a view; the owners are computed
from the partition, and requests and replies travel in one all-to-all each.  Nothing is gathered on one rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import config
from ..ir import Pinned, Split, Spread, View, canonical
from ..lower.geometry import Layout, layout, margin_for
from . import agree, device
from .buffers import worthwhile
from .ranks import world
from .stores import Data, LogicalStore

Interval = tuple[int, int]


def own_block(shape: tuple[int, ...]) -> tuple[Interval, ...]:
    """The block of a new array of ``shape`` that this rank holds."""
    partition = canonical(shape, world().size, config.get("grid") or ())
    return partition.block(shape, partition.coordinates(world().rank))


def from_block(shape: tuple[int, ...], block: np.ndarray) -> Data:
    """The data of a new array of ``shape``, given this rank's block of it (as `own_block` says)."""
    partition = canonical(shape, world().size, config.get("grid") or ())
    margin = margin_for(partition, len(shape), config.get("halo"))
    held = layout(shape, partition, margin, world().rank)
    local = np.zeros(held.shape, block.dtype)
    local[held.own()] = block
    return Data(device.put(local), partition, margin, reusable=worthwhile(local.shape, local.dtype))


def flat_indices(shape: tuple[int, ...], region: Sequence[Interval]) -> np.ndarray:
    """Flat (row-major) indices, int64, of a region of an array of ``shape``; of the region's shape."""
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    result = np.zeros((), np.int64)
    for k, ((low, high), stride) in enumerate(zip(region, strides, strict=True)):
        axis = [1] * len(shape)
        axis[k] = high - low
        result = result + (np.arange(low, high, dtype=np.int64) * stride).reshape(axis)
    return result


def take(store: LogicalStore, data: Data, view: View, flat: np.ndarray, line: str) -> np.ndarray:
    """Elements of a view by flat index (int64, any shape), as each rank wants them.  A collective."""
    owners, offsets = _locate(store, data, view, flat.ravel())
    local = np.asarray(data.buffer).ravel()
    if world().size == 1:
        return local[offsets].reshape(flat.shape)
    order, parts = _by_rank(owners)
    agree.agree(world(), _TAKE, line)
    requests = agree.alltoall_blocks(world(), [offsets[order[p]] for p in parts])
    replies = agree.alltoall_blocks(world(), [local[r] for r in requests])
    result = np.empty(flat.size, store.dtype)
    result[order] = np.concatenate(replies)
    return result.reshape(flat.shape)


def put(
    store: LogicalStore, data: Data, view: View, flat: np.ndarray, place: np.ndarray, values: np.ndarray, line: str
) -> None:
    """Set elements of a view by flat index; of several values for one element that of the highest ``place`` stays.

    ``flat``, ``place`` (int64) and ``values`` have equal shapes on a rank.  A collective.
    """
    flat, place, values = flat.ravel(), place.ravel(), values.ravel().astype(store.dtype)
    owners, offsets = _locate(store, data, view, flat)
    if world().size > 1:
        agree.agree(world(), _PUT, line)
        if not data.partition.dims or any(isinstance(d, Spread) for d in data.partition.dims):
            # There are copies: every rank sees everything, and takes what belongs into its own.
            flat, place, values = (np.concatenate(agree.allgather_blocks(world(), a)) for a in (flat, place, values))
            owners, offsets = _locate(store, data, view, flat)
            mine = owners == world().rank
            offsets, place, values = offsets[mine], place[mine], values[mine]
        else:
            order, parts = _by_rank(owners)
            offsets, place, values = (
                np.concatenate(agree.alltoall_blocks(world(), [a[order[p]] for p in parts]))
                for a in (offsets, place, values)
            )
    local = np.array(data.buffer)
    # Highest place first, of each element only the first: NumPy's order of assignment.
    sequence = np.argsort(place, kind="stable")[::-1]
    first = np.unique(offsets[sequence], return_index=True)[1]
    chosen = sequence[first]
    local.reshape(-1)[offsets[chosen]] = values[chosen]
    data.buffer, data.valid = device.put(local), frozenset()


def select(flat: np.ndarray, values: np.ndarray, total: int, line: str) -> tuple[int, np.ndarray]:
    """Sort elements that the ranks hold in any order by their flat index (below ``total``).

    Returns their number on all ranks, and this rank's block of them.  A collective.
    """
    size = world().size
    if size == 1:
        return values.size, values.ravel()[np.argsort(flat.ravel(), kind="stable")]
    order, parts = _by_rank(flat.ravel() * size // max(total, 1))
    agree.agree(world(), _SELECT, line)
    flat, values = (
        np.concatenate(agree.alltoall_blocks(world(), [a.ravel()[order[p]] for p in parts])) for a in (flat, values)
    )
    values = values[np.argsort(flat, kind="stable")]
    counts = [int(c[0]) for c in agree.allgather_blocks(world(), np.array([values.size], np.int64))]
    count, start = sum(counts), sum(counts[: world().rank])
    partition = canonical((count,), size, config.get("grid") or ())
    pieces = []
    for rank in range(size):
        low, high = partition.block((count,), partition.coordinates(rank))[0]
        pieces.append(values[max(low - start, 0) : max(high - start, 0)])
    if partition.replicated:
        pieces = [values] * size
    return count, np.concatenate(agree.alltoall_blocks(world(), pieces))


def _locate(store: LogicalStore, data: Data, view: View, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rank that owns each element of a view, and its place in the buffer there."""
    domain = np.unravel_index(flat, view.shape) if view.shape else ()
    index = [
        np.full(flat.shape, a.offset) if a.source is None else a.offset + a.step * domain[a.source] for a in view.axes
    ]
    partition = data.partition
    owners = np.zeros(flat.shape, np.int64)
    here = partition.coordinates(world().rank)
    for d, own in zip(partition.dims, here, strict=True):
        match d:
            case Split():
                anchors = d.offset + d.step * index[d.axis]
                coordinate = ((anchors + 1) * d.parts - 1) // d.extent
            case Pinned():
                coordinate = np.full(flat.shape, d.owner())
            case _:
                coordinate = np.full(flat.shape, own)  # the nearest copy
        owners = owners * d.parts + coordinate
    if not partition.dims:
        owners += world().rank
    offsets = np.zeros(flat.shape, np.int64)
    for rank in np.unique(owners):
        held: Layout = layout(store.shape, partition, data.margin, int(rank))
        chosen = owners == rank
        offset = np.zeros(int(chosen.sum()), np.int64)
        for k, (low, high) in enumerate(held.buffer):
            offset = offset * (high - low) + index[k][chosen] - low
        offsets[chosen] = offset
    return owners, offsets


def _by_rank(owners: np.ndarray) -> tuple[np.ndarray, list[slice]]:
    """The order that sorts elements by rank, and the slice of it for each rank."""
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(world().size + 1))
    return order, [slice(int(a), int(b)) for a, b in zip(bounds, bounds[1:], strict=False)]


_TAKE, _PUT, _SELECT = 0x7A4E, 0x9C17, 0x5E1C
