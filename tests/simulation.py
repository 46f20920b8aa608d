"""Plans carried out on simulated ranks: a rank's elements are numbers, everything else is NaN.

What a rank reads without having it becomes NaN in the result, so a plan that agrees with `sequential` moves all that
it must.  Halos bring exactly the shifts they promise, temporaries are forgotten after their group, and the margins of
a store are forgotten when it is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from diffuse_trace.fuse import Exchange, Group, Partial, Plan, Reduction, Transfer, plan
from diffuse_trace.fuse.communication import Overlap
from diffuse_trace.fuse.explain import explain
from diffuse_trace.fuse.memory import exchange_bytes, peak_bytes, temporary_bytes
from diffuse_trace.fuse.plan import Repeat, Step
from diffuse_trace.fuse.verify import verify_plan
from diffuse_trace.ir import Access, Block, Branch, IndexTask, Loop, Operand, Partition, Program, Split, Store, View
from diffuse_trace.ir.verify import verify

Index = tuple[slice, ...]

#: What stores hold where nothing has been written yet.
UNWRITTEN = -1000.0

_FOLDS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
_NEUTRAL = {"sum": 0.0, "max": -np.inf, "min": np.inf, "prod": 1.0}


def evaluate(task: IndexTask, inputs: list[np.ndarray | float], own: Index) -> np.ndarray:
    """The elements of a task at its own points; every input and every point counts, each in its own way."""
    grids = np.meshgrid(*[np.arange(n) for n in task.shape], indexing="ij") if task.shape else []
    value = np.zeros(task.shape)[own]
    if task.op == "fill":
        value = value + sum(float(10**d) * g for d, g in enumerate(grids, 1))[own] if grids else value
    for k, block in enumerate(inputs, 1):
        value = value + (k * block if task.op == "add" else block)
    if task.op == "less":
        return (np.asarray(inputs[0]) < inputs[1]).astype(float)
    if task.op == "cumsum":
        value = np.cumsum(value, axis=_axis(task))
    return value


def sequential(program: Program, inputs: dict[int, np.ndarray], operands: list[float]) -> dict[int, np.ndarray]:
    """The stores after the tasks have run one after the other on whole arrays."""
    arrays = {id: array.copy() for id, array in inputs.items()}
    _run(program, program.block(), arrays, operands)
    return arrays


def _run(program: Program, block: Block, arrays: dict[int, np.ndarray], operands: list[float]) -> None:
    for item in block.items:
        if not isinstance(item, int):
            number, first, second = item
            region = program.regions[number]
            if isinstance(region, Loop):
                arrays.update({c.inside.id: arrays[c.initial.id].copy() for c in region.carried})
                _run(program, first, arrays, operands)
                while arrays[region.predicate.id]:
                    _run(program, second, arrays, operands)
                    arrays.update({c.inside.id: arrays[c.result.id].copy() for c in region.carried})
                    _run(program, first, arrays, operands)
            else:
                assert isinstance(region, Branch)
                holds = bool(arrays[region.predicate.id])
                _run(program, first if holds else second, arrays, operands)
                chosen = {c.final.id: arrays[(c.first if holds else c.second).id].copy() for c in region.chosen}
                arrays.update(chosen)
            continue
        task = program.tasks[item]
        whole = tuple(slice(0, n) for n in task.shape)
        blocks = [
            operands[i.index] if isinstance(i, Operand) else i.view.of(arrays[i.store.id]).copy() for i in task.inputs
        ]
        value = evaluate(task, blocks, whole)
        store = task.output.store
        array = arrays.setdefault(store.id, np.full(store.shape, UNWRITTEN))
        if task.reduces:
            array[...] = folded(task, value)
        else:
            put(array, task.output.view, value, whole)


def folded(task: IndexTask, value: np.ndarray) -> np.ndarray:
    """What a block reduces to, along the axes of the output's store."""
    view = task.output.view
    kept = [a.source for a in view.axes]
    lost = tuple(d for d in range(len(task.shape)) if d not in kept)
    operator = str(task.output.reduction)
    result = _FOLDS[operator].reduce(value, axis=lost, initial=_NEUTRAL[operator]) if lost else value
    remaining = sorted(d for d in kept if d is not None)
    return np.asarray(result).transpose([remaining.index(d) for d in kept if d is not None])


