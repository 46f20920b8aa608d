"""Random programs of the IR, for Hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from diffuse_trace.ir import (
    REPLICATED,
    Access,
    Axis,
    IndexTask,
    Operand,
    Partition,
    Privilege,
    Program,
    Store,
    View,
    canonical,
)

DTYPES = [np.dtype(t) for t in ("float64", "float32", "int64", "bool", "complex128")]


@st.composite
def shapes(draw: st.DrawFn, least: int = 1, most: int = 9, dims: int = 3) -> tuple[int, ...]:
    """Extents of up to ``dims`` axes."""
    return tuple(draw(st.lists(st.integers(least, most), min_size=1, max_size=dims)))


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> View:
    """Slices with any step, integers, a transposition and broadcast axes."""
    view = View.identity(shape)
    for axis in reversed(range(len(shape))):
        n = shape[axis]
        if draw(st.integers(0, 5)) == 0:
            view = view.fixed(axis, draw(st.integers(0, n - 1)))
            continue
        step = draw(st.sampled_from([1, 1, 1, 2, -1, -2, 3]))
        start = draw(st.integers(0, n - 1))
        room = (n - 1 - start) // step if step > 0 else start // -step
        view = view.sliced(axis, start, step, draw(st.integers(1, room + 1)))
    view = view.transposed(tuple(draw(st.permutations(range(len(view.shape))))))
    if draw(st.booleans()):
        view = view.expanded(draw(st.integers(0, len(view.shape))), draw(st.integers(1, 4)))
    return view


@st.composite
def view_of_shape(draw: st.DrawFn, store: tuple[int, ...], shape: tuple[int, ...]) -> View | None:
    """A view of a store with the domain ``shape``; None where the store is too small."""
    if len(store) != len(shape) or any(n < m for n, m in zip(store, shape, strict=True)):
        return None
    view = View.identity(store)
    for axis, (n, m) in enumerate(zip(store, shape, strict=True)):
        if draw(st.integers(0, 3)) == 0:
            view = view.sliced(axis, n - 1 - draw(st.integers(0, n - m)), -1, m)
        else:
            view = view.sliced(axis, draw(st.integers(0, n - m)), 1, m)
    return view


@st.composite
def programs(draw: st.DrawFn, ranks: int = 1) -> Program:
    """Up to eight tasks on stores of one or two shapes: elementwise ones, updates of views, reductions."""
    shape = draw(shapes(most=8, dims=2))
    stores = [Store(n, shape, np.dtype(np.float64)) for n in range(draw(st.integers(1, 3)))]
    inputs = tuple((s, canonical(s.shape, ranks)) for s in stores)
    tasks: list[IndexTask] = []
    for n in range(draw(st.integers(1, 8))):
        line = f"program.py:{n + 1}"
        source = draw(st.sampled_from(stores))
        view = draw(view_of_shape(source.shape, draw(smaller(source.shape))))
        assert view is not None
        reads: list[Any] = [Access(source, view)]
        other = draw(st.sampled_from(stores))
        second = draw(view_of_shape(other.shape, view.shape))
        reads.append(Access(other, second) if second is not None else Operand(0))
        kind = draw(st.sampled_from(["new", "new", "update", "reduce"]))
        if kind == "reduce":
            kept = [d for d in range(len(view.shape)) if draw(st.booleans())]
            made = Store(len(stores), tuple(view.shape[d] for d in kept), np.dtype(np.float64))
            written = View(view.shape, tuple(Axis(d) for d in kept))
            out = Access(made, written, Privilege.REDUCE, "sum")
            tasks.append(IndexTask("sum", view.shape, (reads[0],), out, (), line))
            stores.append(made)
            continue
        target = draw(st.sampled_from(stores))
        place = draw(view_of_shape(target.shape, view.shape)) if kind == "update" else None
        if place is None:
            target = Store(len(stores), view.shape, np.dtype(np.float64))
            place = View.identity(view.shape)
            stores.append(target)
        tasks.append(IndexTask("add", view.shape, tuple(reads), Access(target, place, Privilege.WRITE), (), line))
    known = [s.id for s in stores]
    live = frozenset(draw(st.lists(st.sampled_from(known), unique=True)))
    return Program(tuple(tasks), inputs, live, (np.dtype(np.float64),))


@st.composite
def smaller(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Extents of at most those of ``shape``."""
    return tuple(draw(st.integers(1, n)) for n in shape)


