"""Views against NumPy, and partitions against the ownership of single elements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shapes, views

from diffuse_trace.ir import Pinned, Split, View, canonical, dims_create


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_view_is_what_numpy_indexes(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    view = data.draw(views(shape))
    array = np.arange(math.prod(shape)).reshape(shape)
    seen = view.of(array)
    assert seen.shape == view.shape
    for index in itertools.islice(np.ndindex(*view.shape), 50):
        place = tuple(a.offset if a.source is None else a.offset + a.step * index[a.source] for a in view.axes)
        assert seen[index] == array[place]


def test_views_share_memory_and_compose() -> None:
    array = np.arange(60).reshape(6, 10)
    view = View.identity((6, 10)).sliced(0, 1, 2, 3).sliced(1, 9, -3, 4).transposed((1, 0)).fixed(0, 1).expanded(0)
    right = array[1:6:2, 9::-3].T[1][None]
    np.testing.assert_array_equal(view.of(array), right)
    assert np.shares_memory(view.of(array), array)


@pytest.mark.parametrize(
    ("view", "covers"),
    [
        (View.identity((3, 4)), True),
        (View.identity((3, 4)).sliced(0, 2, -1, 3), True),
        (View.identity((3, 4)).transposed((1, 0)), True),
        (View.identity((3, 4)).sliced(0, 0, 1, 2), False),
        (View.identity((1, 4)).fixed(0, 0), True),
        (View.identity((1, 4)).sliced(0, 0, 1, 0), False),
    ],
)
def test_covers(view: View, covers: bool) -> None:
    assert (
        view.covers((3, 4) if len(view.axes) == 2 and view.shape != (4,) and view.shape != (0, 4) else (1, 4)) is covers
    )


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 3, 4, 6, 7]))
def test_blocks_are_disjoint_and_complete(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes(most=12))
    partition = canonical(shape, ranks)
    owner = np.full(shape, -1)
    for rank in range(ranks if partition.dims else 1):
        block = tuple(slice(low, high) for low, high in partition.block(shape, partition.coordinates(rank)))
        assert (owner[block] == -1).all()
        owner[block] = rank
    assert (owner >= 0).all()


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from([2, 3, 4, 7]))
def test_pull_follows_each_element(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes(most=10))
    view = data.draw(views(shape))
    partition = canonical(shape, ranks)
    pulled = partition.pull(view)
    owner = np.zeros(shape, int)
    for rank in range(ranks):
        owner[tuple(slice(low, high) for low, high in partition.block(shape, partition.coordinates(rank)))] = rank
    right = view.of(owner)
    for rank in range(ranks):
        block = pulled.block(view.shape, pulled.coordinates(rank))
        mine = np.zeros(view.shape, bool)
        mine[tuple(slice(low, high) for low, high in block)] = pulled.holds(pulled.coordinates(rank))
        np.testing.assert_array_equal(mine, right == rank)
    pushed = pulled.push(view)
    if pushed is not None:
        assert pushed.pull(view) == pulled


@given(st.integers(1, 40), st.integers(1, 9), st.data())
def test_owner_of_each_index(extent: int, parts: int, data: st.DataObject) -> None:
    split = Split(0, parts, extent)
    for index in range(extent):
        coordinate = split.owner(index)
        assert split.bound(coordinate) <= index < split.bound(coordinate + 1)
        assert Pinned(parts, extent, index).owner() == coordinate


@pytest.mark.parametrize(
    ("ranks", "ndim", "right"),
    [
        (1, 2, (1, 1)),
        (6, 2, (3, 2)),
        (12, 2, (4, 3)),
        (16, 2, (4, 4)),
        (7, 2, (7, 1)),
        (12, 3, (3, 2, 2)),
        (8, 3, (2, 2, 2)),
    ],
)
def test_process_grids_are_those_of_mpi(ranks: int, ndim: int, right: tuple[int, ...]) -> None:
    assert dims_create(ranks, ndim) == right


def test_short_axes_are_not_cut() -> None:
    assert canonical((9, 1000), 4).grid == (1, 4)
    assert canonical((1000, 1000, 3), 4).grid == (2, 2, 1)
    assert canonical((), 4).replicated
    assert canonical((0, 5), 4).replicated
