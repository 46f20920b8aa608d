"""Rolling: tasks that a Python loop recorded again and again become one loop of the program.

Trips are found on the sequence of tasks without the identity of their stores, and are the same where their stores
stand for each other: those that all trips share, those that each makes for itself, and those that one finds as the
trip before it has left them.  Trips so many that they would fill a plan are rolled; fewer fuse better unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .program import Program
from .region import Carried, Loop, Region
from .store import Store
from .task import Access, IndexTask, Operand, Privilege
from .view import View

#: Trips together must have so many tasks to be rolled, and be so many.
FEWEST_TASKS = 48
FEWEST_TRIPS = 3
#: Trips with more tasks are not looked for.
LONGEST_TRIP = 512

New = Callable[[tuple[int, ...], np.dtype], Store]


@dataclass(frozen=True)
class Rolled:
    """A program in which repeats are loops; ``operands`` holds for each of its operands that of the program before, or
    a number of trips."""

    program: Program
    operands: tuple[Operand | int, ...]

    def given(self, operands: Sequence[Any]) -> list[Any]:
        """The values of its operands, given those of the program before."""
        return [operands[o.index] if isinstance(o, Operand) else o for o in self.operands]


def repeats(sequence: Sequence[Hashable], start: int, longest: int) -> tuple[int, int]:
    """The shortest period with which a sequence repeats from ``start`` on, and how often; (1, 1) where it does not.

    >>> repeats("abcbcbc", 1, 10)
    (2, 3)
    """
    first = sequence[start]
    for period in range(1, min(longest, (len(sequence) - start) // 2) + 1):
        trip = sequence[start : start + period]
        if sequence[start + period] != first or trip != sequence[start + period : start + 2 * period]:
            continue
        trips = 2
        while sequence[start + trips * period : start + (trips + 1) * period] == trip:
            trips += 1
        return period, trips
    return 1, 1


def roll(program: Program, values: Sequence[Hashable], new: New) -> Rolled | None:
    """Make loops of the repeats of a program; None where there are none.

    Args:
        program: without regions.
        values: for each operand what it is; operands with equal ones are the same.
        new: makes a store of a shape and dtype.
    """
    if program.regions or len(program.tasks) < FEWEST_TASKS:
        return None
    kinds: dict[Hashable, int] = {}
    codes = [kinds.setdefault(_kind(task, values), len(kinds)) for task in program.tasks]
    rolling = _Rolling(program, new)
    n = 0
    while n < len(codes):
        found = rolling.trips_at(codes, n)
        if found is None:
            rolling.keep(n, {})
            n += 1
        else:
            period, trips = found
            rolling.loop(n, period, trips)
            n += period * trips
    return rolling.finish(program.live) if rolling.regions else None


def _kind(task: IndexTask, values: Sequence[Hashable]) -> Hashable:
    """What is equal for tasks that do the same to stores in the same places."""
    inputs = tuple(
        (values[i.index],) if isinstance(i, Operand) else (i.view, i.store.shape, i.store.dtype, i.store.pattern)
        for i in task.inputs
    )
    out = task.output
    written = out.view, out.store.shape, out.store.dtype, out.privilege, out.reduction
    return task.op, task.shape, inputs, task.spelled, written


@dataclass(frozen=True)
class _Roles:
    """What the stores of trips are: handed on, each from an initial one, or shared by all and changed."""

    handed: tuple[tuple[Store, Store], ...]  # of the second trip: what it finds, what it makes of that
    initial: tuple[Store, ...]
    shared: tuple[Store, ...]


class _Building:
    """A program that is made from another, task by task."""

    def __init__(self, program: Program, new: New) -> None:
        self.old, self.new = program, new
        self.tasks: list[IndexTask] = []
        self.regions: list[Region] = []
        self.operands: list[Operand | int] = []
        self.numbers: dict[int, int] = {}

    def operand(self, operand: Operand) -> Operand:
        """An operand of the new program that is one of the old."""
        if operand.index not in self.numbers:
            self.numbers[operand.index] = len(self.operands)
            self.operands.append(operand)
        return Operand(self.numbers[operand.index])

    def keep(self, n: int, stores: dict[int, Store]) -> None:
        """Take over a task, with some stores in place of others."""
        t = self.old.tasks[n]

        def access(a: Access) -> Access:
            if a.store.id not in stores:
                return a
            return Access(stores[a.store.id], a.view, a.privilege, a.reduction)

        inputs = tuple(self.operand(i) if isinstance(i, Operand) else access(i) for i in t.inputs)
        self.tasks.append(IndexTask(t.op, t.shape, inputs, access(t.output), t.params, t.line))

    def finish(self, live: frozenset[int]) -> Rolled:
        """The program."""
        dtypes = tuple(np.dtype(np.int64) if isinstance(o, int) else self.old.operands[o.index] for o in self.operands)
        made = Program(tuple(self.tasks), (), live, dtypes, tuple(self.regions))
        known = made.stores()
        inputs = tuple((s, p) for s, p in self.old.inputs if s.id in known)
        return Rolled(replace(made, inputs=inputs), tuple(self.operands))


class _Rolling(_Building):
    """A program on its way to one with loops."""

    def __init__(self, program: Program, new: New) -> None:
        super().__init__(program, new)
        self.first: dict[int, int] = {s.id: -1 for s, _ in program.inputs}
        self.last: dict[int, int] = {}
        for n, task in enumerate(program.tasks):
            for access in (*task.reads(), task.output):
                self.first.setdefault(access.store.id, n)
                self.last[access.store.id] = n

    def trips_at(self, codes: Sequence[int], start: int) -> tuple[int, int] | None:
        """Period and number of the trips that begin at a task, where they can be a loop."""
        period, trips = repeats(codes, start, LONGEST_TRIP)
        # What is handed over two trips is handed over one where two are one.
        for factor in (1, 2, 3):
            p, count = period * factor, trips // factor
            while count >= FEWEST_TRIPS and p * count >= FEWEST_TASKS:
                if self.roles(start, p, count) is not None:
                    return p, count
                # Where stores of the last trip are used after it, that one stands by itself.
                if self.roles(start, p, count - 1) is not None and (count - 1) * p >= FEWEST_TASKS:
                    return p, count - 1
                break
        return None

    def _stores(self, start: int, period: int) -> list[Store]:
        return [a.store for t in self.old.tasks[start : start + period] for a in (*t.reads(), t.output)]

    def roles(self, start: int, period: int, trips: int) -> _Roles | None:
        """How the trips hang together; None where they are not a loop."""
        if trips < FEWEST_TRIPS:
            return None
        rows = [self._stores(start + t * period, period) for t in range(trips)]
        trip = self.old.tasks[start + period : start + 2 * period]
        made, changed = self._written(trip, start + period)
        places: dict[int, list[int]] = {}  # by store of the second trip
        for place, store in enumerate(rows[1]):
            places.setdefault(store.id, []).append(place)
        # Whatever a trip makes: by its store in the first trip, where it is.
        before = {rows[0][where[0]].id: where[0] for id, where in places.items() if id in made}
        handed: list[tuple[Store, Store]] = []
        initial: list[Store] = []
        shared: list[Store] = []
        for id, where in places.items():
            column = [row[where[0]] for row in rows]
            if any(row[w].id != s.id for w in where for row, s in zip(rows[1:], column[1:])):
                return None  # one store in the second trip and several in another
            if any(rows[0][w].id != column[0].id for w in where):
                return None
            if all(s.id == id for s in column):
                if id in made and self.first[id] >= start:
                    return None  # it would have to be there before
                if id in made or id in changed:
                    shared.append(column[0])
            elif id in made:
                if not self._belong(column, start, period, column[0].id in places):
                    return None
            elif id in changed or id not in before:
                return None
            else:  # found as the trip before left it
                source = before[id]
                if any(rows[t][where[0]].id != rows[t - 1][source].id for t in range(1, trips)):
                    return None
                handed.append((rows[1][where[0]], rows[1][source]))
                initial.append(column[0])
        taken = {*before, *(s.id for s in shared)}
        results = {result.id for _, result in handed}
        # What is reduced, or computed on every rank, lies where its task says.
        own = all(not (t.output.store.shape and t.reduces) and not t.param("replicate")
                  for t in trip if t.output.store.id in results)  # fmt: skip
        if not own or any(s.id in taken for s in initial):
            return None
        return _Roles(tuple(handed), tuple(initial), tuple(shared))

    def _written(self, tasks: Sequence[IndexTask], start: int) -> tuple[set[int], set[int]]:
        """The stores that tasks from number ``start`` on make, and those that they change.

        Made is what they write before they read it: all of it, or a part of what nothing was in before.
        """
        seen: set[int] = set()
        made: set[int] = set()
        changed: set[int] = set()
        for task in tasks:
            seen |= {a.store.id for a in task.reads()}
            id = task.output.store.id
            whole = not task.partial and task.output.privilege in (Privilege.WRITE, Privilege.REDUCE)
            if id not in seen and (whole or self.first[id] >= start):
                made.add(id)
            elif id not in made:
                changed.add(id)
            seen.add(id)
        return made, changed

    def _belong(self, column: list[Store], start: int, period: int, handed: bool) -> bool:
        """Whether stores, each made by a trip, are of use in it and, where they are handed on, in the next."""
        stop = start + len(column) * period
        if len({s.id for s in column}) < len(column):
            return False
        for t, store in enumerate(column):
            own = start + t * period
            if not own <= self.first[store.id] < own + period:
                return False
            after = self.last[store.id] >= min(own + 2 * period, stop) or store.id in self.old.live
            if after and not (handed and t == len(column) - 1):
                return False
        return True

    def loop(self, start: int, period: int, trips: int) -> None:
        """Take over trips as a loop: the second stands for all."""
        roles = self.roles(start, period, trips)
        assert roles is not None
        second = self._stores(start + period, period)
        last = self._stores(start + (trips - 1) * period, period)
        # After the loop the store that it found has what the last trip made: it takes that one's name.
        named: dict[int, Store] = {}
        carried: list[Carried] = []
        for (found, result), initial in zip(roles.handed, roles.initial):
            inside = last[second.index(result)]
            named[found.id] = inside
            carried.append(Carried(initial, inside, result))
        carried += [Carried(s, s, s) for s in roles.shared]
        count = _Counting(self, trips, self.old.tasks[start].line)
        count.begin()
        for n in range(start + period, start + 2 * period):
            self.keep(n, named)
        count.end(carried)


class _Counting:
    """A loop that counts its trips, while its tasks are appended: `begin`, the tasks of a trip, `end`."""

    def __init__(self, to: _Building, trips: int, line: str) -> None:
        self.to, self.line, self.trips = to, line, trips
        integer = np.dtype(np.int64)
        self.zero, self.bound, self.count, self.next = (to.new((), integer) for _ in range(4))
        self.predicate = to.new((), np.dtype(bool))

    def _task(self, op: str, inputs: tuple[Store | Operand, ...], output: Store) -> None:
        accesses = tuple(i if isinstance(i, Operand) else Access(i, View.identity(())) for i in inputs)
        written = Access(output, View.identity(()), Privilege.WRITE)
        self.to.tasks.append(IndexTask(op, (), accesses, written, (), self.line))

    def _number(self, value: int) -> Operand:
        self.to.operands.append(value)
        return Operand(len(self.to.operands) - 1)

    def begin(self) -> None:
        """The tasks before the trip's."""
        self._task("fill", (self._number(0),), self.zero)
        self._task("fill", (self._number(self.trips),), self.bound)
        self.start = len(self.to.tasks)
        self._task("less", (self.count, self.bound), self.predicate)
        self.middle = len(self.to.tasks)

    def end(self, carried: Sequence[Carried]) -> None:
        """The tasks after them."""
        self._task("add", (self.count, self._number(1)), self.next)
        counter = Carried(self.zero, self.count, self.next)
        place = (self.start, self.middle, len(self.to.tasks), self.predicate, -1, 0, self.line)
        self.to.regions.append(Loop(*place, (counter, *carried), self.count, self.bound))


