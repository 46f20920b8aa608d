"""Exchanges on one rank: which box of which buffer goes to whom, and comes from whom.

Sender and receiver derive the same boxes from the same partitions; no list of ranks is kept and nothing is agreed
by talking.  Cost on a rank: the sum of the grid's extents and the number of its neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..fuse.plan import Transfer, widths
from ..ir import Partition, Pinned, Split, Spread, View
from .geometry import Layout, Region, shape_of
from .patterns import Lists
from .transport import Box, Message


@dataclass
class Messages:
    """The boxes of an exchange while they are collected, by peer."""

    rank: int
    sends: dict[int, list[Box]] = field(default_factory=dict)
    receives: dict[int, list[Box]] = field(default_factory=dict)
    copies: list[tuple[Box, Box]] = field(default_factory=list)

    def messages(self, boxes: dict[int, list[Box]]) -> tuple[Message, ...]:
        """One message for each peer."""
        return tuple(Message(peer, tuple(boxes[peer])) for peer in sorted(boxes))


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, n = [], 1
    for extent in reversed(shape):
        strides.append(n)
        n *= extent
    return tuple(reversed(strides))


def box_in(region: Region, view: View, buffer: Region, number: int, flag: int) -> Box:
    """The box of a buffer that a region of a view's domain reads, in the order of the domain's axes.

    Broadcast axes are left out: their one element travels once.
    """
    strides = strides_of(shape_of(buffer))
    offset = 0
    along: dict[int, int] = {}
    for a, (low, _), stride in zip(view.axes, buffer, strides, strict=True):
        first = 0 if a.source is None else region[a.source][0]
        offset += (a.offset + a.step * first - low) * stride
        if a.source is not None:
            along[a.source] = a.step * stride
    axes = sorted(along)
    return Box(number, offset, tuple(region[d][1] - region[d][0] for d in axes), tuple(along[d] for d in axes), flag)


# --- halos ---------------------------------------------------------------------------------------


def directions(transfer: Transfer) -> list[tuple[int, ...]]:
    """The neighbours' directions whose elements the shifts reach: faces, and corners only where two axes shift."""
    found: set[tuple[int, ...]] = set()
    for shift in transfer.shifts:
        sides = [(0,) if s == 0 else (0, 1 if s > 0 else -1) for s in shift]
        found.update(itertools.product(*sides))
    return sorted(d for d in found if any(d))


def add_halo(
    messages: Messages, transfer: Transfer, shape: tuple[int, ...], held: Layout, number: int, flag: int
) -> None:
    """Add the boxes that fill the margin of a store's buffer from its neighbours' blocks."""
    partition, me = transfer.source, transfer.source.coordinates(messages.rank)
    reach = widths(transfer)
    identity = View.identity(shape)

    def anchors(g: int, coordinate: int, side: int) -> tuple[int, int]:
        d = partition.dims[g]
        assert isinstance(d, Split)
        low, high = d.bound(coordinate), d.bound(coordinate + 1)
        if low == high:
            return (0, 0)  # an empty block computes nothing and needs nothing
        if side > 0:
            return high, min(high + reach[g][1], d.extent)
        return (max(low - reach[g][0], 0), low) if side < 0 else (low, high)

    def overlap(receiver: tuple[int, ...], sender: tuple[int, ...], direction: tuple[int, ...]) -> Region | None:
        region = [(0, n) for n in shape]
        for g, d in enumerate(partition.dims):
            if isinstance(d, Split):
                low, high = anchors(g, receiver[g], direction[g])
                low, high = max(low, d.bound(sender[g])), min(high, d.bound(sender[g] + 1))
                j, k = d.preimage(low, high) if low < high else (0, 0)
                j, k = max(j, 0), min(k, shape[d.axis])
                if j >= k:
                    return None
                region[d.axis] = (j, k)
        return tuple(region)

    def candidates(direction: tuple[int, ...], receiving: bool) -> Iterator[tuple[int, ...]]:
        choices: list[list[int]] = []
        for g, d in enumerate(partition.dims):
            if not isinstance(d, Split) or direction[g] == 0:
                choices.append([me[g]])
            elif receiving:
                low, high = anchors(g, me[g], direction[g])
                choices.append(list(range(d.owner(low), d.owner(high - 1) + 1)) if low < high else [])
            else:
                low, high = d.bound(me[g]), d.bound(me[g] + 1)
                near = [(c, anchors(g, c, direction[g])) for c in range(d.parts)]
                choices.append([c for c, (i, j) in near if i < j and i < high and low < j])
        yield from itertools.product(*choices)

    for direction in directions(transfer):
        for peer in candidates(direction, receiving=True):
            region = overlap(me, peer, direction)
            if region is not None and peer != me:
                box = box_in(region, identity, held.buffer, number, flag)
                messages.receives.setdefault(partition.rank(peer), []).append(box)
        for peer in candidates(direction, receiving=False):
            region = overlap(peer, me, direction)
            if region is not None and peer != me:
                box = box_in(region, identity, held.buffer, number, flag)
                messages.sends.setdefault(partition.rank(peer), []).append(box)


