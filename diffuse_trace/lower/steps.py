"""The steps of a plan as traced operations on the pieces of one rank.

Each runs on an environment of values (pieces by `Key`) and the communication token, and says what it uses and makes;
`executable` decides which of them are compiled together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ProgramError
from ..fuse.communication import Local, Move
from ..fuse.plan import Exchange, Partial, Plan, Reduction, Transfer
from ..ir import Access, IndexTask, Operand, Partition, Split, View
from .blocks import Piece, fit, materialised, read, write
from .exchange import Messages, add_halo, add_move
from .geometry import Geometry, Layout, Region, domain_of, shape_of
from .kernels import Context, kernel
from .kernels.reduce import identity
from .transport import ExchangeSpec, Transport

#: A temporary of this cost (in additions, roughly) is stored rather than computed again in another loop.
EXPENSIVE = 40


@dataclass(frozen=True, slots=True)
class Key:
    """A value of the environment: a version, or a view of one laid out over another partition."""

    version: int
    view: View | None = None
    partition: Partition | None = None


@dataclass
class State:
    """What steps work on while they are traced; ``slots`` are donated buffers, in which results are built."""

    pieces: dict[Key, Piece]
    slots: list[Any]
    operands: Sequence[Any]
    transport: Transport
    active: Any
    token: Any


class Step:
    """One step; ``uses`` and ``makes`` are the keys that it reads and sets, ``updates`` those that it changes in
    place."""

    uses: tuple[Key, ...] = ()
    makes: tuple[Key, ...] = ()
    updates: tuple[Key, ...] = ()
    communicates = False
    name = ""

    def run(self, state: State) -> None:
        """Trace the step."""
        raise NotImplementedError


class Compute(Step):
    """Some index tasks on the points of this rank, as a number of loops.

    Each version that outlives the step, and each partial result, is the root of one loop over the block.  A temporary
    is computed anew in each loop that needs it: XLA would materialise what two loops share, which costs more than
    recomputing it, unless it is expensive (`_shared`).
    """

    def __init__(self, plan: Plan, geometry: Geometry, tasks: Sequence[int], temporaries: frozenset[int]) -> None:
        self.plan, self.geometry, self.tasks = plan, geometry, tuple(tasks)
        self.producer = {plan.placed[t].write: t for t in self.tasks}
        self.sources: dict[int, list[Key]] = {}  # task -> what it needs, its store's old elements included
        uses: dict[Key, None] = {}
        for t in self.tasks:
            needed = [key for k in range(len(plan.placed[t].reads)) if (key := self._source(t, k)) is not None]
            previous = plan.versions.all[plan.placed[t].write].previous
            if previous is not None:
                needed.append(Key(previous))
            self.sources[t] = needed
            uses.update((key, None) for key in needed if not self._made_here(key))
        self.uses = tuple(uses)
        self.makes = tuple(Key(version) for version in self.producer)
        self.roots = [v for v in self.producer if v not in temporaries]
        self.stored = self._shared(temporaries)
        self.roots += self.stored
        self.roots.sort(key=self.producer.__getitem__)
        #: Of each root that is built in a donated buffer: the slot, and whether that holds its old elements.
        self.slots: dict[int, tuple[int, bool]] = {}
        self.name = "+".join(plan.task(t).op for t in self.tasks)

    def _made_here(self, key: Key) -> bool:
        return key.view is None and key.version in self.producer

    def _source(self, t: int, k: int) -> Key | None:
        placed = self.plan.placed[t]
        access, version = placed.task.inputs[k], placed.reads[k]
        if isinstance(access, Operand):
            return None
        if isinstance(placed.needs[k], Move):
            return Key(version, access.view, placed.partition)
        return Key(version)

    def _shared(self, temporaries: frozenset[int]) -> list[int]:
        """Temporaries that cost more to compute wherever they are needed than to store and load.

        Several loops may need one, or one loop at several places (a stencil of a stencil).
        """
        cost: dict[int, int] = {}
        places: dict[int, set[object]] = {}
        for t in self.tasks:
            for access, version in zip(self.plan.task(t).inputs, self.plan.placed[t].reads, strict=True):
                if isinstance(access, Access):
                    places.setdefault(version, set()).add(access.view.axes)
        for version, t in self.producer.items():
            below = sum(cost[key.version] for key in self.sources[t] if self._made_here(key))
            cost[version] = below + kernel(self.plan.task(t).op).cost
        loops: dict[int, set[int]] = {v: {v} for v in self.producer if v not in temporaries}
        found = []
        for version, t in reversed(self.producer.items()):
            needed_by = loops.setdefault(version, set())
            copies = max(len(needed_by), len(places.get(version, ())))
            if version in temporaries and (copies - 1) * cost[version] >= EXPENSIVE:
                found.append(version)
                needed_by = {version}
            for key in self.sources[t]:
                if self._made_here(key):
                    loops.setdefault(key.version, set()).update(needed_by)
        return found

    def run(self, state: State) -> None:
        """Trace one loop after the other, in program order of their roots."""
        for root in self.roots:
            pieces = {
                key: piece for key, piece in state.pieces.items() if key in self.uses or key.version in self.roots
            }
            for t in self.loop(root):
                pieces[Key(self.plan.placed[t].write)] = self._task(t, pieces, state)
            piece = pieces[Key(root)]
            if root in self.stored and root not in self.slots:
                piece = materialised(piece, state.active[-1])
            state.pieces[Key(root)] = piece

    def loop(self, root: int) -> list[int]:
        """The tasks that the loop of ``root`` computes: its own and those of its temporaries, in program order."""
        needed: set[int] = set()
        pending = [root]
        while pending:
            version = pending.pop()
            if version not in needed:
                needed.add(version)
                sources = self.sources[self.producer[version]]
                pending += [k.version for k in sources if self._made_here(k) and k.version not in self.roots]
        return sorted(self.producer[v] for v in needed)

    def reads(self, root: int) -> set[Key]:
        """What the loop of ``root`` needs that is there before it: inputs of the step, and earlier roots."""
        loop = self.loop(root)
        made = {self.plan.placed[t].write for t in loop}
        return {k for t in loop for k in self.sources[t] if k.view is not None or k.version not in made}

    def pointwise(self, root: int, version: int) -> bool:
        """Whether the loop of ``root`` reads ``version`` only where it writes, so that it may write into its buffer."""
        target = self.plan.task(self.producer[root]).output
        loop = self.loop(root)
        made = {self.plan.placed[t].write for t in loop}
        same = self.plan.versions.all[version].store == target.store
        for t in loop:
            placed = self.plan.placed[t]
            for access, seen, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
                if not isinstance(access, Access) or (seen != version and seen not in made):
                    continue
                whole = access.view.is_identity(access.store.shape)
                if not isinstance(need, Local) or not (
                    access.view == target.view if seen == version and same else whole
                ):
                    return False
        return same or target.view.is_identity(target.store.shape)

    def slight(self, root: int) -> bool:
        """Whether the root's task writes less than half of the block, so that it had better do it in place."""
        t = self.producer[root]
        own = self.geometry.block(self.plan.task(t), self.plan.placed[t].partition)
        block = self.geometry.of(self.plan.task(t).output.store).block
        return 2 * math.prod(shape_of(own)) < math.prod(shape_of(block))

    def _task(self, t: int, pieces: dict[Key, Piece], state: State) -> Piece:
        plan, placed = self.plan, self.plan.placed[t]
        task = placed.task
        layout = self.geometry.of(task.output.store)
        own = self.geometry.block(task, placed.partition)
        holder = placed.partition.holds(placed.partition.coordinates(self.geometry.rank))
        if task.reduces and any(low >= high for low, high in own):
            own = self._identity(task, layout)
        inputs = []
        for k, access in enumerate(task.inputs):
            if isinstance(access, Operand):
                inputs.append(state.operands[access.index])
                continue
            key = self._source(t, k)
            assert key is not None
            view = View.identity(task.shape) if key.view is not None else access.view
            wanted = domain_of(access.view, own) if key.view is not None else own
            inputs.append(read(pieces[key], view, wanted))
        with jax.named_scope(task.op):
            value = kernel(task.op).generate(Context(task, own, own, jnp), *inputs)
        value = jnp.asarray(value).astype(task.output.store.dtype)
        if task.reduces and not task.shape and not holder:
            # A domain without axes has no empty block: the rank that does not have its point says so here.
            value = jnp.full_like(value, identity(str(task.output.reduction), value.dtype))
        previous = plan.versions.all[placed.write].previous
        old = None if previous is None else pieces[Key(previous)]
        if task.reduces:
            kept = {a.source for a in task.output.view.axes}
            own = tuple(r if d in kept else (0, 1) for d, r in enumerate(own))
        slot, in_place = self.slots.get(placed.write, (-1, False))
        base = state.slots[slot] if slot >= 0 else None
        piece = write(old, value, task.output, own if holder or task.reduces else None, layout, base, in_place)
        if slot >= 0:
            piece = Piece(fit(piece, layout.buffer), layout.buffer)
            state.slots[slot] = piece.array
        return piece

    @staticmethod
    def _identity(task: IndexTask, layout: Layout) -> Region:
        """The points of a rank that has none but contributes the identity: all of the result, nothing to combine."""
        along = {a.source: k for k, a in enumerate(task.output.view.axes)}
        return tuple(layout.block[along[d]] if d in along else (0, 0) for d in range(len(task.shape)))


