"""Partitions against the ownership of single elements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import fitting_views, placed_inputs, shapes, views

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir import (
    REPLICATED,
    Axis,
    Partition,
    Pinned,
    Split,
    Spread,
    View,
    canonical,
    dims_create,
)

RANKS = st.sampled_from([1, 2, 3, 4, 6, 7])


def holders(partition: Partition, shape: tuple[int, ...], ranks: int) -> np.ndarray:
    """For each rank (first axis) which elements it holds."""
    held = np.zeros((ranks, *shape), bool)
    for rank in range(ranks):
        coordinates = partition.coordinates(rank)
        if partition.holds(coordinates):
            held[(rank, *(slice(low, high) for low, high in partition.block(shape, coordinates)))] = True
    return held


@settings(max_examples=80, deadline=None)
@given(shapes(most=12), RANKS)
def test_canonical_blocks_are_disjoint_complete_and_balanced(shape: tuple[int, ...], ranks: int) -> None:
    partition = canonical(shape, ranks)
    held = holders(partition, shape, ranks)
    assert (held.sum(axis=0) == (1 if partition.dims else ranks)).all()
    assert partition.complete(shape)
    for d in partition.dims:
        assert isinstance(d, Split)
        lengths = {d.bound(c + 1) - d.bound(c) for c in range(d.parts)}
        assert max(lengths) - min(lengths) <= 1
    assert math.prod(partition.grid) == (ranks if partition.dims else 1)


@settings(max_examples=150, deadline=None)
@given(st.data(), RANKS)
def test_pull_follows_each_element(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes(most=8))
    partition = data.draw(placed_inputs(shape, ranks))
    view = data.draw(views(shape))
    pulled = partition.pull(view)
    stored, seen = holders(partition, shape, ranks), holders(pulled, view.shape, ranks)
    for rank in range(ranks):
        np.testing.assert_array_equal(seen[rank], view.of(stored[rank]))
    assert pulled.complete(view.shape)
    if view.shape and view.shape[0] > 1:
        rest = view.sliced(0, 1, 1, view.shape[0] - 1)
        assert pulled.pull(View.identity(view.shape).sliced(0, 1, 1, view.shape[0] - 1)) == partition.pull(rest)


@settings(max_examples=150, deadline=None)
@given(st.data(), RANKS)
def test_push_undoes_pull(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes(most=8))
    view = data.draw(fitting_views(shape, data.draw(shapes(most=4))))
    assert view is not None
    over = data.draw(placed_inputs(view.shape, ranks))
    pushed = over.push(view)
    if pushed is not None:
        assert pushed.pull(view) == over
    elif not any(a.source is None for a in view.axes):
        # Only where an axis is cut that the store has not, or a step does not fit.
        steps = {a.source: a.step for a in view.axes}
        assert any(isinstance(d, Split) and (d.axis not in steps or d.step % steps[d.axis]) for d in over.dims)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), RANKS, st.integers(1, 9), st.integers(-3, 9), st.sampled_from([1, 2, -1, -2]))
def test_complete_means_that_every_element_has_an_owner(
    n: int, parts: int, extent: int, offset: int, step: int
) -> None:
    partition = Partition((Split(0, parts, extent, offset, step),))
    assert partition.complete((n,)) == bool(holders(partition, (n,), parts).any(axis=0).all())


@settings(max_examples=80, deadline=None)
@given(st.data(), RANKS)
def test_a_reduced_partition_holds_what_each_rank_contributes_to(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes(most=6))
    over = data.draw(placed_inputs(shape, ranks))
    kept = data.draw(st.permutations([d for d in range(len(shape)) if data.draw(st.booleans())]))
    points = holders(over, shape, ranks)
    made = tuple(shape[d] for d in kept)
    result = holders(over.reduced(View(shape, tuple(Axis(d) for d in kept))), made, ranks)
    lost = tuple(d for d in range(len(shape)) if d not in kept)
    for rank in range(ranks):
        touched = points[rank].any(axis=lost) if lost else points[rank]
        assert result[rank][np.transpose(touched, [sorted(kept).index(d) for d in kept])].all()


@given(st.integers(1, 40), st.integers(1, 9))
def test_owner_of_each_index(extent: int, parts: int) -> None:
    split = Split(0, parts, extent)
    for index in range(extent):
        coordinate = split.owner(index)
        assert split.bound(coordinate) <= index < split.bound(coordinate + 1)
        assert Pinned(parts, extent, index).owner() == coordinate


@given(st.integers(-9, 9), st.sampled_from([1, 2, 3, -1, -2, -3]), st.integers(-9, 20), st.integers(0, 9))
def test_preimage_of_an_interval(offset: int, step: int, low: int, length: int) -> None:
    found = Split(0, 1, 1, offset, step).preimage(low, low + length)
    assert list(range(*found)) == [j for j in range(-60, 60) if low <= offset + step * j < low + length]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_ranks_and_coordinates(grid: list[int]) -> None:
    partition = Partition(tuple(Spread(n) for n in grid))
    for rank, coordinates in enumerate(itertools.product(*map(range, grid))):
        assert partition.coordinates(rank) == coordinates
        assert partition.rank(coordinates) == rank


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
        (5, 1, (5,)),
        (24, 3, (4, 3, 2)),
        (36, 2, (6, 6)),
        (4096, 2, (64, 64)),
        (4096, 3, (16, 16, 16)),
        (3, 0, ()),
    ],
)
def test_process_grids_are_those_of_mpi(ranks: int, ndim: int, right: tuple[int, ...]) -> None:
    assert dims_create(ranks, ndim) == right


@given(st.integers(1, 300), st.integers(1, 4))
def test_process_grids_use_all_ranks(ranks: int, ndim: int) -> None:
    grid = dims_create(ranks, ndim)
    assert math.prod(grid) == ranks
    assert list(grid) == sorted(grid, reverse=True)


def test_short_axes_are_not_cut() -> None:
    assert canonical((9, 1000), 4).grid == (1, 4)
    assert canonical((1000, 1000, 3), 4).grid == (2, 2, 1)
    assert canonical((), 4) == canonical((0, 5), 4) == REPLICATED


def test_a_grid_is_used_for_arrays_of_its_dimensions_only() -> None:
    assert canonical((8, 8), 4, (1, 4)).grid == (1, 4)
    assert canonical((8,), 4, (1, 4)).grid == (4,)
    assert canonical((8, 8), 6, (1, 4)).grid == (3, 2)


def test_impossible_partitions_are_refused() -> None:
    with pytest.raises(ProgramError, match="splits an axis twice"):
        Partition((Split(0, 2, 4), Split(0, 2, 4)))
    with pytest.raises(ProgramError, match="impossible"):
        Split(0, 2, 4, 0, 0)


def test_copies_everywhere_are_replicated() -> None:
    assert Partition((Spread(2), Spread(3))).replicated
    assert Partition((Spread(2), Spread(3))).simplified() is REPLICATED
    assert not Partition((Spread(2), Pinned(2, 4, 1))).replicated