def put(array: np.ndarray, view: View, value: np.ndarray, own: Index) -> None:
    """Write ``value`` to the own points of a view."""
    for place, index in zip(np.ndindex(*value.shape), _points(own), strict=True):
        at = tuple(a.offset if a.source is None else a.offset + a.step * index[a.source] for a in view.axes)
        array[at] = value[place]


def _points(own: Index) -> Iterator[tuple[int, ...]]:
    return itertools.product(*[range(s.start, s.stop) for s in own])


def _axis(task: IndexTask) -> int:
    axis = task.param("scan")
    assert isinstance(axis, int)
    return axis


def slices(partition: Partition, shape: tuple[int, ...], rank: int) -> Index | None:
    """The block of a rank; None where a pinned dimension leaves it out."""
    coordinates = partition.coordinates(rank)
    if not partition.holds(coordinates):
        return None
    return tuple(slice(low, high) for low, high in partition.block(shape, coordinates))


class Simulation:
    """A plan on ``ranks`` ranks; `run` gives the live stores."""

    def __init__(self, plan: Plan, ranks: int) -> None:
        self.plan, self.ranks = plan, ranks
        self.local: dict[int, list[np.ndarray]] = {}  # version -> one array of the store's shape for each rank
        self.moved: dict[object, list[np.ndarray]] = {}
        self.operands: list[float] = []

    def run(self, inputs: dict[int, np.ndarray], operands: list[float]) -> dict[int, np.ndarray]:
        """Carry out all steps."""
        plan, self.operands = self.plan, operands
        for id, version in plan.versions.entry.items():
            self.local[version] = [self._own(id, inputs[id], rank) for rank in range(self.ranks)]
        self._steps(plan.steps)
        final = plan.versions.final
        return {id: self.whole(final[id]) for id in plan.program.live if id in final}

    def _steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if isinstance(step, Exchange):
                for transfer in step.transfers:
                    self._halo(transfer) if transfer.view is None else self._move(transfer)
            elif isinstance(step, Reduction):
                for item in step.items:
                    self._scan(item) if item.axis is not None else self._combine(item)
            elif isinstance(step, Group):
                self._group(step)
            elif isinstance(step, Repeat):
                handed = self.plan.versions.handed[step.region]
                self._hand_on(handed.first, handed.made)
                self._steps(step.condition)
                while self.whole(handed.predicate):
                    self._steps(step.body)
                    self._hand_on(handed.second, handed.made)
                    self._steps(step.condition)
            else:
                handed = self.plan.versions.handed[step.region]
                holds = bool(self.whole(handed.predicate))
                self._steps(step.first if holds else step.second)
                self._hand_on(handed.first if holds else handed.second, handed.made)

    def _hand_on(self, versions: tuple[int, ...], made: tuple[int, ...]) -> None:
        """All at once; only own elements, since ghosts are another value's."""
        arrays = [[self._own(self._store(v).id, a, rank) for rank, a in enumerate(self.local[v])] for v in versions]
        self.local.update(zip(made, arrays, strict=True))

    def whole(self, version: int) -> np.ndarray:
        """All elements of a version, from their owners; copies must agree and every element must have an owner."""
        store = self._store(version)
        result = np.full(store.shape, np.nan)
        for rank, array in enumerate(self.local[version]):
            block = slices(self._partition(store.id), store.shape, rank)
            if block is None:
                continue
            known = result[block]
            assert np.array_equal(array[block], known) or np.isnan(known).all(), f"copies of version {version} differ"
            result[block] = array[block]
        assert not np.isnan(result).any(), f"version {version} of %{store.id} has elements without an owner"
        return result

    def _store(self, version: int) -> Store:
        return self.plan.versions.all[version].store

    def _partition(self, store: int) -> Partition:
        return self.plan.alignment.stores[store]

    def _own(self, id: int, array: np.ndarray, rank: int) -> np.ndarray:
        result = np.full(array.shape, np.nan)
        block = slices(self._partition(id), array.shape, rank)
        if block is not None:
            result[block] = array[block]
        return result

    def _halo(self, transfer: Transfer) -> None:
        whole = self.whole(transfer.version)
        for rank, array in enumerate(self.local[transfer.version]):
            coordinates = transfer.source.coordinates(rank)
            for shift in transfer.shifts:
                region = [slice(0, n) for n in whole.shape]
                for d, c, s in zip(transfer.source.dims, coordinates, shift, strict=True):
                    if isinstance(d, Split):
                        low, high = d.preimage(d.bound(c) + s, d.bound(c + 1) + s)
                        region[d.axis] = slice(max(low, 0), max(min(high, whole.shape[d.axis]), 0))
                    else:
                        assert s == 0
                if transfer.source.holds(coordinates):
                    array[tuple(region)] = whole[tuple(region)]

    def _move(self, transfer: Transfer) -> None:
        view, partition = transfer.view, transfer.partition
        assert view is not None and partition is not None
        seen = view.of(self.whole(transfer.version))
        results = []
        for rank in range(self.ranks):
            result = np.full(view.shape, np.nan)
            block = slices(partition, view.shape, rank)
            if block is not None:
                result[block] = seen[block]
            results.append(result)
        self.moved[transfer.version, view, partition] = results

    def _group(self, group: Group) -> None:
        beyond = [self._beyond(group, rank) for rank in range(self.ranks)]
        for t in group.tasks:
            placed = self.plan.placed[t]
            self.local[placed.write] = [self._task(t, rank, beyond[rank].get(t)) for rank in range(self.ranks)]
        for version in group.temporaries:
            del self.local[version]

    def _beyond(self, group: Group, rank: int) -> dict[int, Index]:
        """Of each task that a rank computes beyond its own block: the points that the others of the group need."""
        wanted: dict[int, Index] = {}
        producer = {self.plan.placed[t].write: t for t in group.tasks}
        for t in reversed(group.tasks):
            placed = self.plan.placed[t]
            points = wanted.get(t) or slices(placed.partition, placed.task.shape, rank)
            if points is None or any(s.start >= s.stop for s in points):
                continue
            for access, version, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
                made = producer.get(version)
                if made is None or not isinstance(access, Access) or not (isinstance(need, Overlap) or t in wanted):
                    continue
                ends = []
                for a in access.view.axes:
                    reach = range(1) if a.source is None else (points[a.source].start, points[a.source].stop - 1)
                    ends.append(sorted(a.offset + a.step * x for x in (reach[0], reach[-1])))
                source = self.plan.placed[made]  # it makes all of a store: its points are that store's elements
                own = wanted.get(made) or slices(source.partition, source.task.shape, rank)
                assert own is not None
                wanted[made] = tuple(
                    slice(low, high + 1) if s.start >= s.stop else slice(min(s.start, low), max(s.stop, high + 1))
                    for s, (low, high) in zip(own, ends, strict=True)
                )
        return wanted

    def _task(self, t: int, rank: int, beyond: Index | None) -> np.ndarray:
        plan, placed = self.plan, self.plan.placed[t]
        task, store = placed.task, placed.task.output.store
        result = np.full(store.shape, np.nan)
        own = beyond or slices(placed.partition, task.shape, rank)
        block = slices(self._partition(store.id), store.shape, rank)
        if task.reduces:
            if block is not None:
                result[block] = _NEUTRAL[str(task.output.reduction)]
        elif task.partial and block is not None:
            previous = plan.versions.all[placed.write].previous
            result[block] = UNWRITTEN if previous is None else self.local[previous][rank][block]
        if own is None or any(s.start >= s.stop for s in own):
            return result
        inputs = []
        for i, version in zip(task.inputs, placed.reads, strict=True):
            if isinstance(i, Operand):
                inputs.append(self.operands[i.index])
            else:
                inputs.append(self._read(i, version, placed.partition, rank)[own].copy())
        value = evaluate(task, inputs, own)
        if task.reduces:
            part = folded(task, value)
            assert block is not None and result[block].shape == part.shape, "a partial result lies elsewhere"
            result[block] = part
        else:
            put(result, task.output.view, value, own)
            outside = np.ones(store.shape, bool)
            if block is not None:
                outside[block] = False
            assert beyond or np.isnan(result[outside]).all(), f"{task.op} writes elements of other ranks"
        return result

    def _read(self, access: Access, version: int, partition: Partition, rank: int) -> np.ndarray:
        moved = self.moved.get((version, access.view, partition))
        # A version that is laid out anew may be read in place elsewhere: only what is missing comes from the move.
        here = access.view.of(self.local[version][rank])
        return here if moved is None else np.where(np.isnan(here), moved[rank], here)

    def _teams(self, item: Partial) -> Iterator[list[int]]:
        """The ranks that combine their results, in the order of their coordinates."""
        grid = Partition(self.plan.placed[self._producer(item.version)].partition.dims)
        assert grid.grid == item.grid
        teams: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.ranks):
            coordinates = grid.coordinates(rank)
            teams.setdefault(tuple(c for g, c in enumerate(coordinates) if g not in item.dims), []).append(rank)
        yield from teams.values()

    def _producer(self, version: int) -> int:
        producer = self.plan.versions.all[version].producer
        assert producer is not None
        return producer

    def _combine(self, item: Partial) -> None:
        arrays = self.local[item.version]
        for team in self._teams(item):
            total = arrays[team[0]]
            for rank in team[1:]:
                total = _FOLDS[item.operator](total, arrays[rank])
            for rank in team:
                arrays[rank] = total.copy()

    def _scan(self, item: Partial) -> None:
        arrays = self.local[item.version]
        task = self.plan.placed[self._producer(item.version)].task
        view = task.output.view
        axis = next(k for k, a in enumerate(view.axes) if a.source == item.axis)
        store = self._store(item.version)
        ordered = sorted(
            range(self.ranks),
            key=lambda r: (slices(self._partition(store.id), store.shape, r) or (slice(0),) * 9)[axis].start or 0,
        )
        for team in self._teams(item):
            before: np.ndarray | None = None
            for rank in sorted(team, key=ordered.index):
                block = slices(self._partition(store.id), store.shape, rank)
                if block is None or block[axis].start >= block[axis].stop:
                    continue
                part = arrays[rank][block]
                last = part.take([-1], axis=axis)
                if before is not None:
                    arrays[rank][block] = _FOLDS[item.operator](part, before)
                    last = _FOLDS[item.operator](last, before)
                before = last


GRIDS: list[tuple[int, tuple[int, ...]]] = [
    (1, ()),
    (2, ()),
    (2, (1, 2)),
    (3, ()),
    (4, ()),
    (4, (1, 4)),
    (4, (4, 1)),
    (6, (2, 3)),
    (7, ()),
]


def check(program: Program, ranks: int, mode: str = "1", grid: tuple[int, ...] = (), max_halo: int = 16) -> None:
    """Compare a plan on simulated ranks with the program on whole arrays."""
    verify(program)
    made = plan(program, ranks, mode=mode, grid=grid, max_halo=max_halo)
    verify_plan(made)
    generator = np.random.default_rng(0)
    inputs = {s.id: generator.integers(1, 9, s.shape).astype(float) for s, _ in program.inputs}
    right = sequential(program, inputs, [2.5])
    for id, array in Simulation(made, ranks).run(inputs, [2.5]).items():
        np.testing.assert_allclose(array, right[id], err_msg=f"%{id}")
    assert peak_bytes(made) >= 0 and temporary_bytes(made) >= 0 and min(exchange_bytes(made), default=0) >= 0
    assert explain(made, ranks)