class Communicate(Step):
    """One exchange: halos in place, moved views into new arrays."""

    communicates = True

    def __init__(self, plan: Plan, geometry: Geometry, exchange: Exchange, flags: dict[int, int], digest: int) -> None:
        self.name = "exchange"
        self.geometry = geometry
        halos = [t for t in exchange.transfers if t.view is None]
        moves = [t for t in exchange.transfers if t.view is not None]
        stores = {v.id: v.store for v in plan.versions.all}
        halo_keys = [Key(t.version) for t in halos]
        move_keys = [Key(t.version, t.view, t.partition) for t in moves]
        sources = list(dict.fromkeys(Key(t.version) for t in moves if Key(t.version) not in halo_keys))
        self.uses = (*sources, *halo_keys)
        self.makes = tuple(move_keys)
        self.updates = tuple(halo_keys)
        number = {key: n for n, key in enumerate((*sources, *halo_keys, *move_keys))}
        messages = Messages(geometry.rank)
        for t in halos:
            held = geometry.of(stores[t.version])
            add_halo(messages, t, stores[t.version].shape, held, number[Key(t.version)], flags.get(t.version, -1))
        self.targets = [self._target(t) for t in moves]
        for t, key, target in zip(moves, move_keys, self.targets, strict=True):
            held = geometry.of(stores[t.version])
            add_move(messages, t, geometry.ranks, held, target, (number[Key(t.version)], number[key]))
        self.sources, self.halos, self.moves = sources, halo_keys, move_keys
        self.slots: dict[Key, int] = {}  # of halos whose buffers are in slots
        self.buffers = {key: geometry.of(stores[key.version]) for key in (*sources, *halo_keys)}
        self.results = [
            jax.ShapeDtypeStruct(shape_of(target), stores[t.version].dtype)
            for t, target in zip(moves, self.targets, strict=True)
        ]
        dtypes = [stores[key.version].dtype for key in (*sources, *halo_keys, *move_keys)]
        self.spec = ExchangeSpec(
            messages.messages(messages.sends),
            messages.messages(messages.receives),
            tuple(messages.copies),
            tuple(d.itemsize for d in dtypes),
            digest,
            exchange.line,
        )
        sizes = [math.prod(held.shape) for held in self.buffers.values()]
        sizes += [math.prod(shape_of(target)) for target in self.targets]
        _check(self.spec, sizes)

    def _target(self, transfer: Transfer) -> Region:
        view, partition = transfer.view, transfer.partition
        assert view is not None and partition is not None
        block = partition.block(view.shape, partition.coordinates(self.geometry.rank))
        return domain_of(view, block) if all(low < high for low, high in block) else tuple((0, 0) for _ in block)

    def run(self, state: State) -> None:
        """Trace the exchange."""
        for key, held in self.buffers.items():
            state.pieces[key] = Piece(fit(state.pieces[key], held.buffer), held.buffer)
        updated, results, state.token = state.transport.exchange(
            self.spec,
            [state.pieces[k].array for k in self.sources],
            [state.pieces[k].array for k in self.halos],
            self.results,
            state.active,
            state.token,
        )
        for key, array in zip(self.halos, updated, strict=True):
            state.pieces[key] = Piece(array, self.buffers[key].buffer)
            if key in self.slots:
                state.slots[self.slots[key]] = array
        for key, array, target in zip(self.moves, results, self.targets, strict=True):
            state.pieces[key] = Piece(array, target)


