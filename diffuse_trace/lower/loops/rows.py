"""The rows of a body as LLVM code.

Several rows are computed at a time: as many streams of memory keep the processor's prefetchers busy, and what rows
share is loaded once.  Along a row the code works on vectors of one cache line.  Large results are stored past the
caches, a full line at a time: a line that is written need not be read first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .body import Body, Code, Fold, Place
from .function import BYTE, INT, WORD, Carried, Function, word
from .operations import combined, identity, operate, splat
from .points import LINE, Point

#: Elements ahead of the present one that are asked for.
_AHEAD = 64


class Rows:
    """A body while it is emitted."""

    def __init__(self, function: Function, code: Code, bases: list[Any], body: Body, dims: int) -> None:
        self.function, self.builder, self.code, self.bases = function, function.builder, code, bases
        self.body, self.dims = body, dims
        self.values = body.values.all
        self.folds: list[Fold] = body.folds
        self.needed = body.values.needed(body.results())
        self.levels = self._levels()
        self.lanes = LINE // max([4, *(self.values[n].dtype.itemsize for n in self.needed)])
        self.width = body.box[-1][1] - body.box[-1][0]
        self.stores = body.stores
        self.lead = next((s.place for s in body.stores if s.past), None)
        #: How many rows are computed together.
        self.rows = self._choose_rows()

    def _levels(self) -> dict[int, int]:
        """0 for values that are the same for all points, 1 for those that are along a row, else 2."""
        levels: dict[int, int] = {}
        for n in self.needed:
            value = self.values[n]
            level = max((levels[a] for a in value.args), default=0)
            if value.op == "load":
                strides = value.extra.strides
                level = 2 if strides and strides[-1] else 1 if any(strides) else 0
            levels[n] = level
        return levels

    def _choose_rows(self) -> int:
        if self.dims < 2 or self.width < 2 * self.lanes:
            return 1
        low, high = self.body.box[-2]
        arrays = {(p.array, p.strides) for p in (*self.body.loads(), *(s.place for s in self.stores))}
        most = 4 if len(arrays) <= 4 else 2 if len(arrays) <= 8 else 1
        if self.lead is not None:
            size = self.code.arrays[self.lead.array][0].itemsize
            if self.lead.strides[-2] * size % LINE:
                most = 1  # rows would begin at different places of a line
        work = sum(self.levels[n] == 2 for n in self.needed)
        while most > 1 and (most * work > 200 or high - low < most):
            most //= 2
        return most

    def identities(self) -> Carried:
        return [splat(self.builder, identity(f.operator, self._dtype(f)), self.lanes) for f in self.folds]

    def _dtype(self, fold: Fold) -> np.dtype:
        return self.values[fold.value].dtype

    def begin(self) -> None:
        """Emit what is the same for all points."""
        self.constants: dict[int, Any] = {}
        self._evaluate(0, self.constants, Point(self, [], 0, None, None, {}))

    def compute(self, indices: list[Any], rows: int, totals: Carried) -> Carried:
        """Emit some rows, ``rows`` of them from that of ``indices`` on."""
        builder, width, lanes = self.builder, self.width, self.lanes
        low = self.body.box[-1][0]
        pointers: dict[Any, Any] = {}
        for place in (*self.body.loads(), *(s.place for s in self.stores)):
            key = place.array, place.strides
            if key not in pointers and place.strides:
                pointers[key] = self._address(place, indices, low)
        first: Any = word(0)
        last: Any = ir.Constant(WORD, width // lanes * lanes)
        several = width >= lanes
        aligned = False
        if several and rows < self.rows:
            last, several = first, False  # the few rows that are left over
        if several and self.lead is not None:
            first, last, aligned = *self._lines(pointers), True
        if several:
            known = [dict(self.constants) for _ in range(rows)]
            points = [Point(self, pointers, r, None, None, {}) for r in range(rows)]
            for mine, point in zip(known, points, strict=True):
                self._evaluate(1, mine, point)
            partial = self.identities() * rows

            def vectors(j: Any, partial: Carried) -> Carried:
                shared: dict[Any, Any] = {}
                result: Carried = []
                for r in range(rows):
                    point = Point(self, pointers, r, j, None, shared, aligned)
                    mine = dict(known[r])
                    self._evaluate(2, mine, point)
                    result += self._finish(mine, point, partial[r * len(self.folds) : (r + 1) * len(self.folds)])
                if aligned:
                    self._prefetch(pointers, rows, j)
                return result

            partial = self.function.loop(first, last, lanes, partial, vectors)
            for r in range(rows):
                for k, fold in enumerate(self.folds):
                    totals[k] = combined(
                        builder, fold.operator, self._dtype(fold), totals[k], partial[r * len(self.folds) + k]
                    )
            if not aligned and width % lanes == 0:
                return totals
        return self._ends(pointers, rows, [(0, first), (last, width)] if aligned else [(last, width)], totals)

    def _ends(self, pointers: dict[Any, Any], rows: int, spans: list[tuple[Any, Any]], totals: Carried) -> Carried:
        """What is not in the middle of rows: vectors of which some elements count only."""

        def row(r: Any, totals: Carried) -> Carried:
            shifted = {key: self._row(key, pointer, r) if rows > 1 else pointer for key, pointer in pointers.items()}
            known = dict(self.constants)
            self._evaluate(1, known, Point(self, shifted, 0, None, None, {}))

            def part(start: Any, stop: Any, totals: Carried) -> Carried:
                def vectors(j: Any, totals: Carried) -> Carried:
                    mask = self._mask(j, stop)
                    mine, point = dict(known), Point(self, shifted, 0, j, mask, {})
                    self._evaluate(2, mine, point)
                    return self._finish(mine, point, totals)

                return self.function.loop(start, stop, self.lanes, totals, vectors)

            if len(spans) == 1:
                return part(*spans[0], totals)
            zero = word(0)

            def both(n: Any, totals: Carried) -> Carried:
                begins = self.builder.icmp_signed("==", n, zero)
                (a, b), (c, d) = ([word(x) for x in span] for span in spans)
                return part(self.builder.select(begins, a, c), self.builder.select(begins, b, d), totals)

            return self.function.loop(0, 2, 1, totals, both)

        return self.function.loop(0, rows, 1, totals, row) if rows > 1 else row(word(0), totals)

    @staticmethod
    def _index(x: Any) -> Any:
        return ir.Constant(WORD, x) if isinstance(x, int) else x

    def _mask(self, j: Any, stop: Any) -> Any:
        left = self.builder.sub(word(stop), j)
        return self.builder.icmp_signed("<", self._count(), self.spread(left))

    def _count(self) -> Any:
        return ir.Constant(ir.VectorType(WORD, self.lanes), list(range(self.lanes)))

    def spread(self, word: Any) -> Any:
        kind = ir.VectorType(WORD, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), word, ir.Constant(INT, 0))
        zeros = ir.Constant(ir.VectorType(INT, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)

    def _address(self, place: Place, indices: list[Any], low: int) -> Any:
        """The address of a row's first element, but for the place's offset."""
        builder, size = self.builder, self.size(place.array)
        address = builder.add(self.bases[place.array], ir.Constant(WORD, place.strides[-1] * low * size))
        for index, stride in zip(indices, place.strides, strict=False):
            if stride:
                address = builder.add(address, builder.mul(index, word(stride * size)))
        return address

    def _row(self, key: tuple[int, tuple[int, ...]], pointer: Any, r: Any) -> Any:
        array, strides = key
        return self.builder.add(pointer, self.builder.mul(r, ir.Constant(WORD, strides[-2] * self.size(array))))

    def size(self, array: int) -> int:
        return self.code.arrays[array][0].itemsize

    def _lines(self, pointers: dict[Any, Any]) -> tuple[Any, Any]:
        """Where in a row the first full line of the result begins, and where the last ends."""
        assert self.lead is not None
        builder, size = self.builder, self.size(self.lead.array)
        address = builder.add(pointers[self.lead.array, self.lead.strides], word(self.lead.offset * size))
        behind = builder.and_(builder.neg(address), word(LINE - 1))
        first = builder.udiv(behind, word(size))
        # A buffer that does not begin at a line is stored as any other.
        bases = [self.bases[s.place.array] for s in self.stores if s.past]
        bits = bases[0]
        for base in bases[1:]:
            bits = builder.or_(bits, base)
        odd = builder.icmp_unsigned("!=", builder.and_(bits, word(LINE - 1)), word(0))
        width = ir.Constant(WORD, self.width)
        short = builder.or_(odd, builder.icmp_unsigned(">", first, width))
        first = builder.select(short, width, first)
        count = builder.udiv(builder.sub(width, first), word(self.lanes))
        return first, builder.add(first, builder.mul(count, word(self.lanes)))

    def _prefetch(self, pointers: dict[Any, Any], rows: int, j: Any) -> None:
        """Ask for what is read further on: of each array the rows that are new."""
        ahead: dict[Any, int] = {}
        for place in self.body.loads():
            if not place.strides or not place.strides[-1]:
                continue
            pitch = place.strides[-2] if len(place.strides) > 1 else 0
            row = round(place.offset / pitch) if pitch else 0
            key = place.array, place.strides
            ahead[key] = max(ahead.get(key, row), row)
        byte = BYTE.as_pointer()
        prefetch = self.function.intrinsic("llvm.prefetch.p0", ir.VoidType(), [byte, INT, INT, INT])
        flags = [ir.Constant(INT, x) for x in (0, 3, 1)]
        for (array, strides), row in ahead.items():
            size = self.size(array)
            for r in range(rows):
                pitch = strides[-2] if len(strides) > 1 else 0
                at = ((row + r) * pitch + _AHEAD * strides[-1]) * size
                address = self.builder.add(pointers[array, strides], word(at))
                address = self.builder.add(address, self.builder.mul(j, ir.Constant(WORD, strides[-1] * size)))
                self.builder.call(prefetch, [self.builder.inttoptr(address, byte), *flags])

    def _evaluate(self, level: int, known: dict[int, Any], point: Point) -> None:
        """Emit the values of a level."""
        for n in self.needed:
            if self.levels[n] != level or n in known:
                continue
            value = self.values[n]
            if value.op == "load":
                known[n] = point.load(value)
            elif value.op == "constant":
                known[n] = splat(self.builder, value.extra, self.lanes)
            else:
                args = [known[a] for a in value.args]
                have = [self.values[a].dtype for a in value.args]
                known[n] = operate(self.function, self.builder, value, args, have)

    def _finish(self, known: dict[int, Any], point: Point, totals: Carried) -> Carried:
        for store in self.stores:
            point.store(store.place, known[store.value], store.past)
        result: Carried = []
        for fold, total in zip(self.folds, totals, strict=True):
            dtype, value = self._dtype(fold), known[fold.value]
            if point.mask is not None:
                neutral = splat(self.builder, identity(fold.operator, dtype), self.lanes)
                value = self.builder.select(point.mask, value, neutral)
            result.append(combined(self.builder, fold.operator, dtype, total, value))
        return result

    def end(self, totals: Carried, places: list[Any]) -> None:
        """Emit the results of folds, all elements of a vector combined, to some addresses."""
        builder = self.builder
        for fold, total, place in zip(self.folds, totals, places, strict=True):
            dtype, count = self._dtype(fold), self.lanes
            while count > 1:
                count //= 2
                halves = [
                    builder.shuffle_vector(
                        total, total, ir.Constant(ir.VectorType(INT, count), list(range(at, at + count)))
                    )
                    for at in (0, count)
                ]
                total = combined(builder, fold.operator, dtype, *halves)
            value = builder.extract_element(total, ir.Constant(INT, 0))
            if dtype.kind == "b":
                value = builder.zext(value, BYTE)
            builder.store(value, builder.inttoptr(place, value.type.as_pointer()))
