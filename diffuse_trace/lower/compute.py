"""Computing: the index tasks of a group as loops over the points of one rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import config
from ..errors import ProgramError
from ..fuse.communication import Gather, Local, Move, Overlap
from ..fuse.plan import Plan
from ..ir import Access, IndexTask, Operand, View
from .blocks import CACHED, Gathered, Piece, apart, fit, image, materialised, none_after, overwrite, read, write
from .geometry import Geometry, Layout, Region, domain_of, hull, shape_of
from .kernels import Context, kernel
from .kernels.reduce import identity
from .loops.build import Loops, expressible
from .loops.expressions import Unsupported
from .sharing import worth_storing
from .state import Key, State, Step
from .strips import run_in_strips, strip_rows


class Compute(Step):
    """Some index tasks on the points of this rank, as a number of loops.

    Each version that outlives the step, and each partial result, is the root of one loop over the block.  A temporary
    is computed anew in each loop that needs it: XLA would materialise what two loops share, which costs more than
    recomputing it, unless that is expensive (`sharing.py`).
    """

    def __init__(
        self,
        plan: Plan,
        geometry: Geometry,
        tasks: Sequence[int],
        temporaries: frozenset[int],
        apart: bool = False,
    ) -> None:
        """``apart``: XLA must not fuse these tasks with those before and after, which are in the same executable."""
        self.plan, self.geometry, self.tasks, self.apart = plan, geometry, tuple(tasks), apart
        self.producer = {plan.placed[t].write: t for t in self.tasks}
        self.beyond = self._beyond()
        self.sources: dict[int, list[Key]] = {}  # task -> what it needs, its store's old elements included
        uses: dict[Key, None] = {}
        for t in self.tasks:
            needed = [key for k in range(len(plan.placed[t].reads)) if (key := self.source(t, k)) is not None]
            previous = plan.versions.all[plan.placed[t].write].previous
            if previous is not None:
                needed.append(Key(previous))
            self.sources[t] = needed
            uses.update((key, None) for key in needed if not self._made_here(key))
        self.uses = tuple(uses)
        self.makes = tuple(Key(version) for version in self.producer)
        self.roots = [v for v in self.producer if v not in temporaries]
        self.stored, self.scattered = worth_storing(plan, self.tasks, temporaries)
        self.roots += self.stored
        self.roots.sort(key=self.producer.__getitem__)
        #: Rows of a strip, where it runs in strips, and 0.
        self.own = config.get("loops") and jax.default_backend() == "cpu"
        whole = self.own and expressible(plan, self.tasks)
        self.strip = 0 if self.beyond or whole else strip_rows(self)
        self.own = self.own and not self.strip
        #: Of each root that is built in a donated buffer: the slot, and whether that holds its old elements.
        self.slots: dict[int, tuple[int, bool]] = {}
        #: Roots that read a buffer which is written later: nothing may compute them anew then.
        self.before: set[int] = set()
        self.name = "+".join(plan.task(t).op for t in self.tasks)

    def _beyond(self) -> dict[int, Region]:
        """Of each task that is computed beyond the own block: the points that the others need of it."""
        wanted: dict[int, Region] = {}
        for t in reversed(self.tasks):
            placed = self.plan.placed[t]
            points = wanted.get(t, self.geometry.block(placed.task, placed.partition))
            if any(low >= high for low, high in points):
                continue
            for access, version, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
                made = self.producer.get(version)
                if made is None or not isinstance(access, Access) or not (isinstance(need, Overlap) or t in wanted):
                    continue
                source = self.plan.placed[made]
                own = self.geometry.block(source.task, source.partition)
                reached = tuple((low, high) for low, high, _ in image(access.view, points))
                wanted[made] = hull(hull(wanted.get(made, own), own), reached)
        return wanted

    def _made_here(self, key: Key) -> bool:
        return key.view is None and key.version in self.producer

    def source(self, t: int, k: int) -> Key | None:
        """The value from which a task takes an input; None for an operand."""
        placed = self.plan.placed[t]
        access, version = placed.task.inputs[k], placed.reads[k]
        if isinstance(access, Operand):
            return None
        what = placed.needs[k]
        if isinstance(what, Move):
            return Key(version, access.view, placed.partition)
        if isinstance(what, Gather):
            return Key(version, access.view, None, what.pattern)
        return Key(version)

    def points(self, t: int) -> Region | None:
        """The points at which a task is computed here; None where this rank has not even a single one."""
        placed = self.plan.placed[t]
        if not placed.partition.holds(placed.partition.coordinates(self.geometry.rank)):
            return None
        return self.beyond.get(t, self.geometry.block(placed.task, placed.partition))

    def run(self, state: State) -> None:
        """Trace one loop after the other, in program order of their roots.

        Those that can be loops of our own are collected to calls; XLA gets the others.
        """
        loops = Loops(self, state)
        for root in self.roots:
            if self.own:
                try:
                    loops.add(root)
                    continue
                except Unsupported:
                    loops.finish()
                    loops = Loops(self, state)
            if root in self.slots:
                self._take_over(root, state)
            if self.strip and self.plan.versions.all[root].store.shape:
                continue
            pieces = {
                key: piece for key, piece in state.pieces.items() if key in self.uses or key.version in self.roots
            }
            everywhere = self._everywhere(root, pieces, state)
            for t in self.loop(root):
                pieces[Key(self.plan.placed[t].write)] = self._task(t, pieces, state, everywhere)
            piece = pieces[Key(root)]
            loose = root in self.stored and (root not in self.slots or root in self.scattered)
            if self.apart or loose or (root in self.before and piece.array.nbytes >= CACHED):
                piece = materialised(piece, state.active[-1])
                state.in_memory.add(Key(root))
                if root in self.slots:
                    state.slots[self.slots[root][0]] = piece.array
            state.pieces[Key(root)] = piece
            state.has_read(Key(root), [pieces[key] for key in self.reads(root) if key != Key(root)])
        if self.strip:
            run_in_strips(self, state)
        loops.finish()

    def _take_over(self, root: int, state: State) -> None:
        """Before a buffer is written, all loops that read what it holds must be over.

        XLA does not see that, and would copy the buffer for them.
        """
        slot = self.slots[root][0]
        buffer, readers = state.slots[slot], state.readers.pop(slot, [])
        lost = {key for key, piece in state.pieces.items() if piece.array is buffer}
        called = state.ticket is not state.active[-1]
        if (readers or called) and buffer is not None and buffer.nbytes >= CACHED:
            bound = none_after([state.pieces[key].array for key in readers], state.ticket)
            state.replace(buffer, apart(buffer, bound))
        # What is overwritten must not be used again: the root is after it.
        for keys in state.readers.values():
            keys[:] = [Key(root) if key in lost else key for key in keys]

    def _everywhere(self, root: int, pieces: dict[Key, Piece], state: State) -> dict[int, Region]:
        """The points at which the tasks of a root's loop are computed to give all elements of the root's buffer.

        XLA puts results into a buffer that the same loop reads with a branch for each element, one element at a time.
        It works on many at a time where there is nothing to decide: where the elements that nobody wants, ghosts and
        what the task does not write, are computed as well.  Empty where the loop does not read its buffer, or would
        read elements that are not at hand, which costs nothing only along a single axis and from memory.
        """
        slot = self.slots.get(root, (-1, False))[0]
        base = state.slots[slot] if slot >= 0 else None
        if base is None or not any(pieces[key].array is base for key in self.reads(root)):
            return {}
        placed = self.plan.placed[self.producer[root]]
        output, previous = placed.task.output, self.plan.versions.all[root].previous
        loop = self.loop(root)
        if not _shifted(output.view) or previous in self._made(loop):
            return {}
        if not placed.partition.holds(placed.partition.coordinates(self.geometry.rank)):
            return {}
        buffer = self.geometry.of(output.store).buffer
        ends = {a.source: (b[0] - a.offset, b[1] - a.offset) for a, b in zip(output.view.axes, buffer, strict=True)}
        points: dict[int, Region] = {placed.index: tuple(ends[d] for d in range(len(ends)) if d in ends)}
        for t in reversed(loop):
            task, placed = self.plan.task(t), self.plan.placed[t]
            operation = kernel(task.op)
            previous = self.plan.versions.all[placed.write].previous
            if operation.whole or operation.wide or task.reduces or len(points[t]) != len(task.shape):
                return {}
            if previous is not None and placed.write != root:
                return {}  # what it does not write would have to be known beyond the own block
            for k, access in enumerate(task.inputs):
                key = self.source(t, k)
                if key is None or not isinstance(access, Access):
                    continue
                moved = key.view is not None
                view = View.identity(task.shape) if moved else access.view
                wanted = domain_of(access.view, points[t]) if moved else points[t]
                reached = tuple((low, high) for low, high, _ in image(view, wanted))
                made = self.producer.get(key.version)
                if made in loop and not moved:
                    if not _shifted(view):
                        return {}
                    points[made] = hull(points[made], reached) if made in points else reached
                elif (len(buffer) > 1 or key not in state.in_memory) and any(
                    low < first or high > last
                    for (low, high), (first, last) in zip(reached, pieces[key].region, strict=True)
                ):
                    return {}
        return points

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
        made = self._made(loop)
        return {k for t in loop for k in self.sources[t] if k.view is not None or k.version not in made}

    def _made(self, loop: Sequence[int]) -> set[int]:
        return {self.plan.placed[t].write for t in loop}

    def pointwise(self, root: int, version: int) -> bool:
        """Whether the loop of ``root`` reads ``version`` only where it writes, so that it may write into its buffer."""
        target = self.plan.task(self.producer[root]).output
        same = self.plan.versions.all[version].store == target.store
        stems = {version}  # what has been computed from it
        for t in self.loop(root):
            placed = self.plan.placed[t]
            for access, seen, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
                if not isinstance(access, Access) or seen not in stems:
                    continue
                stems.add(placed.write)
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

    def value(self, t: int, pieces: Mapping[Key, Piece], state: State, own: Region) -> Any:
        """What a task's kernel makes of some points."""
        placed = self.plan.placed[t]
        task, operation = placed.task, kernel(placed.task.op)
        inputs = []
        region = self._wider(t, own, pieces) if operation.wide else own
        for k, access in enumerate(task.inputs):
            if isinstance(access, Operand):
                inputs.append(state.operands[access.index])
                continue
            key = self.source(t, k)
            assert key is not None
            if operation.whole:
                inputs.append(self._whole(key, access, pieces[key]))
                continue
            view = View.identity(task.shape) if key.view is not None else access.view
            wanted = domain_of(access.view, region) if key.view is not None else region
            if t in self.beyond or isinstance(placed.needs[k], Overlap):
                self._check_reach(t, access, pieces[key].region, image(view, wanted))
            inputs.append(read(pieces[key], view, wanted))
        with jax.named_scope(task.op):
            value = operation.generate(Context(task, region, region, jnp), *inputs)
        if region != own:
            cuts = zip(own, region, strict=True)
            value = value[tuple(slice(o[0] - r[0], o[1] - r[0]) if o != r else slice(None) for o, r in cuts)]
        return jnp.asarray(value).astype(task.output.store.dtype)

    def _task(self, t: int, pieces: dict[Key, Piece], state: State, everywhere: dict[int, Region]) -> Piece:
        plan, placed = self.plan, self.plan.placed[t]
        task = placed.task
        layout = self.geometry.of(task.output.store)
        own = self.geometry.block(task, placed.partition)
        holder = placed.partition.holds(placed.partition.coordinates(self.geometry.rank))
        if task.reduces and any(low >= high for low, high in own):
            own = self._identity(task, layout)
        written, own = own, everywhere.get(t, self.beyond.get(t, own))
        value = self.value(t, pieces, state, own)
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
        if in_place and not everywhere and self.slight(placed.write):
            # XLA writes in place only what a loop does not compute from the buffer itself.
            value = apart(value, state.active[-1])
        if everywhere and slot >= 0:
            piece = overwrite(old, value, task.output, written, layout)
        else:
            piece = write(old, value, task.output, own if holder or task.reduces else None, layout, base, in_place)
        if slot >= 0:
            piece = Piece(fit(piece, layout.buffer), layout.buffer)
            state.slots[slot] = piece.array
        return piece

    def _check_reach(self, t: int, access: Access, held: Region, read: Sequence[tuple[int, int, int]]) -> None:
        """What is computed beyond the own block must be at hand: elements outside would silently be zeros."""
        for (low, high), (first, last, _) in zip(held, read, strict=True):
            if first < last and not low <= first < last <= high:
                task = self.plan.task(t)
                raise ProgramError(
                    f"{task.op} reads {first} to {last} of %{access.store.id}, held from {low} to {high} ({task.line})"
                )

    def _wider(self, t: int, own: Region, pieces: Mapping[Key, Piece]) -> Region:
        """The own points, and along axes of the output those for which one input alone has ghosts.

        A library call is given what lies together in memory: a block without its ghosts would be copied for it.
        """
        task, region = self.plan.task(t), list(own)
        if any(low >= high for low, high in own):
            return own
        for axis in task.output.view.axes:
            d = axis.source
            along = [
                (k, x) for k, x in enumerate(task.inputs)
                if isinstance(x, Access) and d is not None and d not in x.view.broadcast_axes()
            ]  # fmt: skip
            if d is None or len(along) != 1:
                continue
            k, access = along[0]
            key = self.source(t, k)
            if key is None or key.view is not None:
                continue
            number = next(n for n, a in enumerate(access.view.axes) if a.source == d)
            low, high = (x - access.view.axes[number].offset for x in pieces[key].region[number])
            if access.view.axes[number].step == 1 and low <= own[d][0] and own[d][1] <= high <= own[d][1] + 16:
                region[d] = (low, high) if low >= own[d][0] - 16 else own[d]
        return tuple(region)

    def _whole(self, key: Key, access: Access, piece: Piece) -> Piece | Gathered:
        """All that the rank has of an input, ghosts included, along the axes of the domain that it varies along."""
        if key.pattern is not None:
            return Gathered(piece.array)
        if access.store.pattern is not None:
            return piece
        kept = [d for d in range(len(access.view.shape)) if d not in access.view.broadcast_axes()]
        if key.view is not None:  # it has been moved, and lies along the domain
            region = tuple(piece.region[d] for d in kept)
            return Piece(piece.array.reshape(shape_of(region)), region)
        reach = [(0, 1)] * len(access.view.shape)
        for a, (low, high) in zip(access.view.axes, piece.region, strict=True):
            if a.source is not None:
                first, last = sorted(((low - a.offset) / a.step, (high - 1 - a.offset) / a.step))
                reach[a.source] = math.ceil(first), math.floor(last) + 1
        region = tuple(reach[d] for d in kept)
        return Piece(read(piece, access.view, tuple(reach)).reshape(shape_of(region)), region)

    @staticmethod
    def _identity(task: IndexTask, layout: Layout) -> Region:
        """The points of a rank that has none but contributes the identity: all of the result, nothing to combine."""
        along = {a.source: k for k, a in enumerate(task.output.view.axes)}
        return tuple(layout.block[along[d]] if d in along else (0, 0) for d in range(len(task.shape)))


def _shifted(view: View) -> bool:
    """Whether a view has each axis of its store one element after the other."""
    return all(a.source is not None and a.step == 1 for a in view.axes)