def _check(spec: ExchangeSpec, sizes: Sequence[int]) -> None:
    """Every box lies in its buffer: a message must never reach beyond, whatever mistake the plan holds."""
    boxes = [b for m in (*spec.sends, *spec.receives) for b in m.boxes] + [b for pair in spec.copies for b in pair]
    for box in boxes:
        if 0 in box.shape:
            continue
        ends = [s * (n - 1) for s, n in zip(box.strides, box.shape, strict=True)]
        low, high = box.offset + sum(min(e, 0) for e in ends), box.offset + sum(max(e, 0) for e in ends)
        if not 0 <= low <= high < sizes[box.buffer]:
            raise ProgramError(
                f"{spec.where}: a message reaches beyond its buffer: {box} of {sizes[box.buffer]} elements"
            )


class Combine(Step):
    """Partial results become whole ones: one allreduce for each operator and dtype, and one scan for each running
    sum."""

    communicates = True

    def __init__(self, plan: Plan, geometry: Geometry, reduction: Reduction, digest: int) -> None:
        self.name = "allreduce"
        self.line, self.digest = reduction.line, digest
        stores = {v.id: v.store for v in plan.versions.all}
        self.layouts = {item.version: geometry.of(stores[item.version]) for item in reduction.items}
        self.together: dict[tuple[str, np.dtype, tuple[int, ...]], list[int]] = {}
        self.scans: list[tuple[Partial, tuple[int, ...]]] = []
        for item in reduction.items:
            ranks = _along(geometry.rank, item.grid, item.dims)
            if item.axis is not None:
                partition = plan.alignment.stores[stores[item.version].id]
                backwards = any(isinstance(d, Split) and d.axis == item.axis and d.step < 0 for d in partition.dims)
                self.scans.append((item, ranks[::-1] if backwards else ranks))
            else:
                self.together.setdefault((item.operator, stores[item.version].dtype, ranks), []).append(item.version)
        self.uses = self.updates = tuple(Key(item.version) for item in reduction.items)

    def run(self, state: State) -> None:
        """Trace the allreduces, then the scans."""
        for n, ((op, _, ranks), versions) in enumerate(self.together.items()):
            buffers = [self.layouts[v].buffer for v in versions]
            partial = [fit(state.pieces[Key(v)], b).ravel() for v, b in zip(versions, buffers, strict=True)]
            packed = partial[0] if len(partial) == 1 else jnp.concatenate(partial)
            total, state.token = state.transport.allreduce(packed, op, ranks, self.digest + n, self.line, state.token)
            start = 0
            for version, buffer in zip(versions, buffers, strict=True):
                shape = shape_of(buffer)
                part = total[start : start + math.prod(shape)]
                start += math.prod(shape)
                state.pieces[Key(version)] = Piece(part.reshape(shape), buffer)
        for n, (item, ranks) in enumerate(self.scans, len(self.together)):
            self._scan(item, ranks, self.digest + n, state)

    def _scan(self, item: Partial, ranks: tuple[int, ...], digest: int, state: State) -> None:
        """Combine the block with what the ranks before it along the axis have in all."""
        layout, axis = self.layouts[item.version], item.axis
        assert axis is not None
        block = fit(state.pieces[Key(item.version)], layout.block)
        neutral = 0 if item.operator == "sum" else 1
        if block.shape[axis]:
            last = lax.slice_in_dim(block, block.shape[axis] - 1, block.shape[axis], axis=axis)
        else:
            last = jnp.full([1 if d == axis else n for d, n in enumerate(block.shape)], neutral, block.dtype)
        before, state.token = state.transport.exscan(last, item.operator, ranks, digest, self.line, state.token)
        whole = block + before if item.operator == "sum" else block * before
        state.pieces[Key(item.version)] = Piece(whole, layout.block)


def _along(rank: int, grid: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The ranks of a grid (last dimension fastest) that differ from ``rank`` along ``dims`` only, in order."""
    here = np.unravel_index(rank, grid)
    choices = [range(n) if g in dims else (int(here[g]),) for g, n in enumerate(grid)]
    return tuple(int(np.ravel_multi_index(c, grid)) for c in itertools.product(*choices))


def steps_of(plan: Plan, geometry: Geometry, flags: dict[int, int], digest: int, grain: str) -> list[Step]:
    """The steps of a plan; with ``grain`` "task" each task is one."""
    steps: list[Step] = []
    for n, step in enumerate(plan.steps):
        if isinstance(step, Exchange):
            steps.append(Communicate(plan, geometry, step, flags, digest + (n << 16)))
        elif isinstance(step, Reduction):
            steps.append(Combine(plan, geometry, step, digest + (n << 16)))
        elif grain == "task":
            steps.extend(Compute(plan, geometry, [t], frozenset()) for t in step.tasks)
        else:
            steps.append(Compute(plan, geometry, step.tasks, step.temporaries))
    return steps