@st.composite
def fitting_views(draw: st.DrawFn, store: tuple[int, ...], shape: tuple[int, ...], writes: bool = False) -> View | None:
    """Any view of a store with the domain ``shape``; None where there is none, or it would repeat what it writes.

    Domain axes lie along the store's in any order, with any step; other axes of the store are fixed, other axes of the
    domain broadcast.
    """
    free = list(range(len(store)))
    along: dict[int, Axis] = {}
    for d in draw(st.permutations(range(len(shape)))):
        wide = [k for k in free if store[k] >= shape[d] > 0]
        if not wide or (not writes and draw(st.integers(0, 7)) == 0):
            if writes and shape[d] > 1:
                return None
            continue
        # Mostly in order: transpositions everywhere would leave nothing aligned.
        k = d if d in wide and draw(st.integers(0, 3)) else draw(st.sampled_from(wide))
        free.remove(k)
        room = (store[k] - 1) // (shape[d] - 1) if shape[d] > 1 else 1
        step = draw(st.sampled_from([s for s in (1, 1, 1, 2, -1, -2, 3) if abs(s) <= room]))
        reach = abs(step) * (shape[d] - 1)
        low = draw(st.integers(0, store[k] - 1 - reach))
        along[k] = Axis(d, low if step > 0 else low + reach, step)
    axes = [along[k] if k in along else Axis(None, draw(st.integers(0, n - 1))) for k, n in enumerate(store)]
    return View(shape, tuple(axes))


@st.composite
def placed_inputs(draw: st.DrawFn, shape: tuple[int, ...], ranks: int, grid: tuple[int, ...] = ()) -> Partition:
    """A partition that an input may have: canonical, replicated, or that of a view of a larger array."""
    kind = draw(st.sampled_from(["canonical", "canonical", "canonical", "replicated", "view"]))
    if kind == "replicated":
        return REPLICATED
    if kind == "canonical":
        return canonical(shape, ranks, grid)
    larger = tuple(n + draw(st.integers(0, 3)) for n in shape) + draw(st.sampled_from([(), (3,)]))
    view = draw(fitting_views(larger, shape, writes=True))
    return canonical(larger, ranks, grid).pull(view) if view is not None else canonical(shape, ranks, grid)


@st.composite
def rich_programs(draw: st.DrawFn, ranks: int = 1, grid: tuple[int, ...] = ()) -> Program:
    """Up to nine tasks of every kind: any views, updates, fills, reductions and running sums; any input partitions."""
    pool = draw(st.lists(shapes(most=7, dims=3), min_size=1, max_size=2))
    stores = [Store(n, draw(st.sampled_from(pool)), np.dtype(np.float64)) for n in range(draw(st.integers(1, 3)))]
    inputs = tuple((s, draw(placed_inputs(s.shape, ranks, grid))) for s in stores)
    tasks: list[IndexTask] = []
    for n in range(draw(st.integers(1, 9))):
        line = f"program.py:{n + 1}"
        source = draw(st.sampled_from(stores))
        shape = source.shape if draw(st.booleans()) else draw(smaller(source.shape))
        if draw(st.integers(0, 5)) == 0:
            shape = shape[:-1]
        kind = draw(st.sampled_from(["new", "new", "new", "update", "update", "fill", "reduce", "scan"]))
        reads: list[Any] = []
        if kind != "fill":
            for store in (source, draw(st.sampled_from(stores)))[: 1 if kind == "scan" else 2]:
                view = draw(fitting_views(store.shape, shape))
                reads.append(Access(store, view) if view is not None else Operand(0))
        made = Store(len(stores), shape, np.dtype(np.float64))
        if kind == "reduce":
            kept = draw(st.permutations([d for d in range(len(shape)) if draw(st.booleans())]))
            made = Store(len(stores), tuple(shape[d] for d in kept), np.dtype(np.float64))
            out = Access(
                made,
                View(shape, tuple(Axis(d) for d in kept)),
                Privilege.REDUCE,
                draw(st.sampled_from(["sum", "max"])),
            )
            tasks.append(IndexTask("add", shape, tuple(reads), out, (), line))
            stores.append(made)
        elif kind == "scan" and shape:
            params = (("operator", "sum"), ("scan", draw(st.integers(0, len(shape) - 1))))
            out = Access(made, View.identity(shape), Privilege.WRITE)
            tasks.append(IndexTask("cumsum", shape, tuple(reads), out, params, line))
            stores.append(made)
        else:
            target, place = made, View.identity(shape)
            if kind != "new":
                # Also into parts of stores that nothing has been written to.
                size = tuple(m + draw(st.integers(0, 2)) for m in shape)
                fresh = Store(len(stores), size, np.dtype(np.float64))
                chosen = draw(st.sampled_from([*stores, fresh]))
                view = draw(fitting_views(chosen.shape, shape, writes=True))
                if view is not None:
                    target, place = chosen, view
            if target not in stores:
                stores.append(target)
            op = "fill" if kind == "fill" else "add"
            tasks.append(IndexTask(op, shape, tuple(reads), Access(target, place, Privilege.WRITE), (), line))
    live = frozenset(draw(st.lists(st.sampled_from([s.id for s in stores]), unique=True)))
    return Program(tuple(tasks), inputs, live, (np.dtype(np.float64),))
