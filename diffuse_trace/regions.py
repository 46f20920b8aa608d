"""Recording regions: the tasks of a loop or a branch, and the stores that it hands on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from . import recording
from .ir import Access, Branch, IndexTask, Loop, Operand, Region, Store
from .numpy import core
from .numpy.array import ndarray
from .recording import Array, Window


class Frame:
    """The tasks of a region while they are recorded into the current window."""

    def __init__(self, name: str) -> None:
        recording.settle()
        self.window: Window = recording.current()
        self.line, self.site = recording.user_site()
        self.name = f"{name} at {self.line}"
        if not self.window.tracing:
            self.window.cut(self.site)
        self.mark = self.start = self.middle = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within the block operations belong to the region, and arrays have no values."""
        window = self.window
        before = window.tracing
        self.start, self.number = len(window.tasks), len(window.regions)
        self.parent, self.arm = (window.open[-1][0], window.open[-1][1]) if window.open else (-1, 0)
        self.mark = recording.new((), bool).ir.id
        window.first.setdefault(self.site, self.start)
        window.tracing = self.name
        window.atomic += 1
        window.open.append([self.number, 0])
        window.regions.append(Loop(self.start, self.start, self.start, Store(-1, (), numpy.dtype(bool))))
        try:
            yield
        except BaseException:
            self.discard()
            raise
        finally:
            window.open.pop()
            window.atomic -= 1
            window.tracing = before

    def discard(self) -> None:
        """Forget what has been recorded."""
        window = self.window
        del window.tasks[self.start :], window.sites[self.start :], window.regions[self.number :]
        window.first = {site: n for site, n in window.first.items() if n < self.start}
        self.lose("it was made in a region that could not be recorded")

    def other_part(self) -> None:
        """The second part of the region begins."""
        self.middle = len(self.window.tasks)
        self.window.open[-1][1] = 1

    def written(self, start: int, stop: int | None = None) -> set[int]:
        """The ids of stores that recorded tasks, or regions among them, change."""
        window = self.window
        stop = len(window.tasks) if stop is None else stop
        found = {t.output.store.id for t in window.tasks[start:stop]}
        for region in window.regions[self.number + 1 :]:
            if start <= region.start and region.stop <= stop:
                place = 1 if isinstance(region, Loop) else 2
                found |= {value.stores()[place].id for value in region.values()}
        return found

    def outer(self, written: set[int]) -> list[Store]:
        """Of changed stores those that were there before the region."""
        found = []
        for id in sorted(i for i in written if i < self.mark):
            store = self.window.stores[id]()
            if store is not None:
                if id not in self.window.inputs and not self._made_before(id):
                    self.window.note(store, self.line)
                found.append(store.ir)
        return found

    def _made_before(self, id: int) -> bool:
        if any(t.output.store.id == id for t in self.window.tasks[: self.start]):
            return True
        earlier = self.window.regions[: self.number]
        return any(value.stores()[1 + isinstance(r, Branch)].id == id for r in earlier for value in r.values())

    def use(self, array: Array, made: bool = False) -> Store:
        """The store of an array that the region reads, or with ``made`` hands on."""
        store = array.store
        if store.ir.id not in self.window.stores:
            self.window.note(store, self.line, written=made)
        return store.ir

    def rename(self, stores: dict[int, Store]) -> None:
        """Put other stores in place of some, in all that has been recorded of the region."""
        if not stores:
            return

        def access(a: Access | Operand) -> Any:
            if isinstance(a, Operand) or a.store.id not in stores:
                return a
            return Access(stores[a.store.id], a.view, a.privilege, a.reduction)

        tasks = self.window.tasks
        for n in range(self.start, len(tasks)):
            t = tasks[n]
            if t.output.store.id in stores or any(a.store.id in stores for a in t.reads()):
                inputs = tuple(access(i) for i in t.inputs)
                tasks[n] = IndexTask(t.op, t.shape, inputs, access(t.output), t.params, t.line)
        for n in range(self.number + 1, len(self.window.regions)):
            region = self.window.regions[n]
            self.window.regions[n] = region.renamed({s.id: stores.get(s.id, s) for s in region.stores()})

    def close(self, region: Region) -> None:
        """The region is complete."""
        self.window.regions[self.number] = region
        for n in range(self.start, len(self.window.tasks)):
            self.window.sites[n] = self.site
        self.lose(f"it was made in {self.name}, which does not return it", frozenset(s.id for s in region.stores()))

    def lose(self, why: str, kept: frozenset[int] = frozenset()) -> None:
        """Arrays of the region that outlive it have no value."""
        for id, held in self.window.stores.items():
            store = held() if id > self.mark and id not in kept else None
            if store is not None and store.data is None:
                store.error = why

    def settled(self, value: Any, dtype: Any, taken: set[int]) -> Array:
        """A result of the region as a whole store of its own that this part of the region makes: itself, or a copy.

        ``taken`` are stores that stand for other results already.
        """
        array = value if isinstance(value, Array) else fill(value)
        id = array.store.ir.id
        since = self.middle if self.window.open[-1][1] else self.start
        makers = [t for t in self.window.tasks[since:] if t.output.store.id == id]
        own = bool(makers) and id > self.mark and array.store.data is None and id not in taken
        own = own and array.view.is_identity(array.store.shape) and dtype in (None, array.dtype)
        # What is reduced, or computed on every rank, lies where its task says.
        own = own and not any((array.ndim and t.reduces) or t.param("replicate") for t in makers)
        if not own:
            array = copied(array, dtype)
        taken.add(array.store.ir.id)
        return array


def fill(value: Any) -> ndarray:
    """A 0-d array with a scalar, which promotes as the scalar does."""
    scalar = numpy.bool_(value) if isinstance(value, bool) else value
    weak = next((t for t in (int, float, complex) if type(value) is t), None)
    made = core.empty((), recording.scalar_dtype(scalar), weak)
    core.write("fill", [scalar], made)
    return made


def copied(array: Array, dtype: Any = None) -> ndarray:
    """A copy in a store of its own."""
    made = core.empty(array.shape, dtype or array.dtype)
    core.write("copy", [array], made)
    return made
