"""Alignment: one partition for each store and task of a window, so that as little as possible moves.

A task that writes a part of a store is launched over the owners of that part, so writes never move data.
What feeds it is laid out the same way, backwards through the window; everything else follows its inputs,
and what has none is cut canonically.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ProgramError
from ..ir import REPLICATED, IndexTask, Partition, Pinned, Program, Spread, canonical


@dataclass(frozen=True)
class Alignment:
    """``tasks[t]`` partitions the index space of task ``t``; ``stores`` those of the stores, by id."""

    tasks: tuple[Partition, ...]
    stores: dict[int, Partition]


def align(program: Program, ranks: int, grid: tuple[int, ...] = ()) -> Alignment:
    """Choose the partitions.  Cost: two passes over the tasks, whatever the number of ranks.

    Stores that a region hands on as one another (`ir.region`) lie alike.
    """
    stores = _Alike(program)
    tasks: list[Partition | None] = [None] * len(program.tasks)
    # Where the result of a reduction lies follows from its task, whatever reads it.
    reduced = {stores.first(t.output.store.id) for t in program.tasks if t.reduces}

    for t in range(len(program.tasks) - 1, -1, -1):
        task = program.tasks[t]
        output = task.output
        if task.param("replicate"):
            tasks[t] = REPLICATED
        elif not task.reduces and output.store.id in stores:
            tasks[t] = stores[output.store.id].pull(output.view)
        over = tasks[t]
        if over is None or task.reduces or task.param("replicate"):
            continue
        for access in task.reads():
            store = access.store
            if store.id in stores or stores.first(store.id) in reduced:
                continue
            wanted = over.push(access.view)
            if wanted is None or (_pins(wanted) and not access.view.is_identity(store.shape)):
                continue
            if wanted.complete(store.shape):  # a view of a larger store would leave elements without an owner
                stores[store.id] = wanted

    for t, task in enumerate(program.tasks):
        output = task.output
        over = tasks[t]
        if over is None:
            if not task.reduces and output.store.id in stores:
                over = stores[output.store.id].pull(output.view)
            elif not task.reduces and task.partial:
                # The first write of a store that has no data yet: it lies canonically.
                stores[output.store.id] = canonical(output.store.shape, ranks, grid)
                over = stores[output.store.id].pull(output.view)
            else:
                over = _follow(task, stores, ranks, grid)
            tasks[t] = over
        made = over.reduced(output.view) if task.reduces else None
        if task.reduces and stores.get(output.store.id, made) != made:
            raise ProgramError(f"{task.op} reduces into %{output.store.id}, which lies elsewhere already ({task.line})")
        if output.store.id not in stores:
            made = made or over.push(output.view)
            stores[output.store.id] = made if made is not None else canonical(output.store.shape, ranks, grid)
            if made is None and not task.reduces:
                tasks[t] = stores[output.store.id].pull(output.view)
    for store in (s for region in program.regions for s in region.stores()):
        if store.id not in stores:
            stores[store.id] = canonical(store.shape, ranks, grid)
    return Alignment(tuple(p if p is not None else REPLICATED for p in tasks), stores.each())


class _Alike:
    """The partitions of stores by id, one for all that lie alike."""

    def __init__(self, program: Program) -> None:
        self._first: dict[int, int] = {}
        self._partitions: dict[int, Partition] = {}
        self._ids = dict.fromkeys([*program.stores(), *(store.id for store, _ in program.inputs)])
        for region in program.regions:
            for value in region.values():
                one, *others = (self.first(s.id) for s in value.stores())
                self._first.update((other, one) for other in others if other != one)
        for store, partition in program.inputs:
            self.setdefault(store.id, partition)

    def first(self, id: int) -> int:
        """The store that stands for all that lie like this one."""
        while id in self._first:
            id = self._first[id]
        return id

    def each(self) -> dict[int, Partition]:
        """The partition of every store."""
        return {id: self[id] for id in self._ids if id in self}

    def setdefault(self, id: int, partition: Partition) -> Partition:
        """The partition of a store, if need be this one from now on."""
        return self._partitions.setdefault(self.first(id), partition)

    def get(self, id: int, default: Partition | None = None) -> Partition | None:
        """The partition of a store."""
        return self._partitions.get(self.first(id), default)

    def __contains__(self, id: int) -> bool:
        return self.first(id) in self._partitions

    def __getitem__(self, id: int) -> Partition:
        return self._partitions[self.first(id)]

    def __setitem__(self, id: int, partition: Partition) -> None:
        self._partitions[self.first(id)] = partition


def _follow(task: IndexTask, stores: _Alike, ranks: int, grid: tuple[int, ...]) -> Partition:
    """Launch over the largest input that is cut along all its grid dimensions; else over one that is copied.

    Inputs that are broadcast or pinned would leave ranks idle or make them repeat work; where there is no other,
    the index space is cut canonically.
    """
    copied: Partition | None = None
    best: tuple[int, Partition] | None = None
    for access in task.reads():
        pulled = stores[access.store.id].pull(access.view)
        if _pins(pulled) or any(task.shape[d] > 1 for d in access.view.broadcast_axes()):
            continue
        if not pulled.dims or any(isinstance(d, Spread) for d in pulled.dims):
            copied = copied or pulled
        elif best is None or access.store.size > best[0]:
            best = (access.store.size, pulled)
    if best is not None:
        return best[1]
    return copied.simplified() if copied is not None else canonical(task.shape, ranks, grid)


def _pins(partition: Partition) -> bool:
    return any(isinstance(d, Pinned) for d in partition.dims)
