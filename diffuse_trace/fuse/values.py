"""Values: what a program computes more than once is computed once.

Each value gets a number, and what is made by the same operation from the same numbers has the same number (value
numbering: Cocke and Schwartz, Programming Languages and Their Compilers, 1970).  Signs are kept beside the numbers:
rounding is symmetric, so that a factor ``-x`` gives the negative of what ``x`` gives, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace

from ..ir import Access, IndexTask, Privilege, Program, Store

Value = tuple[int, int]  # the number, and 1 or -1 for its sign
Path = tuple[tuple[int, int], ...]  # the regions around a task, and in which part of each it lies


def without_repeats(program: Program) -> tuple[Program, int]:
    """The program without tasks whose whole result another one has made before, and how many those were.

    A task goes where its store is written by it alone, is not live and is handed on by no region.  What reads
    that store reads the other one's then, which must be written once only, too.  With it goes what only it has read.
    """
    return _Numbering(program).rewritten()


class _Numbering:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.writes: dict[int, int] = {}
        for t in program.tasks:
            self.writes[t.output.store.id] = self.writes.get(t.output.store.id, 0) + 1
        self.handed = {s.id for region in program.regions for s in region.stores()}
        self.values: dict[int, Value] = {}  # store id -> what it holds at this point
        self.numbers: dict[Hashable, int] = {}  # how a value is made -> its number
        self.holders: dict[Value, list[tuple[Path, Store]]] = {}
        self.instead: dict[int, Store] = {}  # store id -> the one that is read in its place from here on
        self.paths = self._paths()

    def _paths(self) -> list[Path]:
        paths: list[Path] = [()] * len(self.program.tasks)
        for number, region in enumerate(self.program.regions):
            for t in range(region.start, region.stop):
                paths[t] = (*paths[t], (number, int(t >= region.middle)))
        return paths

    def rewritten(self) -> tuple[Program, int]:
        tasks: list[IndexTask | None] = []
        for n, task in enumerate(self.program.tasks):
            for region in self.program.regions:
                if n in (region.start, region.middle, region.stop):
                    self._forget(region.start, region.stop)
            task = self._redirected(task)
            tasks.append(None if self._repeats(n, task) else task)
        if None not in tasks:
            return self.program, 0
        self._drop_unused(tasks)
        place = [0]  # of each task: how many are kept before it
        for kept in tasks:
            place.append(place[-1] + (kept is not None))
        regions = tuple(
            replace(r, start=place[r.start], middle=place[r.middle], stop=place[r.stop]) for r in self.program.regions
        )
        program = replace(self.program, tasks=tuple(t for t in tasks if t is not None), regions=regions)
        stores = program.stores()  # what only repeats have used is no input any more
        inputs = tuple((store, partition) for store, partition in program.inputs if store.id in stores)
        return replace(program, inputs=inputs), len(tasks) - place[-1]

    def _drop_unused(self, tasks: list[IndexTask | None]) -> None:
        """Drop what only dropped tasks have read."""
        used = {*self.program.live, *self.handed}
        used |= {id for id, count in self.writes.items() if count > 1}
        for n in reversed(range(len(tasks))):
            task = tasks[n]
            if task is not None and task.output.store.id not in used:
                tasks[n] = None
            elif task is not None:
                used.update(access.store.id for access in task.reads())

    def _forget(self, start: int, stop: int) -> None:
        """At the borders of a region: another trip, or none, may leave other values in what it changes."""
        changed = {t.output.store.id for t in self.program.tasks[start:stop]} | self.handed
        for id in changed:
            self.values.pop(id, None)

    def _redirected(self, task: IndexTask) -> IndexTask:
        if not any(a.store.id in self.instead for a in task.reads()):
            return task
        inputs = tuple(
            Access(self.instead[i.store.id], i.view) if isinstance(i, Access) and i.store.id in self.instead else i
            for i in task.inputs
        )
        return replace(task, inputs=inputs)

    def _repeats(self, n: int, task: IndexTask) -> bool:
        """Take note of what a task makes; whether that is there already, and its store can be done without."""
        store, path = task.output.store, self.paths[n]
        alone = self.writes[store.id] == 1 and task.output.view.is_identity(store.shape)
        if not alone or store.id in self.handed or store.pattern is not None:
            self.values[store.id] = self._new()
            return False
        value = self.values[store.id] = self._made(task)
        for around, other in self.holders.setdefault(value, []):
            if path[: len(around)] == around and (other.shape, other.dtype) == (store.shape, store.dtype):
                if store.id in self.program.live:
                    return False
                self.instead[store.id] = other
                return True
        self.holders[value].append((path, store))
        return False

    def _new(self) -> Value:
        return self._number(object()), 1

    def _number(self, key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def _made(self, task: IndexTask) -> Value:
        out, given, signs = task.output, list[Hashable](), list[int]()
        floats = out.store.dtype.kind == "f" and out.privilege is Privilege.WRITE
        for i in task.inputs:
            if isinstance(i, Access):
                if i.store.id not in self.values:
                    self.values[i.store.id] = self._new()
                number, sign = self.values[i.store.id]
                given.append((number, i.view))
                signs.append(sign)
                floats &= i.store.dtype == out.store.dtype
            else:
                given.append(i)
        rest = task.shape, task.params, task.spelled, str(out.store.dtype), out.privilege, out.reduction
        if floats and task.op == "negative" and signs:
            view = next(task.reads()).view
            whole = view.is_identity(out.store.shape)
            return number if whole else self._number(("at", *given, rest)), -sign
        if floats and task.op in ("multiply", "divide"):
            return self._number((task.op, *given, rest)), math.prod(signs)
        if floats and task.op in ("absolute", "square"):
            return self._number((task.op, *given, rest)), 1
        return self._number((task.op, *given, tuple(signs), rest)), 1
