"""Pieces of stores as traced arrays: reading a view of one, and writing a view into one.

Everything here is slicing, padding and selecting by index, which XLA fuses with the arithmetic around it into one
loop over the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..ir import Access, View
from .geometry import Layout, Region, shape_of

#: Bytes of a buffer that is copied faster than loops are kept apart.
CACHED = 1 << 18


@dataclass(frozen=True, slots=True)
class Piece:
    """The elements of a store with indices in ``region``; those outside the own block (or the array) are arbitrary."""

    array: Any
    region: Region


@dataclass(frozen=True, slots=True)
class Gathered:
    """A vector for a sparse product: the rank's own elements, and behind them those that its pattern names."""

    array: Any


def window(array: Any, axes: Sequence[tuple[int, int, int]]) -> Any:
    """Elements ``first + step * j`` for ``j < count`` along each axis, given as (first, step, count); 0 outside."""
    starts, limits, strides, padding = [], [], [], []
    reverse = []
    for axis, (first, step, count) in enumerate(axes):
        n = array.shape[axis]
        size = abs(step)
        if step > 0:
            low, high = max(0, -(first // step)), min(count, (n - 1 - first) // step + 1)
        else:
            low, high = max(0, -((n - 1 - first) // size)), min(count, first // size + 1)
        if low >= high or n == 0:
            return jnp.zeros([c for _, _, c in axes], array.dtype)
        a, b = sorted((first + step * low, first + step * (high - 1)))
        starts.append(a)
        limits.append(b + 1)
        strides.append(size)
        padding.append((low, count - high, 0))
        if step < 0:
            reverse.append(axis)
    result = lax.slice(array, starts, limits, strides)
    if reverse:
        result = lax.rev(result, reverse)
    if any(p != (0, 0, 0) for p in padding):
        result = lax.pad(result, jnp.zeros((), array.dtype), padding)
    return result


def fit(piece: Piece, region: Region) -> Any:
    """The elements of a piece over another region, 0 where it has none."""
    if piece.region == region:
        return piece.array
    pairs = zip(piece.region, region, strict=True)
    return window(piece.array, [(low - have, 1, high - low) for (have, _), (low, high) in pairs])


def read(piece: Piece, view: View, region: Region) -> Any:
    """The elements that ``region`` of the view's domain names, with extent 1 along broadcast axes."""
    axes = []
    for a, (low, _) in zip(view.axes, piece.region, strict=True):
        if a.source is None:
            axes.append((a.offset - low, 1, 1))
        else:
            first, last = region[a.source]
            axes.append((a.offset + a.step * first - low, a.step, last - first))
    result = window(piece.array, axes)
    sources = [a.source for a in view.axes]
    if None in sources:
        result = lax.squeeze(result, [k for k, s in enumerate(sources) if s is None])
    kept = [s for s in sources if s is not None]
    if kept != sorted(kept):
        result = lax.transpose(result, sorted(range(len(kept)), key=kept.__getitem__))
    broadcast = [d for d in range(len(region)) if d not in kept]
    return lax.expand_dims(result, broadcast) if broadcast else result


def spread(value: Any, region: Region) -> Any:
    """A kernel's result, broadcast to the region."""
    shape = shape_of(region)
    return value if value.shape == shape else jnp.broadcast_to(value, shape)


def in_store_order(value: Any, view: View) -> Any:
    """Axes of the domain in the order of the store's: reduced ones dropped, fixed ones inserted, backward ones
    turned."""
    kept = [a.source for a in view.axes if a.source is not None]
    dropped = [d for d in range(value.ndim) if d not in kept]
    if dropped:
        value = lax.squeeze(value, dropped)
    ranks = {d: k for k, d in enumerate(sorted(kept))}
    if kept != sorted(kept):
        value = lax.transpose(value, [ranks[d] for d in kept])
    fixed = [k for k, a in enumerate(view.axes) if a.source is None]
    if fixed:
        value = lax.expand_dims(value, fixed)
    backward = [k for k, a in enumerate(view.axes) if a.source is not None and a.step < 0]
    return lax.rev(value, backward) if backward else value


def image(view: View, region: Region) -> list[tuple[int, int, int]]:
    """For each axis of the store the elements that a region of the domain reaches: (first, last + 1, step > 0)."""
    result = []
    for a in view.axes:
        low, high = (0, 1) if a.source is None else region[a.source]
        if low >= high:
            result.append((0, 0, 1))
            continue
        ends = sorted((a.offset + a.step * low, a.offset + a.step * (high - 1)))
        result.append((ends[0], ends[1] + 1, 1 if a.source is None else abs(a.step)))
    return result


def write(
    old: Piece | None, value: Any, access: Access, own: Region | None, layout: Layout, base: Any | None, in_place: bool
) -> Piece:
    """The store after ``value``, computed at the ``own`` points of the domain, has been written there.

    ``old`` is what was there, None where nothing of it is kept; ``own`` is None on a rank that has none of the
    points.  With a ``base``, a buffer of the store whose elements do not matter (or ``in_place`` are the old ones),
    the value is written into that and the rest copied from the old; without, one loop over the buffer selects.
    Ghosts are not kept.
    """
    buffer = layout.buffer
    nothing = own is None or any(low >= high for low, high in own)
    if nothing and (in_place or base is None):
        return Piece(jnp.zeros(layout.shape, access.store.dtype) if old is None else fit(old, buffer), buffer)
    target = [] if nothing or own is None else image(access.view, own)
    region: Region = tuple((low, high) for low, high, _ in target) or tuple((0, 0) for _ in buffer)
    if not nothing:
        assert own is not None
        value = in_store_order(spread(value, own), access.view)
        if any(step != 1 for _, _, step in target):
            return Piece(_select(old, value, target, layout, access), buffer)
        if old is None and (base is None or region == buffer):
            return Piece(value, region)
        if base is None:
            return Piece(_select(old, value, target, layout, access), buffer)
        base = put(base, value, region, buffer)
    assert base is not None
    if old is not None and not in_place:
        for slab in complement(region, layout.block):
            base = put(base, fit(old, slab), slab, buffer)
    return Piece(base, buffer)


def overwrite(old: Piece | None, value: Any, access: Access, own: Region, layout: Layout) -> Piece:
    """As `write`, with values for all elements of the buffer, of which those at the ``own`` points are taken.

    ``old`` is None where nothing of it is kept.
    """
    value = in_store_order(value, access.view)
    target = image(access.view, own)
    inside = _inside(target, layout)
    if inside is not None and old is not None:
        value = jnp.where(inside, value, fit(old, layout.buffer))
    return Piece(value, layout.buffer)


def put(base: Any, value: Any, region: Region, buffer: Region) -> Any:
    """``base``, which lies over ``buffer``, with ``value`` in place of the elements of ``region``."""
    return lax.dynamic_update_slice(
        base, value, [low - first for (low, _), (first, _) in zip(region, buffer, strict=True)]
    )


def complement(inner: Region, outer: Region) -> list[Region]:
    """Disjoint boxes that make up what is in ``outer`` and not in ``inner``: two for each axis at most."""
    if any(low >= high for low, high in inner):
        return [outer] if all(low < high for low, high in outer) else []
    boxes = []
    for axis, ((low, high), (first, last)) in enumerate(zip(inner, outer, strict=True)):
        for side in ((first, low), (high, last)):
            if side[0] < side[1]:
                boxes.append((*inner[:axis], side, *outer[axis + 1 :]))
    return [b for b in boxes if all(low < high for low, high in b)]


def _select(old: Piece | None, value: Any, target: list[tuple[int, int, int]], layout: Layout, access: Access) -> Any:
    """One loop over the buffer: the value where it belongs, the old elements elsewhere."""
    base = jnp.zeros(layout.shape, access.store.dtype) if old is None else fit(old, layout.buffer)
    padding = []
    for (low, high, step), (first, last) in zip(target, layout.buffer, strict=True):
        padding.append((low - first, last - high, step - 1))
    placed = lax.pad(value, jnp.zeros((), value.dtype), padding)
    inside = _inside(target, layout)
    return placed if inside is None else jnp.where(inside, placed, base)


def _inside(target: list[tuple[int, int, int]], layout: Layout) -> Any | None:
    """Where a buffer takes the new value; None where it does everywhere.

    Only own elements count, so that a side is compared only where the own block has elements beyond it.
    """
    shape = layout.shape
    result = None
    for axis, ((low, high, step), (first, last), (start, _)) in enumerate(
        zip(target, layout.block, layout.buffer, strict=True)
    ):
        conditions = []
        index = lax.broadcasted_iota(jnp.int32, shape, axis)
        if low > first:
            conditions.append(index >= low - start)
        if high < last:
            conditions.append(index < high - start)
        if step > 1:
            conditions.append((index - (low - start)) % step == 0)
        for condition in conditions:
            result = condition if result is None else result & condition
    return result


def materialised(piece: Piece, zero: Any) -> Piece:
    """The same piece, which XLA stores in memory instead of computing it anew at each place where it is read.

    XLA removes `optimization_barrier` before it fuses.  A loop that may change an element, of ``zero`` trips (an
    int32 that XLA does not know), keeps what is before it apart from what is after it, and costs about a microsecond.
    """
    return Piece(apart(piece.array, zero), piece.region)


def apart(array: Any, bound: Any) -> Any:
    """The same array, as the result of a loop of ``bound`` trips; see `materialised`."""
    if 0 in array.shape or not array.shape:
        return array

    def change(state: tuple[Any, Any]) -> tuple[Any, Any]:
        n, array = state
        last = lax.slice(array, [m - 1 for m in array.shape], array.shape)
        return n + 1, lax.dynamic_update_slice(array, last, [0] * array.ndim)

    return lax.while_loop(lambda state: state[0] < bound, change, (jnp.zeros((), jnp.int32), array))[1]


def none_after(results: Sequence[Any], zero: Any) -> Any:
    """At most ``zero`` trips, a number that is known only once ``results`` have been computed."""
    for result in results:
        if not result.size:
            continue
        some = lax.slice(result, [0] * result.ndim, [1] * result.ndim).reshape(())
        some = lax.real(some) if jnp.iscomplexobj(some) else some
        zero = jnp.minimum(zero, lax.convert_element_type(some, jnp.int32))
    return zero
