"""Waves: loops that follow each other row by row, so that what one has made is in the cache when the next reads it.

Loop after loop over blocks that the caches do not hold, each one reads from memory what another has just written.  A
wave runs some rows of the first, then those of the second that need no others, and so on, and begins again: the
skewing of loop transformations (Wolfe, "Loop Skewing: The Wavefront Method Revisited", 1986).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .body import Code, Loop, Place
from .shapes import in_rows

#: Bytes that the rows of all arrays in flight may take: half of a usual second-level cache.
_FLIGHT = 1 << 20
#: Bytes of all arrays of a wave below which they stay in the cache anyway.
_LEAST = 1 << 20


@dataclass(frozen=True)
class Wave:
    """Loops that run together: in step ``s`` the ``rows`` rows of each from ``s * rows + shift`` on.

    With ``rows`` 0 they run one after the other as a whole.
    """

    loops: tuple[Loop, ...]
    shifts: tuple[int, ...]
    rows: int


class _Barrier(Exception):
    """A loop must be over before another begins."""


def waves(code: Code) -> list[Wave]:
    """The loops of a call in waves."""
    found: list[Wave] = []
    left = list(code.loops)
    while left:
        shifts = [0]
        while len(shifts) < len(left):
            try:
                shifts.append(_shift(code, left[: len(shifts) + 1], shifts))
            except _Barrier:
                break
        loops, left = left[: len(shifts)], left[len(shifts) :]
        if rows := _rows(code, loops):
            found.append(Wave(tuple(loops), tuple(shifts), rows))
        else:
            found += [Wave((part,), (0,), 0) for loop in loops for part in in_rows(loop)]
    return found


def _shift(code: Code, loops: Sequence[Loop], shifts: Sequence[int]) -> int:
    """By how many rows the last of some loops must be behind."""
    last = loops[-1]
    if any(len(loop.main.box) < 2 for loop in loops):
        raise _Barrier
    shift = max(shifts)
    for loop, ahead in zip(loops[:-1], shifts, strict=True):
        for p, stored in [(p, True) for p in _stores(loop)] + [(p, False) for p in _loads(loop)]:
            for q, changed in [(q, True) for q in _stores(last)] + [(q, False) for q in _loads(last)]:
                if p.array == q.array and (stored or changed):
                    distance = _row(code, last, q) - _row(code, loop, p)
                    shift = min(shift, ahead - distance)
        if _folded(loop) & {p.array for p in (*_loads(last), *_stores(last))} or _folded(loop) & _folded(last):
            raise _Barrier
    return shift


def _row(code: Code, loop: Loop, place: Place) -> int:
    """The row of an array that a place names at row 0 of a loop."""
    shape = code.arrays[place.array][1]
    pitch = math.prod(shape[1:])
    if place.strides[0] != pitch:
        raise _Barrier
    # The other axes stay within a row of the array.
    box = loop.main.box
    columns = place.offset + sum(s * low for s, (low, _) in zip(place.strides[1:], box[1:], strict=True))
    return columns // pitch


def _folded(loop: Loop) -> set[int]:
    return {fold.array for body in loop.bodies() for fold in body.folds}


def _stores(loop: Loop) -> list[Place]:
    return [store.place for body in loop.bodies() for store in body.stores]


def _loads(loop: Loop) -> list[Place]:
    return [place for body in loop.bodies() for place in body.loads()]


def _rows(code: Code, loops: Sequence[Loop]) -> int:
    """How many rows of each loop make a step; 0 where a wave gains nothing."""
    places = [p for loop in loops for p in (*_stores(loop), *_loads(loop))]
    arrays = {p.array for p in places if p.strides[0]}
    written = {p.array for loop in loops for p in _stores(loop)}
    if len(loops) < 2 or not any(p.array in written for loop in loops[1:] for p in _loads(loop)):
        return 0  # nothing is handed on
    nbytes = {n: math.prod(code.arrays[n][1]) * code.arrays[n][0].itemsize for n in arrays}
    if sum(nbytes.values()) < _LEAST:
        return 0
    row = sum(nbytes[n] // max(1, code.arrays[n][1][0]) for n in arrays if code.arrays[n][1])
    rows = max(1, min(64, _FLIGHT // max(1, row)))
    return rows // 4 * 4 or rows
