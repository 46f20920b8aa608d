"""Loops as LLVM code: a function that XLA calls, which runs them one after the other.

A loop goes through rows of its box, of which it computes several at a time: as many streams of memory keep the
processor's prefetchers busy, and what rows share is loaded once.  Along a row it works on vectors of one cache line.
Large results are stored past the caches, a full line at a time: a line that is written need not be read first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from .. import jax_compat
from .body import Body, Code, Fold, Loop, Place, Value
from .operations import combined, identity, operate, splat, vector

#: Bytes of a cache line, which is what a vector holds of the widest dtype.
LINE = 64
#: Elements ahead of the present one that are asked for.
_AHEAD = 64
_WORD, _INT, _BYTE, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(1)

Carried = list[Any]


def emit(code: Code, name: str, given: Sequence[int], results: Sequence[int]) -> str:
    """The text of a module with a function ``name``, which XLA may call as a foreign one.

    Operands of the call are an int32, which orders calls, and the arrays ``given``; results are that int32 and the
    arrays in ``results``, some of them in the place of one given.
    """
    return _Emitter(code, name, list(given), list(results)).text()


class _Emitter:
    def __init__(self, code: Code, name: str, given: list[int], results: list[int]) -> None:
        self.code, self.given, self.results = code, given, results
        self.module = ir.Module(name="loops")
        self.function = ir.Function(self.module, ir.FunctionType(_WORD, [_WORD]), name)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.metadata: Any = None

    def text(self) -> str:
        layout = jax_compat.frame_layout()
        frame = self.function.args[0]
        extension = self._word(frame, layout.extension)
        with self.builder.if_then(self.builder.icmp_unsigned("!=", extension, ir.Constant(_WORD, 0))):
            # XLA asks each function once which interface it was written for.
            answer = self._word(extension, layout.metadata)
            for at, number in zip((layout.major, layout.minor), layout.version, strict=True):
                self.builder.store(ir.Constant(_INT, number), self._pointer(self._plus(answer, at), _INT))
            self.builder.ret(ir.Constant(_WORD, 0))
        arguments, results = self._word(frame, layout.arguments), self._word(frame, layout.results)
        self.bases: list[Any] = []
        for number in range(len(self.code.arrays)):
            made = number in self.results
            buffers, place = (results, self.results.index(number)) if made else (arguments, self.given.index(number))
            self.bases.append(self._word(self._word(buffers, 8 * (1 + place)), layout.data))
        for loop in self.code.loops:
            _Loop(self, loop).run()
        if any(store.past for loop in self.code.loops for body in loop.bodies() for store in body.stores):
            self.builder.fence("seq_cst")  # such stores are not in order with others
        self.builder.ret(ir.Constant(_WORD, 0))
        return str(self.module)

    def _plus(self, address: Any, by: int) -> Any:
        return self.builder.add(address, ir.Constant(_WORD, by))

    def _pointer(self, address: Any, kind: Any) -> Any:
        return self.builder.inttoptr(address, kind.as_pointer())

    def _word(self, address: Any, at: int) -> Any:
        return self.builder.load(self._pointer(self._plus(address, at), _WORD))

    def intrinsic(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """An LLVM intrinsic by its full name."""
        found = self.module.globals.get(name)
        return found or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def loop(
        self, start: Any, stop: Any, step: int, carried: Carried, body: Callable[[Any, Carried], Carried]
    ) -> Carried:
        """A loop from ``start`` to ``stop``; the body gets the index and what is carried and returns the latter."""
        builder = self.builder
        start, stop = (ir.Constant(_WORD, x) if isinstance(x, int) else x for x in (start, stop))
        before = builder.block
        test, trip, after = (self.function.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        phis = [builder.phi(value.type) for value in (start, *carried)]
        for phi, value in zip(phis, (start, *carried), strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", phis[0], stop), trip, after)
        builder.position_at_end(trip)
        made = body(phis[0], list(phis[1:]))
        following = builder.add(phis[0], ir.Constant(_WORD, step))
        for phi, value in zip(phis, (following, *made), strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        return list(phis[1:])


class _Loop:
    """One loop while it is emitted."""

    def __init__(self, emitter: _Emitter, loop: Loop) -> None:
        self.emitter, self.builder, self.given = emitter, emitter.builder, loop
        self.box = loop.main.box
        self.dims = len(self.box)
        self.bodies = [_Body(self, body) for body in loop.bodies()]
        self.main = self.bodies[0]

    def run(self) -> None:
        for body in self.bodies:
            body.begin()
        totals = [total for body in self.bodies for total in body.identities()]
        totals = self._outer([], totals)
        for body in self.bodies:
            body.end(totals[: len(body.folds)])
            totals = totals[len(body.folds) :]

    def _outer(self, indices: list[Any], totals: Carried) -> Carried:
        """The loops over all axes but the last."""
        d = len(indices)
        if d == self.dims - 1:
            return self._rows(indices, 1, totals)
        low, high = self.box[d]
        if d < self.dims - 2:
            return self.emitter.loop(low, high, 1, totals, lambda i, t: self._outer([*indices, i], t))
        rows = self.main.rows
        whole = low + (high - low) // rows * rows
        if whole > low:
            totals = self.emitter.loop(low, whole, rows, totals, lambda i, t: self._rows([*indices, i], rows, t))
        if high > whole:
            totals = self.emitter.loop(whole, high, 1, totals, lambda i, t: self._rows([*indices, i], 1, t))
        return totals

    def _rows(self, indices: list[Any], rows: int, totals: Carried) -> Carried:
        result: Carried = []
        for body in self.bodies:
            mine, totals = totals[: len(body.folds)], totals[len(body.folds) :]
            result += body.compute(indices, rows, mine)
        return result


class _Body:
    """A body while it is emitted."""

    def __init__(self, loop: _Loop, body: Body) -> None:
        self.loop, self.emitter, self.builder, self.body = loop, loop.emitter, loop.builder, body
        self.values = body.values.all
        self.folds: list[Fold] = body.folds
        self.needed = body.values.needed(body.results())
        self.levels = self._levels()
        self.lanes = LINE // max([4, *(self.values[n].dtype.itemsize for n in self.needed)])
        self.width = body.box[-1][1] - body.box[-1][0]
        self.stores = body.stores
        self.lead = next((s.place for s in body.stores if s.past), None)
        #: How many rows are computed together.
        self.rows = self._choose_rows() if body is loop.given.main else 1

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
        if self.loop.dims < 2 or self.width < 2 * self.lanes:
            return 1
        low, high = self.body.box[-2]
        arrays = {(p.array, p.strides) for p in (*self.body.loads(), *(s.place for s in self.stores))}
        most = 4 if len(arrays) <= 4 else 2 if len(arrays) <= 8 else 1
        if self.lead is not None:
            size = self.emitter.code.arrays[self.lead.array][0].itemsize
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
        self._evaluate(0, self.constants, _Point(self, [], 0, None, None, {}))

    def compute(self, indices: list[Any], rows: int, totals: Carried) -> Carried:
        """Emit some rows, ``rows`` of them from that of ``indices`` on."""
        builder, width, lanes = self.builder, self.width, self.lanes
        low = self.body.box[-1][0]
        pointers: dict[Any, Any] = {}
        for place in (*self.body.loads(), *(s.place for s in self.stores)):
            key = place.array, place.strides
            if key not in pointers and place.strides:
                pointers[key] = self._address(place, indices, low)
        first: Any = ir.Constant(_WORD, 0)
        last: Any = ir.Constant(_WORD, width // lanes * lanes)
        several = width >= lanes
        aligned = False
        if several and rows < self.rows:
            last, several = first, False  # the few rows that are left over
        if several and self.lead is not None:
            first, last, aligned = *self._lines(pointers), True
        if several:
            known = [dict(self.constants) for _ in range(rows)]
            points = [_Point(self, pointers, r, None, None, {}) for r in range(rows)]
            for mine, point in zip(known, points, strict=True):
                self._evaluate(1, mine, point)
            partial = self.identities() * rows

            def vectors(j: Any, partial: Carried) -> Carried:
                shared: dict[Any, Any] = {}
                result: Carried = []
                for r in range(rows):
                    point = _Point(self, pointers, r, j, None, shared, aligned)
                    mine = dict(known[r])
                    self._evaluate(2, mine, point)
                    result += self._finish(mine, point, partial[r * len(self.folds) : (r + 1) * len(self.folds)])
                if aligned:
                    self._prefetch(pointers, rows, j)
                return result

            partial = self.emitter.loop(first, last, lanes, partial, vectors)
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
            self._evaluate(1, known, _Point(self, shifted, 0, None, None, {}))

            def part(start: Any, stop: Any, totals: Carried) -> Carried:
                def vectors(j: Any, totals: Carried) -> Carried:
                    mask = self._mask(j, stop)
                    mine, point = dict(known), _Point(self, shifted, 0, j, mask, {})
                    self._evaluate(2, mine, point)
                    return self._finish(mine, point, totals)

                return self.emitter.loop(start, stop, self.lanes, totals, vectors)

            if len(spans) == 1:
                return part(*spans[0], totals)
            zero = ir.Constant(_WORD, 0)

            def both(n: Any, totals: Carried) -> Carried:
                begins = self.builder.icmp_signed("==", n, zero)
                (a, b), (c, d) = ([self._index(x) for x in span] for span in spans)
                return part(self.builder.select(begins, a, c), self.builder.select(begins, b, d), totals)

            return self.emitter.loop(0, 2, 1, totals, both)

        return self.emitter.loop(0, rows, 1, totals, row) if rows > 1 else row(ir.Constant(_WORD, 0), totals)

    @staticmethod
    def _index(x: Any) -> Any:
        return ir.Constant(_WORD, x) if isinstance(x, int) else x

    def _mask(self, j: Any, stop: Any) -> Any:
        left = self.builder.sub(self._index(stop), j)
        return self.builder.icmp_signed("<", self._count(), self._spread(left))

    def _count(self) -> Any:
        return ir.Constant(ir.VectorType(_WORD, self.lanes), list(range(self.lanes)))

    def _spread(self, word: Any) -> Any:
        kind = ir.VectorType(_WORD, self.lanes)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), word, ir.Constant(_INT, 0))
        zeros = ir.Constant(ir.VectorType(_INT, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)

    def _address(self, place: Place, indices: list[Any], low: int) -> Any:
        """The address of a row's first element, but for the place's offset."""
        builder, size = self.builder, self._size(place.array)
        address = builder.add(self.emitter.bases[place.array], ir.Constant(_WORD, place.strides[-1] * low * size))
        for index, stride in zip(indices, place.strides, strict=False):
            if stride:
                address = builder.add(address, builder.mul(index, ir.Constant(_WORD, stride * size)))
        return address

    def _row(self, key: tuple[int, tuple[int, ...]], pointer: Any, r: Any) -> Any:
        array, strides = key
        return self.builder.add(pointer, self.builder.mul(r, ir.Constant(_WORD, strides[-2] * self._size(array))))

    def _size(self, array: int) -> int:
        return self.emitter.code.arrays[array][0].itemsize

    def _lines(self, pointers: dict[Any, Any]) -> tuple[Any, Any]:
        """Where in a row the first full line of the result begins, and where the last ends."""
        assert self.lead is not None
        builder, size = self.builder, self._size(self.lead.array)
        address = builder.add(pointers[self.lead.array, self.lead.strides], ir.Constant(_WORD, self.lead.offset * size))
        behind = builder.and_(builder.neg(address), ir.Constant(_WORD, LINE - 1))
        first = builder.udiv(behind, ir.Constant(_WORD, size))
        # A buffer that does not begin at a line is stored as any other.
        bases = [self.emitter.bases[s.place.array] for s in self.stores if s.past]
        bits = bases[0]
        for base in bases[1:]:
            bits = builder.or_(bits, base)
        odd = builder.icmp_unsigned("!=", builder.and_(bits, ir.Constant(_WORD, LINE - 1)), ir.Constant(_WORD, 0))
        width = ir.Constant(_WORD, self.width)
        short = builder.or_(odd, builder.icmp_unsigned(">", first, width))
        first = builder.select(short, width, first)
        count = builder.udiv(builder.sub(width, first), ir.Constant(_WORD, self.lanes))
        return first, builder.add(first, builder.mul(count, ir.Constant(_WORD, self.lanes)))

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
        byte = _BYTE.as_pointer()
        prefetch = self.emitter.intrinsic("llvm.prefetch.p0", ir.VoidType(), [byte, _INT, _INT, _INT])
        flags = [ir.Constant(_INT, x) for x in (0, 3, 1)]
        for (array, strides), row in ahead.items():
            size = self._size(array)
            for r in range(rows):
                pitch = strides[-2] if len(strides) > 1 else 0
                at = ((row + r) * pitch + _AHEAD * strides[-1]) * size
                address = self.builder.add(pointers[array, strides], ir.Constant(_WORD, at))
                address = self.builder.add(address, self.builder.mul(j, ir.Constant(_WORD, strides[-1] * size)))
                self.builder.call(prefetch, [self.builder.inttoptr(address, byte), *flags])

    def _evaluate(self, level: int, known: dict[int, Any], point: _Point) -> None:
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
                known[n] = operate(self.emitter, self.builder, value, args, have)

    def _finish(self, known: dict[int, Any], point: _Point, totals: Carried) -> Carried:
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

    def end(self, totals: Carried) -> None:
        """Emit the results of folds: all elements of a vector combined."""
        builder = self.builder
        for fold, total in zip(self.folds, totals, strict=True):
            dtype, count = self._dtype(fold), self.lanes
            while count > 1:
                count //= 2
                halves = [
                    builder.shuffle_vector(
                        total, total, ir.Constant(ir.VectorType(_INT, count), list(range(at, at + count)))
                    )
                    for at in (0, count)
                ]
                total = combined(builder, fold.operator, dtype, *halves)
            value = builder.extract_element(total, ir.Constant(_INT, 0))
            if dtype.kind == "b":
                value = builder.zext(value, _BYTE)
            builder.store(value, builder.inttoptr(self.emitter.bases[fold.array], value.type.as_pointer()))


class _Point:
    """Where values are loaded and stored: vectors from element ``j`` of a row on, or single ones where it is None."""

    def __init__(
        self,
        body: _Body,
        pointers: Any,
        row: int,
        j: Any,
        mask: Any,
        shared: dict[Any, Any],
        aligned: bool = False,
    ) -> None:
        self.body, self.builder, self.emitter = body, body.builder, body.emitter
        self.pointers, self.row, self.j, self.mask = pointers, row, j, mask
        self.shared, self.aligned = shared, aligned

    def _at(self, place: Place) -> Any:
        size = self.body._size(place.array)
        if not place.strides or not any(place.strides):
            return self.builder.add(self.emitter.bases[place.array], ir.Constant(_WORD, place.offset * size))
        pitch = place.strides[-2] if len(place.strides) > 1 else 0
        address = self.pointers[place.array, place.strides]
        if self.j is not None:
            address = self.builder.add(address, self.builder.mul(self.j, ir.Constant(_WORD, place.strides[-1] * size)))
        return self.builder.add(address, ir.Constant(_WORD, (place.offset + self.row * pitch) * size))

    def load(self, value: Value) -> Any:
        place: Place = value.extra
        pitch = place.strides[-2] if len(place.strides) > 1 else 0
        key = place.array, place.strides, place.offset + self.row * pitch
        if key not in self.shared:
            self.shared[key] = self._load(place, value.dtype)
        return self.shared[key]

    def _load(self, place: Place, dtype: np.dtype) -> Any:
        builder, lanes = self.builder, self.body.lanes
        kind, held = vector(dtype, lanes), vector(dtype, lanes, memory=True)
        address = self._at(place)
        if not place.strides or not place.strides[-1]:
            single = builder.load(builder.inttoptr(address, held.element.as_pointer()))
            if dtype.kind == "b":
                single = builder.icmp_unsigned("!=", single, ir.Constant(_BYTE, 0))
            return splat(builder, single, lanes, kind)
        if place.strides[-1] != 1:
            loaded = self._gather(address, place.strides[-1], held)
        elif self.mask is not None:
            load = self._masked("load", held, [held.as_pointer(), _INT, ir.VectorType(_BIT, lanes), held], held)
            pointer = builder.inttoptr(address, held.as_pointer())
            nothing = ir.Constant(held, [0] * lanes)
            loaded = builder.call(load, [pointer, ir.Constant(_INT, dtype.itemsize), self.mask, nothing])
        else:
            loaded = builder.load(builder.inttoptr(address, held.as_pointer()), align=dtype.itemsize)
        if dtype.kind == "b":
            return builder.icmp_unsigned("!=", loaded, ir.Constant(held, [0] * lanes))
        return loaded

    def _masked(self, name: str, held: Any, arguments: list[Any], result: Any) -> Any:
        letter = "i" if isinstance(held.element, ir.IntType) else "f"
        bits = held.element.width if letter == "i" else 64 if held.element == ir.DoubleType() else 32
        pointers = f".v{held.count}p0" if name in ("gather", "scatter") else ".p0"
        return self.emitter.intrinsic(f"llvm.masked.{name}.v{held.count}{letter}{bits}{pointers}", result, arguments)

    def _places(self, address: Any, stride: int, held: Any) -> Any:
        size = held.element.width // 8 if isinstance(held.element, ir.IntType) else self._bytes(held)
        steps = ir.Constant(ir.VectorType(_WORD, held.count), [stride * size * k for k in range(held.count)])
        addresses = self.builder.add(self.body._spread(address), steps)
        return self.builder.inttoptr(addresses, ir.VectorType(held.element.as_pointer(), held.count)), size

    @staticmethod
    def _bytes(held: Any) -> int:
        return 8 if held.element == ir.DoubleType() else 4

    def _lanes_mask(self, count: int) -> Any:
        return self.mask if self.mask is not None else ir.Constant(ir.VectorType(_BIT, count), [1] * count)

    def _gather(self, address: Any, stride: int, held: Any) -> Any:
        places, size = self._places(address, stride, held)
        arguments = [places.type, _INT, ir.VectorType(_BIT, held.count), held]
        gather = self._masked("gather", held, arguments, held)
        nothing = ir.Constant(held, [0] * held.count)
        return self.builder.call(gather, [places, ir.Constant(_INT, size), self._lanes_mask(held.count), nothing])

    def store(self, place: Place, value: Any, past: bool) -> None:
        builder, lanes = self.builder, self.body.lanes
        dtype = self.emitter.code.arrays[place.array][0]
        held = vector(dtype, lanes, memory=True)
        if dtype.kind == "b":
            value = builder.zext(value, held)
        address = self._at(place)
        pointer = builder.inttoptr(address, held.as_pointer())
        size = ir.Constant(_INT, dtype.itemsize)
        if place.strides[-1] != 1:
            places, _ = self._places(address, place.strides[-1], held)
            arguments = [held, places.type, _INT, ir.VectorType(_BIT, lanes)]
            scatter = self._masked("scatter", held, arguments, ir.VoidType())
            builder.call(scatter, [value, places, size, self._lanes_mask(lanes)])
        elif self.mask is not None:
            arguments = [held, held.as_pointer(), _INT, ir.VectorType(_BIT, lanes)]
            store = self._masked("store", held, arguments, ir.VoidType())
            builder.call(store, [value, pointer, size, self.mask])
        elif past and self.aligned:
            made = builder.store(value, pointer, align=min(LINE, lanes * dtype.itemsize))
            made.set_metadata("nontemporal", self._one())
        else:
            builder.store(value, pointer, align=dtype.itemsize)

    def _one(self) -> Any:
        if self.emitter.metadata is None:
            self.emitter.metadata = self.emitter.module.add_metadata([ir.Constant(_INT, 1)])
        return self.emitter.metadata
