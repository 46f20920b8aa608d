"""Random programs of the IR, for Hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from diffuse_trace.ir import Access, Axis, IndexTask, Operand, Privilege, Program, Store, View, canonical

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
