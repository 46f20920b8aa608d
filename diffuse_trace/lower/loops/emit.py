"""Loops as LLVM code: a function that XLA calls, which runs them one after the other.

Each loop is a function over a range of its first axis.  A large one is cut into parts, which the threads of XLA's pool
and the calling one take in turn; the calling one waits for parts that others have begun, but never for others to begin.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from llvmlite import ir

from .. import jax_compat
from .body import Code, Loop
from .function import INT, WORD, Carried, Function, bases, word
from .operations import combined, element
from .rows import Rows
from .waves import Wave, waves

#: Parts of a loop that threads share, and the bytes below which one thread does it all.
_PARTS, _SHARED = 16, 1 << 19
# Words that threads share: the next part, how many are over, how many threads know of it, XLA's frame; then folds.
_NEXT, _OVER, _USERS, _FRAME, _TOTALS = 0, 8, 16, 24, 32


def emit(code: Code, name: str) -> str:
    """The text of a module with a function ``name``, which XLA may call as a foreign one.

    Operands of the call are an int32, which orders calls, and the arrays ``given``; results are that int32 and the
    arrays in ``results``, some of them in the place of one given.
    """
    module = ir.Module(name="loops")
    numbers = itertools.count()
    groups = [(wave, [_Loop(module, code, loop, next(numbers)) for loop in wave.loops]) for wave in waves(code)]
    main = Function(module, name, 1)
    frame = main.parameters[0]
    _answer(main, frame)
    arrays = bases(main, frame, code)
    for wave, together in groups:
        if wave.rows:
            _run_wave(main, frame, together, wave)
        else:
            together[0].run(main, frame)
        for loop in together:
            loop.hand_on(main, arrays)
    if any(store.past for loop in code.loops for body in loop.bodies() for store in body.stores):
        main.builder.fence("seq_cst")  # such stores are not in order with others
    layout = jax_compat.frame_layout()
    ticket = main.load(main.load(main.load(frame, layout.results)), layout.data)
    main.builder.store(ir.Constant(INT, 0), main.pointer(ticket, INT))
    main.builder.ret(word(0))
    return str(module)


def _answer(main: Function, frame: Any) -> None:
    """XLA asks each function once which interface it was written for."""
    layout = jax_compat.frame_layout()
    extension = main.load(frame, layout.extension)
    with main.builder.if_then(main.builder.icmp_unsigned("!=", extension, word(0))):
        answer = main.load(extension, layout.metadata)
        for at, number in zip((layout.major, layout.minor), layout.version, strict=True):
            main.builder.store(ir.Constant(INT, number), main.pointer(main.at(answer, at), INT))
        main.builder.ret(word(0))


class _Loop:
    """The functions of one loop."""

    def __init__(self, module: Any, code: Code, loop: Loop, number: int) -> None:
        self.code, self.given, self.box = code, loop, loop.main.box
        self.dims = len(self.box)
        self.name = f"loop{number}"
        self.folds = [fold for body in loop.bodies() for fold in body.folds]
        self._emit(module)
        low, high = self.box[0]
        touched = {place.array for body in loop.bodies() for place in body.loads()}
        touched |= {store.place.array for body in loop.bodies() for store in body.stores}
        size = math.prod(high - low for low, high in self.box)
        nbytes = size * sum(code.arrays[n][0].itemsize for n in touched)
        rows = self.rows if self.dims == 2 else 1
        self.part = -(-(high - low) // (_PARTS * rows)) * rows
        self.parts = -(-(high - low) // self.part)
        if self.dims == 1 or nbytes < _SHARED or self.parts < 2:
            self.parts = 1
            return
        self._emit_worker(module)

    # --- the loop itself -----------------------------------------------------------------------

    def _emit(self, module: Any) -> None:
        """``loop(frame, first, last, totals)``: from ``first`` to ``last`` along the first axis."""
        function = Function(module, self.name, 4)
        function.llvm.linkage = "internal"
        frame, first, last, totals = function.parameters
        arrays = bases(function, frame, self.code)
        bodies = [Rows(function, self.code, arrays, body, self.dims) for body in self.given.bodies()]
        self.rows = bodies[0].rows
        for body in bodies:
            body.begin()
        values = self._outer(function, bodies, [], (first, last), [v for body in bodies for v in body.identities()])
        place = 0
        for body in bodies:
            body.end(values[: len(body.folds)], [function.at(totals, 8 * (place + k)) for k in range(len(body.folds))])
            place, values = place + len(body.folds), values[len(body.folds) :]
        function.builder.ret(word(0))

    def _outer(self, function: Function, bodies: list[Rows], indices: list[Any], ends: Any, totals: Carried) -> Carried:
        """The loops over all axes but the last."""
        d = len(indices)
        if d == self.dims - 1:
            return _compute(bodies, indices, 1, totals)
        low, high = ends if d == 0 else map(word, self.box[d])
        if d < self.dims - 2:
            following = self.box[d + 1]
            return function.loop(
                low, high, 1, totals, lambda i, t: self._outer(function, bodies, [*indices, i], following, t)
            )
        rows, builder = self.rows, function.builder
        count = builder.mul(builder.udiv(builder.sub(high, low), word(rows)), word(rows))
        whole = builder.add(low, count)
        totals = function.loop(low, whole, rows, totals, lambda i, t: _compute(bodies, [*indices, i], rows, t))
        if rows > 1:
            totals = function.loop(whole, high, 1, totals, lambda i, t: _compute(bodies, [*indices, i], 1, t))
        return totals

    # --- how it is called ----------------------------------------------------------------------

    def run(self, main: Function, frame: Any) -> None:
        """Call it for all rows."""
        low, high = self.box[0]
        self.totals = main.room(len(self.folds))
        if self.parts == 1:
            main.call(self.name, frame, low, high, self.totals)
            return
        threads = _threads(main, frame)
        alone = main.builder.icmp_signed("<", threads, word(2))
        with main.builder.if_else(alone) as (one, many):
            with one:
                main.call(self.name, frame, low, high, self.totals)
            with many:
                self.share(main, frame, threads)

    def hand_on(self, main: Function, arrays: list[Any]) -> None:
        """Store what it has folded."""
        for n, fold in enumerate(self.folds):
            value = self._total(main, self.totals, n)
            pointer = main.pointer(arrays[fold.array], value.type)
            if fold.more:
                value = combined(main.builder, fold.operator, fold.dtype, main.builder.load(pointer), value)
            main.builder.store(value, pointer)

    def _total(self, function: Function, totals: Any, n: int) -> Any:
        kind = element(self.folds[n].dtype, memory=True)
        return function.builder.load(function.pointer(function.at(totals, 8 * n), kind))

    def share(self, main: Function, frame: Any, threads: Any) -> None:
        """Let others take parts as well, and combine what the parts have folded."""
        layout = jax_compat.frame_layout()
        users = main.least(threads, self.parts)
        shared = main.call("malloc", _TOTALS + 8 * self.parts * len(self.folds))
        for at, value in ((_NEXT, 0), (_OVER, 0), (_USERS, users), (_FRAME, frame)):
            main.store(shared, at, value)
        request = main.room(5)
        worker = main.builder.ptrtoint(main.module.globals[f"{self.name}_worker"], WORD)
        for n, value in enumerate((40, 0, main.load(frame, layout.context), worker, shared)):
            main.store(request, 8 * n, value)
        schedule = main.load(main.load(frame, layout.api), layout.schedule)

        def another(_: Any, carried: Carried) -> Carried:
            error = main.call_at(schedule, request)
            with main.builder.if_then(main.builder.icmp_unsigned("!=", error, word(0))):
                main.add_atomically(shared, _USERS, -1)
            _forget(main, frame, error)
            return carried

        main.loop(1, users, 1, [], another)
        main.call(f"{self.name}_parts", shared)
        over = main.pointer(main.at(shared, _OVER))
        main.until(
            lambda: main.builder.icmp_signed(
                ">=", main.builder.load_atomic(over, ordering="acquire", align=8), word(self.parts)
            ),
            lambda: main.call("sched_yield") and None,
        )
        if self.folds:
            self.combine(main, main.at(shared, _TOTALS), self.parts)
        main.call(f"{self.name}_leave", shared)

    def combine(self, main: Function, parts: Any, count: int) -> None:
        """Combine what some calls have folded."""
        first = [self._total(main, parts, n) for n in range(len(self.folds))]

        def more(part: Any, values: Carried) -> Carried:
            at = main.builder.add(parts, main.builder.mul(part, word(8 * len(self.folds))))
            return [
                combined(main.builder, fold.operator, fold.dtype, value, self._total(main, at, n))
                for n, (fold, value) in enumerate(zip(self.folds, values, strict=True))
            ]

        for n, value in enumerate(main.loop(1, count, 1, first, more)):
            main.builder.store(value, main.pointer(main.at(self.totals, 8 * n), value.type))

    def _emit_worker(self, module: Any) -> None:
        low, high = self.box[0]
        leave = Function(module, f"{self.name}_leave", 1)
        before = leave.add_atomically(leave.parameters[0], _USERS, -1)
        with leave.builder.if_then(leave.builder.icmp_signed("==", before, word(1))):
            leave.call("free", leave.parameters[0])
        leave.builder.ret(word(0))
        # Whoever comes takes the next part as long as there is one.
        take = Function(module, f"{self.name}_parts", 1)
        shared = take.parameters[0]
        test, trip, after = (take.llvm.append_basic_block() for _ in range(3))
        take.builder.branch(test)
        take.builder.position_at_end(test)
        part = take.add_atomically(shared, _NEXT, 1)
        take.builder.cbranch(take.builder.icmp_signed("<", part, word(self.parts)), trip, after)
        take.builder.position_at_end(trip)
        first = take.builder.add(word(low), take.builder.mul(part, word(self.part)))
        last = take.least(take.at(first, self.part), high)
        totals = take.builder.add(take.at(shared, _TOTALS), take.builder.mul(part, word(8 * len(self.folds))))
        take.call(self.name, take.load(shared, _FRAME), first, last, totals)
        take.builder.fence("seq_cst")  # as at the end of a call
        take.add_atomically(shared, _OVER, 1)
        take.builder.branch(test)
        take.builder.position_at_end(after)
        take.builder.ret(word(0))
        worker = Function(module, f"{self.name}_worker", 1)
        worker.call(f"{self.name}_parts", worker.parameters[0])
        worker.call(f"{self.name}_leave", worker.parameters[0])
        worker.builder.ret(word(0))


def _compute(bodies: list[Rows], indices: list[Any], rows: int, totals: Carried) -> Carried:
    result: Carried = []
    for body in bodies:
        mine, totals = totals[: len(body.folds)], totals[len(body.folds) :]
        result += body.compute(indices, rows, mine)
    return result


def _forget(main: Function, frame: Any, error: Any) -> None:
    """Free an error of XLA's."""
    layout = jax_compat.frame_layout()
    with main.builder.if_then(main.builder.icmp_unsigned("!=", error, word(0))):
        request = main.room(3)
        for n, value in enumerate((24, 0, error)):
            main.store(request, 8 * n, value)
        main.call_at(main.load(main.load(frame, layout.api), layout.destroy), request)


