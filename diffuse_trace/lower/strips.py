"""Strips: groups of many loops over large blocks, run a strip of rows at a time.

A loop over a block that the caches do not hold reads and writes memory.  Where a group takes several, of tasks that
combine elements at the same place, all of them run on a strip that the second-level cache holds, then on the next: what
they hand on to each other stays there, and takes no memory but for a strip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from ..fuse.communication import Local
from ..ir import Access
from .blocks import Piece, materialised, put, spread
from .geometry import Region, shape_of
from .kernels import kernel
from .state import Key, State

if TYPE_CHECKING:
    from .compute import Compute

#: Bytes of all that a strip touches: half of a usual second-level cache.
_STRIP = 1 << 20
#: Fewer loops than these, or fewer bytes in all, gain nothing.
_LOOPS, _BYTES = 3, 1 << 22


def strip_rows(step: Compute) -> int:
    """The rows of a strip; 0 where the step does not run in strips."""
    plan, geometry = step.plan, step.geometry
    roots = _arrays(step)
    if len(roots) < _LOOPS or jax.default_backend() != "cpu":
        return 0
    own = _block(step, roots)
    if any(low >= high for low, high in own):
        return 0
    touched: dict[Key, int] = {Key(root): plan.versions.all[root].store.dtype.itemsize for root in roots}
    for t in step.tasks:
        task, placed = plan.task(t), plan.placed[t]
        if not kernel(task.op).pointwise or placed.previous is not None or task.reduces:
            return 0
        if not task.shape:
            continue  # a value that each strip computes for itself
        if geometry.block(task, placed.partition) != own or not task.output.view.is_identity(task.output.store.shape):
            return 0
        if geometry.of(task.output.store).block != own:
            return 0
        for access, version, need in zip(task.inputs, placed.reads, placed.needs, strict=True):
            if not isinstance(access, Access) or not access.store.shape:
                continue
            if not isinstance(need, Local) or access.store.pattern is not None:
                return 0
            if not access.view.is_identity(access.store.shape) or geometry.of(access.store).block != own:
                return 0
            if version not in step.producer:
                touched[Key(version)] = access.store.dtype.itemsize
    row = math.prod(shape_of(own)[1:]) * sum(touched.values())
    rows = own[0][1] - own[0][0]
    strip = max(1, _STRIP // row)
    return strip if row * rows >= _BYTES and 2 * strip <= rows else 0


def run_in_strips(step: Compute, state: State) -> None:
    """Trace the loops of a step for a strip, and the loop over the strips; what is left makes a shorter one."""
    roots = _arrays(step)
    own = _block(step, roots)
    layouts = {root: step.geometry.of(step.plan.versions.all[root].store) for root in roots if root not in step.stored}
    outside = {key: state.pieces[key] for root in roots for key in step.reads(root) if key in state.pieces}

    def strip(start: Any, length: int, made: dict[int, Any]) -> dict[int, Any]:
        region: Region = ((own[0][0], own[0][0] + length), *own[1:])
        place: Any = ((own[0][0] + start, own[0][0] + start + length), *own[1:])
        pieces = {key: _cut(piece, own, start, region) for key, piece in outside.items()}
        for root in roots:
            for t in step.loop(root):
                points = region if step.plan.task(t).shape else ()
                value = spread(step.value(t, pieces, state, points), points)
                pieces[Key(step.plan.placed[t].write)] = Piece(value, points)
            if root in layouts:
                made = made | {root: put(made[root], pieces[Key(root)].array, place, layouts[root].buffer)}
            else:
                pieces[Key(root)] = materialised(pieces[Key(root)], state.active[-1])
        return made

    def buffer(root: int) -> Any:
        dtype = step.plan.versions.all[root].store.dtype
        return state.slots[step.slots[root][0]] if root in step.slots else jnp.zeros(layouts[root].shape, dtype)

    count, rest = divmod(own[0][1] - own[0][0], step.strip)
    made = {root: buffer(root) for root in layouts}
    made = lax.fori_loop(0, count, lambda i, made: strip(i * step.strip, step.strip, made), made)
    if rest:
        made = strip(count * step.strip, rest, made)
    # The strips of all roots are made in turn: whatever one has read, all have.
    state.has_read(Key(next(iter(layouts))), outside.values())
    for root, array in made.items():
        state.pieces[Key(root)] = Piece(array, layouts[root].buffer)
        state.in_memory.add(Key(root))
        if root in step.slots:
            state.slots[step.slots[root][0]] = array


def _arrays(step: Compute) -> list[int]:
    """The roots that are not single values; those are computed before."""
    return [root for root in step.roots if step.plan.versions.all[root].store.shape]


def _block(step: Compute, roots: Sequence[int]) -> Region:
    """The own points of the last root."""
    last = step.plan.placed[step.producer[roots[-1]]]
    return step.geometry.block(last.task, last.partition)


def _cut(piece: Piece, own: Region, start: Any, region: Region) -> Piece:
    """The strip of a piece from row ``start`` of the own block on; single values as they are."""
    if not piece.region:
        return piece
    at = [low - first for (low, _), (first, _) in zip(own, piece.region, strict=True)]
    return Piece(lax.dynamic_slice(piece.array, [start + at[0], *at[1:]], shape_of(region)), region)
