"""Flat descriptions of exchanges and reductions, as compiled code reads them: int64, offsets in bytes.

Each begins with the header of its messages.  In an exchange the messages follow: receives, sends, then the copies that
stay on the rank.  A box is a copy between two places, one of which may be the wire.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..lower.transport import Box, ExchangeSpec, Message
from . import wire
from .wire import HEADER, WORD

(
    EXCHANGE_SOURCES,
    EXCHANGE_FLAGS,
    EXCHANGE_RECEIVES,
    EXCHANGE_SENDS,
    EXCHANGE_COPIES,
    EXCHANGE_LIST,
) = range(HEADER, HEADER + 6 * WORD, WORD)

MESSAGE_PEER, MESSAGE_BOXES, MESSAGE_LIST = range(0, 3 * WORD, WORD)

# A box: its length in the description, its flag, where it comes from and goes to (a buffer's number, or WIRE, and an
# offset), its bytes, the bytes of a contiguous unit and the number of axes; then for each axis the extents, the steps
# at the source, those at the target, and room for counters.
(
    BOX_LENGTH,
    BOX_FLAG,
    BOX_FROM,
    BOX_FROM_OFFSET,
    BOX_TO,
    BOX_TO_OFFSET,
    BOX_BYTES,
    BOX_UNIT,
    BOX_DIMS,
    BOX_SHAPE,
) = range(0, 10 * WORD, WORD)
WIRE = -1

(
    COMBINE_FUNCTION,
    COMBINE_OPERATOR,
    COMBINE_ITEMSIZE,
    COMBINE_ITEMS,
    COMBINE_PLACE,
    COMBINE_SIZE,
    COMBINE_RANKS,
) = range(HEADER, HEADER + 7 * WORD, WORD)


def flatten(spec: ExchangeSpec, rank: int, sources: int, flags: int) -> np.ndarray:
    """The description of an exchange.

    ``sources`` is the number of buffers that are only read, ``flags`` the number of the operand with the flags.
    """
    words = [*wire.header(spec.digest, spec.where, rank).tolist(), sources, flags]
    words += [len(spec.receives), len(spec.sends), 0]
    for messages, sending in ((spec.receives, False), (spec.sends, True)):
        for message in messages:
            boxes = [_wire_box(box, spec.itemsizes[box.buffer], sending) for box in message.boxes if _filled(box)]
            words += [message.peer, len(boxes)]
            for box in boxes:
                words += box
    for source, target in spec.copies:
        if source.shape != target.shape or spec.itemsizes[source.buffer] != spec.itemsizes[target.buffer]:
            raise ValueError(f"a copy of {source} to {target}: shapes and item sizes must be equal")
        if _filled(source):
            words[EXCHANGE_COPIES // WORD] += 1
            words += _copy_box(source, target, spec.itemsizes[source.buffer])
    return np.array(words, np.int64)


def sizes(messages: Sequence[Message], itemsizes: Sequence[int]) -> list[int]:
    """The bytes that messages carry when all boxes travel."""
    return [sum(math.prod(b.shape) * itemsizes[b.buffer] for b in m.boxes) for m in messages]


def flatten_combine(
    digest: int, where: str, rank: int, ranks: Sequence[int], function: int, operator: int, itemsize: int, items: int
) -> np.ndarray:
    """The description of an allreduce or a scan over ``ranks``; ``function`` is the address of the combiner."""
    words = wire.header(digest, where, rank).tolist()
    words += [function, operator, itemsize, items, ranks.index(rank), len(ranks), *ranks]
    return np.array(words, np.int64)


def _filled(box: Box) -> bool:
    return 0 not in box.shape


def _wire_box(box: Box, itemsize: int, sending: bool) -> list[int]:
    steps = [s * itemsize for s in box.strides]
    packed: list[int] = []
    step = itemsize
    for extent in reversed(box.shape):
        packed.insert(0, step)
        step *= extent
    offset = box.offset * itemsize
    if sending:
        return _box(box.flag, (box.buffer, offset), (WIRE, 0), itemsize, box.shape, steps, packed)
    return _box(box.flag, (WIRE, 0), (box.buffer, offset), itemsize, box.shape, packed, steps)


def _copy_box(source: Box, target: Box, itemsize: int) -> list[int]:
    first, second = ([s * itemsize for s in box.strides] for box in (source, target))
    here, there = ((box.buffer, box.offset * itemsize) for box in (source, target))
    return _box(max(source.flag, target.flag), here, there, itemsize, source.shape, first, second)


def _box(
    flag: int,
    source: tuple[int, int],
    target: tuple[int, int],
    itemsize: int,
    shape: Sequence[int],
    source_steps: Sequence[int],
    target_steps: Sequence[int],
) -> list[int]:
    # The order of the axes is free: with the target's smallest steps innermost, writes are as contiguous as they can
    # be.  Axes that are one in both places are joined.
    axes = [a for a in zip(shape, source_steps, target_steps, strict=True) if a[0] != 1]
    axes.sort(key=lambda a: -abs(a[2]))
    joined: list[tuple[int, int, int]] = []
    for n, s, t in axes:
        if joined and joined[-1][1] == n * s and joined[-1][2] == n * t:
            joined[-1] = (joined[-1][0] * n, s, t)
        else:
            joined.append((n, s, t))
    unit = itemsize
    if joined and joined[-1][1] == joined[-1][2] == itemsize:
        unit *= joined.pop()[0]
    dims = len(joined)
    size = math.prod(shape) * itemsize
    length = BOX_SHAPE + 4 * dims * WORD
    columns = [[axis[k] for axis in joined] for k in range(3)]
    return [length, flag, *source, *target, size, unit, dims, *columns[0], *columns[1], *columns[2], *[0] * dims]