def _threads(main: Function, frame: Any) -> Any:
    """How many threads XLA's pool has; 0 where there is none."""
    layout = jax_compat.frame_layout()
    count, request = main.room(1), main.room(4)
    main.store(count, 0, 0)
    for n, value in enumerate((32, 0, main.load(frame, layout.context), count)):
        main.store(request, 8 * n, value)
    error = main.call_at(main.load(main.load(frame, layout.api), layout.threads), request)
    _forget(main, frame, error)
    return main.load(count)


def _run_wave(main: Function, frame: Any, loops: list[_Loop], wave: Wave) -> None:
    """Run loops a few rows at a time where one thread does all, else one after the other."""
    for loop in loops:
        loop.totals = main.room(len(loop.folds))
    steps = max(-(-(loop.box[0][1] - shift) // wave.rows) for loop, shift in zip(loops, wave.shifts, strict=True))
    begin = min((loop.box[0][0] - shift) // wave.rows for loop, shift in zip(loops, wave.shifts, strict=True))
    partial = [main.room((steps - begin) * len(loop.folds)) for loop in loops]

    def step(s: Any, carried: Carried) -> Carried:
        for loop, shift, totals in zip(loops, wave.shifts, partial, strict=True):
            low, high = loop.box[0]
            until = main.at(main.builder.mul(s, word(wave.rows)), shift)
            first, last = (main.least(main.most(x, low), high) for x in (until, main.at(until, wave.rows)))
            place = main.builder.mul(main.at(s, -begin), word(8 * len(loop.folds)))
            main.call(loop.name, frame, first, last, main.builder.add(totals, place))
        return carried

    def alone() -> None:
        main.loop(begin, steps, 1, [], step)
        for loop, totals in zip(loops, partial, strict=True):
            if loop.folds:
                loop.combine(main, totals, steps - begin)

    if all(loop.parts == 1 for loop in loops):
        alone()
        return
    threads = _threads(main, frame)
    with main.builder.if_else(main.builder.icmp_signed("<", threads, word(2))) as (one, many):
        with one:
            alone()
        with many:
            for loop in loops:
                if loop.parts == 1:
                    main.call(loop.name, frame, *loop.box[0], loop.totals)
                else:
                    loop.share(main, frame, threads)