def repeated(
    program: Program, handed: Sequence[tuple[int, int]], trips: int, new: New
) -> tuple[Rolled, list[int]] | None:
    """A loop of whole runs of a program; None where it cannot be one.

    Args:
        program: what one run does.
        handed: pairs of an input and a result: the next run finds the one as this run leaves the other.
        trips: how many runs.
        new: makes a store of a shape and dtype.

    Returns:
        The loop, and for each pair the store that holds its value afterwards.  The inputs of the pairs do not live on.
    """
    stores = program.stores()
    builder = _Building(program, new)
    own = {s.id for s, _ in program.inputs}
    written = {t.output.store.id: t for t in program.tasks}
    changed = {
        i for i in own & program.live if i in written or any(i == s.id for r in program.regions for s in r.stores())
    }
    carried: list[Carried] = []
    named: dict[int, Store] = {}
    after: list[int] = []
    for given, result in handed:
        task = written.get(result)
        from_loop = any(result == c.inside.id for r in program.regions if isinstance(r, Loop) for c in r.carried)
        if result in own or given in changed or given not in own or not (task or from_loop):
            return None
        if task is not None and ((stores[result].shape and task.reduces) or task.param("replicate")):
            return None
        if (stores[given].shape, stores[given].dtype) != (stores[result].shape, stores[result].dtype):
            return None
        named[given] = inside = new(stores[given].shape, stores[given].dtype)
        carried.append(Carried(stores[given], inside, stores[result]))
        after.append(inside.id)
    if len({result for _, result in handed}) < len(handed):
        return None
    carried += [Carried(stores[i], stores[i], stores[i]) for i in sorted(changed)]
    count = _Counting(builder, trips, program.tasks[0].line)
    count.begin()
    offset = len(builder.tasks)
    for n in range(len(program.tasks)):
        builder.keep(n, named)
    count.end(carried)
    for region in program.regions:
        region = region.renamed({s.id: named.get(s.id, s) for s in region.stores()})
        parent, arm = (region.parent + 1, region.arm) if region.parent >= 0 else (0, 1)
        start, middle, stop = (n + offset for n in (region.start, region.middle, region.stop))
        builder.regions.append(replace(region, start=start, middle=middle, stop=stop, parent=parent, arm=arm))
    live = (program.live & own) - {given for given, _ in handed} | frozenset(after)
    return builder.finish(live), after
