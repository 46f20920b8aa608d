"""The boxes of loops: axes that lie one behind the other in memory become one, and one long axis becomes rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .body import Body, Box, Loop, Place, Store, Value, Values

#: Elements of the rows into which a long axis is cut: a number of cache lines and of pages that is no power of two,
#: so that rows which are computed together do not meet in the same place of a cache.
ROW = 1984


def in_rows(loop: Loop) -> list[Loop]:
    """The same loop as rows, and a second one for what is left of the last row."""
    if loop.beside:
        return [loop]
    body = _merged(loop.main)
    low, high = body.box[-1]
    rows = (high - low) // ROW
    if len(body.box) > 1 or rows < 8:
        return [Loop(body, [])]
    middle = low + rows * ROW

    def place(p: Place) -> Place:
        (stride,) = p.strides
        return Place(p.array, p.offset + low * stride, (ROW * stride, stride), p.reach)

    main = _moved(body, ((0, rows), (0, ROW)), place)
    if middle == high:
        return [Loop(main, [])]
    rest = _moved(body, ((middle, high),), lambda p: p)
    rest.folds[:] = [replace(fold, more=True) for fold in rest.folds]
    return [Loop(main, []), Loop(rest, [])]


def _merged(body: Body) -> Body:
    """The body with its last two axes as one, as often as all places allow."""
    while len(body.box) > 1:
        (a, b), (c, d) = body.box[-2:]
        places = [*body.loads(), *(s.place for s in body.stores)]
        if any(p.strides[-2] != p.strides[-1] * (d - c) for p in places):
            return body

        def place(p: Place, a: int = a, c: int = c) -> Place:
            offset = p.offset + a * p.strides[-2] + c * p.strides[-1]
            return Place(p.array, offset, (*p.strides[:-2], p.strides[-1]), p.reach)

        body = _moved(body, (*body.box[:-2], (0, (b - a) * (d - c))), place)
    return body


def _moved(body: Body, box: Box, place: Callable[[Place], Place]) -> Body:
    """The body over another box, with its places seen from there."""
    values = Values()
    for v in body.values.all:  # in their order, so that numbers stay
        values.all.append(Value(v.op, v.dtype, v.args, place(v.extra) if v.op == "load" else v.extra))
    stores = [Store(place(s.place), s.value, s.past) for s in body.stores]
    return Body(box, values, stores, list(body.folds))
