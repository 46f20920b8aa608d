"""Exchanges without MPI: the boxes that each rank derives alone, carried out on arrays of simulated ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuse_trace.fuse.plan import Transfer
from diffuse_trace.ir import Partition, View, canonical
from diffuse_trace.lower.exchange import Messages, add_halo, add_move
from diffuse_trace.lower.geometry import Layout, layout, margin_for, shape_of
from diffuse_trace.lower.transport import Box

RANKS = (1, 2, 3, 4, 6, 7)


def elements(box: Box) -> np.ndarray:
    """The places in a flat buffer that a box names."""
    result = np.full(box.shape, box.offset)
    for axis, stride in enumerate(box.strides):
        extent = [1] * len(box.shape)
        extent[axis] = box.shape[axis]
        result = result + (np.arange(box.shape[axis]) * stride).reshape(extent)
    return result.ravel()


def deliver(messages: list[Messages], buffers: list[list[np.ndarray]]) -> None:
    """Carry out what the ranks have derived; every message sent must be expected, box by box."""
    sent = {(m.rank, p.peer): p.boxes for m in messages for p in m.messages(m.sends)}
    expected = {(p.peer, m.rank): p.boxes for m in messages for p in m.messages(m.receives)}
    assert sent.keys() == expected.keys()
    values = {}
    for (source, target), boxes in sent.items():
        assert [b.shape for b in boxes] == [b.shape for b in expected[source, target]]
        values[source, target] = [buffers[source][b.buffer].ravel()[elements(b)] for b in boxes]
    for (source, target), boxes in expected.items():
        for box, value in zip(boxes, values[source, target], strict=True):
            buffers[target][box.buffer].reshape(-1)[elements(box)] = value
    for m in messages:
        for source, target in m.copies:
            value = buffers[m.rank][source.buffer].ravel()[elements(source)]
            buffers[m.rank][target.buffer].reshape(-1)[elements(target)] = value


def held(array: np.ndarray, where: Layout) -> np.ndarray:
    """A rank's buffer: its block of the array, -1 around it."""
    buffer = np.full(where.shape, -1)
    buffer[where.own()] = array[tuple(slice(low, high) for low, high in where.block)]
    return buffer


@st.composite
def shapes(draw: st.DrawFn, least: int = 1) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(least, 12), min_size=1, max_size=3)))


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
def partitions(draw: st.DrawFn, shape: tuple[int, ...], ranks: int) -> Partition:
    """A canonical partition, perhaps seen through a view, so that it is anchored elsewhere, pinned or spread."""
    base = tuple(n + draw(st.integers(0, 3)) for n in shape)
    extra = draw(st.booleans())
    if extra:
        base = (*base, draw(st.integers(1, 5)))
    partition = canonical(base, ranks)
    view = View.identity(base)
    if extra:
        view = view.fixed(len(base) - 1, draw(st.integers(0, base[-1] - 1)))
    for axis, n in enumerate(shape):
        view = view.sliced(axis, draw(st.integers(0, base[axis] - n)), 1, n)
    return partition.pull(view)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(RANKS))
def test_halo(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes())
    partition = data.draw(partitions(shape, ranks))
    if any(type(d).__name__ != "Split" for d in partition.dims):
        return
    grid = len(partition.dims)
    shift = st.tuples(*[st.integers(-3, 3)] * grid).filter(any)
    if not grid:
        return
    shifts = tuple(sorted(set(data.draw(st.lists(shift, min_size=1, max_size=4)))))
    width = max(abs(s) for row in shifts for s in row)
    array = np.arange(np.prod(shape)).reshape(shape)
    layouts = [layout(shape, partition, margin_for(partition, len(shape), width), r) for r in range(ranks)]
    buffers = [[held(array, where)] for where in layouts]
    messages = [Messages(r) for r in range(ranks)]
    for r in range(ranks):
        add_halo(messages[r], Transfer(0, partition, shifts), shape, layouts[r], 0, -1)
    deliver(messages, buffers)
    for r, where in enumerate(layouts):
        for s in shifts:
            for index in np.ndindex(*[high - low for low, high in where.block]):
                at = [low + i for i, (low, _) in zip(index, where.block, strict=True)]
                for d, by in zip(partition.dims, s, strict=True):
                    at[d.axis] += by * d.step
                if all(0 <= i < n for i, n in zip(at, shape, strict=True)):
                    place = tuple(i - low for i, (low, _) in zip(at, where.buffer, strict=True))
                    assert buffers[r][0][place] == array[tuple(at)], (r, s, at)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(RANKS))
def test_move(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes())
    source = data.draw(partitions(shape, ranks))
    view = data.draw(views(shape))
    target = (
        data.draw(st.one_of(partitions(view.shape, ranks), st.just(Partition(())))) if view.shape else Partition(())
    )
    array = np.arange(np.prod(shape)).reshape(shape)
    right = view.of(array)
    broadcast = view.broadcast_axes()
    transfer = Transfer(0, source, (), view, target)
    messages, buffers, regions = [Messages(r) for r in range(ranks)], [], []
    for r in range(ranks):
        where = layout(shape, source, margin_for(source, len(shape), 1), r)
        block = target.block(view.shape, target.coordinates(r))
        empty = any(low >= high for low, high in block)
        region = tuple((0, 0) if empty else (0, 1) if d in broadcast else b for d, b in enumerate(block))
        regions.append(region)
        buffers.append([held(array, where), np.full(shape_of(region), -1)])
        add_move(messages[r], transfer, ranks, where, region, (0, 1))
    deliver(messages, buffers)
    for r in range(ranks):
        np.testing.assert_array_equal(buffers[r][1], right[tuple(slice(low, high) for low, high in regions[r])])


@pytest.mark.parametrize("ranks", [4, 64, 1024])
def test_a_stencil_needs_as_many_messages_on_any_number_of_ranks(ranks: int) -> None:
    shape = (4096, 4096)
    partition = canonical(shape, ranks)
    shifts = ((-1, 0), (0, -1), (0, 1), (1, 0))
    middle = partition.rank(tuple(n // 2 for n in partition.grid))
    messages = Messages(middle)
    where = layout(shape, partition, margin_for(partition, 2, 1), middle)
    add_halo(messages, Transfer(0, partition, shifts), shape, where, 0, -1)
    assert len(messages.sends) == len(messages.receives) == (2 if ranks == 4 else 4)