# --- lists ---------------------------------------------------------------------------------------


def add_lists(messages: Messages, lists: Lists, numbers: tuple[int, int]) -> None:
    """Add the boxes of a gather: the parts of what has been packed for each peer, and of what comes from each.

    ``numbers`` are the places of the two among the buffers of the exchange.
    """
    for boxes, number, counts in (
        (messages.sends, numbers[0], lists.sends),
        (messages.receives, numbers[1], lists.receives),
    ):
        start = 0
        for peer, count in counts:
            if count:
                boxes.setdefault(peer, []).append(Box(number, start, (count,), (1,)))
            start += count


# --- moves ---------------------------------------------------------------------------------------


def add_move(
    messages: Messages, transfer: Transfer, ranks: int, held: Layout, target: Region, numbers: tuple[int, int]
) -> None:
    """Add the boxes that lay a view of a store out over another partition.

    ``held`` is the store's layout here, ``target`` the block of the view's domain that this rank gets (broadcast axes
    one element long), ``numbers`` the source's and the result's place among the buffers of the exchange.
    """
    view, partition = transfer.view, transfer.partition
    assert view is not None and partition is not None
    source = transfer.source.pull(view)
    used = [d for d in range(len(view.shape)) if d not in set(view.broadcast_axes())]
    identity = View.identity(tuple(h - low for low, h in target))

    def wanted(rank: int) -> Region:
        block = partition.block(view.shape, partition.coordinates(rank))
        if any(low >= high for low, high in block):
            return tuple((0, 0) for _ in block)
        return tuple(block[d] if d in used else (0, 1) for d in range(len(block)))

    def senders(receiver: int, region: Region) -> Iterator[tuple[int, Region]]:
        """The ranks that send to ``receiver`` and what; of copies, the receiver's own coordinate serves."""
        if any(low >= high for low, high in region):
            return
        beside = source.coordinates(receiver) if source.dims else ()
        choices: list[list[int]] = []
        for g, d in enumerate(source.dims):
            match d:
                case Split():
                    hit = (c for c in range(d.parts) if _meet(d.interval(c), region[d.axis]))
                    choices.append(list(hit))
                case Pinned():
                    choices.append([d.owner()])
                case Spread():
                    choices.append([beside[g]])
        for coordinates in itertools.product(*choices):
            part = list(region)
            for d, c in zip(source.dims, coordinates, strict=True):
                if isinstance(d, Split):
                    low, high = d.interval(c)
                    part[d.axis] = (max(part[d.axis][0], low), min(part[d.axis][1], high))
            yield source.rank(coordinates) if source.dims else receiver, tuple(part)

    def into(part: Region) -> Box:
        moved = tuple((low - t, high - t) for (low, high), (t, _) in zip(part, target, strict=True))
        box = box_in(moved, identity, tuple((0, h - low) for low, h in target), numbers[1], -1)
        return Box(box.buffer, box.offset, tuple(box.shape[d] for d in used), tuple(box.strides[d] for d in used))

    for peer, part in senders(messages.rank, wanted(messages.rank)):
        if peer == messages.rank:
            messages.copies.append((box_in(part, view, held.buffer, numbers[0], -1), into(part)))
        else:
            messages.receives.setdefault(peer, []).append(into(part))
    for receiver in _receivers(messages.rank, partition, source, view, ranks):
        for peer, part in senders(receiver, wanted(receiver)):
            if peer == messages.rank and receiver != messages.rank:
                messages.sends.setdefault(receiver, []).append(box_in(part, view, held.buffer, numbers[0], -1))


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return max(a[0], b[0]) < min(a[1], b[1])


def _receivers(rank: int, target: Partition, source: Partition, view: View, ranks: int) -> Iterator[int]:
    """The ranks whose target block may meet this rank's part of the source, in rank order."""
    if not target.dims:
        yield from range(ranks)
        return
    mine = source.coordinates(rank)
    own: dict[int, tuple[int, int]] = {
        d.axis: d.interval(c) for d, c in zip(source.dims, mine, strict=True) if isinstance(d, Split)
    }
    choices = [
        [
            c
            for c in range(d.parts)
            if not isinstance(d, Split) or d.axis not in own or _meet(d.interval(c), own[d.axis])
        ]
        for d in target.dims
    ]
    for coordinates in itertools.product(*choices):
        yield target.rank(coordinates)
