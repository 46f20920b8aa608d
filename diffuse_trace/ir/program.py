"""Programs: a window of index tasks in program order, with what is there before and what lives on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from ..errors import ProgramError
from .partition import Partition
from .region import Block, Region, nest
from .store import Store
from .task import Access, IndexTask, Operand


@dataclass(frozen=True, slots=True)
class Program:
    """Tasks in program order.

    ``inputs`` holds the stores that have data before, each with its partition; ``live`` the ids of the
    stores still reachable afterwards; ``operands`` the dtypes of the scalars supplied at each run; ``regions`` the
    loops and branches, each after the one that it lies in.
    """

    tasks: tuple[IndexTask, ...]
    inputs: tuple[tuple[Store, Partition], ...]
    live: frozenset[int]
    operands: tuple[np.dtype, ...] = ()
    regions: tuple[Region, ...] = ()

    def block(self) -> Block:
        """The tasks and regions as a tree."""
        return nest(len(self.tasks), self.regions)

    def stores(self) -> dict[int, Store]:
        """Every store, by id, in order of first use (a task's inputs before its output)."""
        found: dict[int, Store] = {}

        def named(store: Store) -> None:
            known = found.setdefault(store.id, store)
            if known != store:
                raise ProgramError(f"store %{known.id} is declared twice: {known} and {store}")

        for task in self.tasks:
            for access in (*task.reads(), task.output):
                named(access.store)
        for region in self.regions:
            for store in region.stores():
                named(store)
        return found

    def key(self) -> tuple[Hashable, dict[int, int]]:
        """What is equal for two programs exactly when their canonical forms are, made without making those.

        Returns it with the map from store ids to canonical numbers.  Undecorated code pays for this at every window.
        """
        number: dict[int, int] = {}
        kinds: list[Hashable] = []
        rows: list[Hashable] = []
        for task in self.tasks:
            for access in (*task.inputs, task.output):
                if type(access) is Operand:
                    rows.append(access.index)
                    continue
                assert isinstance(access, Access)
                store = access.store
                if store.id not in number:
                    number[store.id] = len(number)
                    kinds += (store.shape, store.dtype, store.pattern)
                rows += (number[store.id], access.view)
            out = task.output
            rows += (task.op, task.shape, task.params, task.spelled, out.privilege.value, out.reduction)
        for region in self.regions:
            for store in region.stores():
                if store.id not in number:
                    number[store.id] = len(number)
                    kinds += (store.shape, store.dtype, store.pattern)
            rows += (type(region).__name__, region.start, region.middle, region.stop, region.parent, region.arm)
            rows += (len(region.values()), *(number[store.id] for store in region.stores()))
        inputs = tuple(sorted(((number[s.id], p) for s, p in self.inputs if s.id in number), key=itemgetter(0)))
        live = frozenset(number[i] for i in self.live if i in number)
        return (tuple(rows), tuple(kinds), inputs, live, self.operands), number

    def canonical(self) -> tuple[Program, dict[int, int]]:
        """The program with stores renumbered by first use, and the map from old ids to new.

        Two windows that differ only in the identity of their stores have equal canonical forms (the paper's
        memoization, section 5.2: as de Bruijn indices do for variables).
        """
        stores = self.stores()
        number = {old: new for new, old in enumerate(stores)}
        renamed = {old: Store(number[old], s.shape, s.dtype, s.pattern) for old, s in stores.items()}

        def access(a: Access) -> Access:
            return Access(renamed[a.store.id], a.view, a.privilege, a.reduction)

        tasks = tuple(
            IndexTask(
                t.op,
                t.shape,
                tuple(access(i) if isinstance(i, Access) else i for i in t.inputs),
                access(t.output),
                t.params,
                t.line,
            )
            for t in self.tasks
        )
        inputs = tuple(sorted(((renamed[s.id], p) for s, p in self.inputs if s.id in number), key=lambda x: x[0].id))
        live = frozenset(number[i] for i in self.live if i in number)
        regions = tuple(region.renamed(renamed) for region in self.regions)
        return Program(tasks, inputs, live, self.operands, regions), number

    def with_live(self, live: frozenset[int]) -> Program:
        """The same program with another set of live stores."""
        return replace(self, live=live)

    def __str__(self) -> str:
        from .text import dumps

        return dumps(self)
