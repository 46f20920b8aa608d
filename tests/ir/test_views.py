"""Views against NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shapes, views

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir import Access, Axis, Store, View


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_view_is_what_numpy_indexes(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    view = data.draw(views(shape))
    array = np.arange(math.prod(shape)).reshape(shape)
    seen = view.of(array)
    assert seen.shape == view.shape and view.size == seen.size
    for index in itertools.islice(np.ndindex(*view.shape), 50):
        place = tuple(a.offset if a.source is None else a.offset + a.step * index[a.source] for a in view.axes)
        assert seen[index] == array[place]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_compositions_are_numpy_s(data: st.DataObject) -> None:
    """Each step of a chain is done to the view and to the array; both must go on seeing the same."""
    shape = data.draw(shapes(least=0, most=6))
    array = np.arange(math.prod(shape)).reshape(shape)
    view, right = View.identity(shape), array
    for step in data.draw(st.lists(st.sampled_from(["slice", "fix", "transpose", "expand", "broadcast"]), max_size=6)):
        axes = range(len(view.shape))
        if step == "slice" and axes:
            axis = data.draw(st.sampled_from(axes))
            bound = st.none() | st.integers(-7, 7)
            cut = slice(data.draw(bound), data.draw(bound), data.draw(st.sampled_from([None, 1, 2, -1, -3])))
            start, stop, stride = cut.indices(view.shape[axis])
            view = view.sliced(axis, start, stride, len(range(start, stop, stride)))
            right = right[(slice(None),) * axis + (cut,)]
        elif step == "fix" and axes:
            axis = data.draw(st.sampled_from(axes))
            if view.shape[axis]:
                index = data.draw(st.integers(0, view.shape[axis] - 1))
                view, right = view.fixed(axis, index), right[(slice(None),) * axis + (index,)]
        elif step == "transpose":
            order = tuple(data.draw(st.permutations(axes)))
            view, right = view.transposed(order), np.transpose(right, order)
        elif step == "expand":
            axis = data.draw(st.integers(0, len(view.shape)))
            view, right = view.expanded(axis), np.expand_dims(right, axis)
        elif step == "broadcast":
            wider = tuple(data.draw(st.sampled_from([n, 3])) if n == 1 else n for n in view.shape)
            wider = data.draw(st.sampled_from([(), (2,)])) + wider
            view, right = view.broadcast(wider), np.broadcast_to(right, wider)
    seen = view.of(array)
    assert seen.shape == view.shape
    np.testing.assert_array_equal(seen, right)
    Access(Store(0, shape, np.dtype(int)), view)  # refuses views that leave the store


def test_views_share_memory_and_compose() -> None:
    array = np.arange(60).reshape(6, 10)
    view = View.identity((6, 10)).sliced(0, 1, 2, 3).sliced(1, 9, -3, 4).transposed((1, 0)).fixed(0, 1).expanded(0)
    right = array[1:6:2, 9::-3].T[1][None]
    np.testing.assert_array_equal(view.of(array), right)
    assert np.shares_memory(view.of(array), array)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_covers_means_that_every_element_is_seen(data: st.DataObject) -> None:
    shape = data.draw(shapes(most=3))
    view = data.draw(views(shape))
    seen = np.zeros(shape, bool)
    for index in np.ndindex(*view.shape):
        seen[tuple(a.offset if a.source is None else a.offset + a.step * index[a.source] for a in view.axes)] = True
    if view.covers(shape):
        assert seen.all()
    elif seen.all():
        # Only a step along an axis of one element may be taken for a part: it costs a copy, no more.
        assert any(abs(a.step) > 1 for a in view.axes)


@pytest.mark.parametrize(
    ("view", "shape", "covers"),
    [
        (View.identity((3, 4)), (3, 4), True),
        (View.identity((3, 4)).sliced(0, 2, -1, 3), (3, 4), True),
        (View.identity((3, 4)).transposed((1, 0)), (3, 4), True),
        (View.identity((3, 4)).sliced(0, 0, 1, 2), (3, 4), False),
        (View.identity((1, 4)).fixed(0, 0), (1, 4), True),
        (View.identity((1, 4)).sliced(0, 0, 1, 0), (1, 4), False),
        (View.identity((0, 4)), (0, 4), True),
        (View.identity(()), (), True),
    ],
)
def test_covers(view: View, shape: tuple[int, ...], covers: bool) -> None:
    assert view.covers(shape) is covers


def test_equal_views_are_equal_and_hash_alike() -> None:
    one = View.identity((6, 4)).sliced(0, 1, 1, 4).sliced(0, 1, 1, 2)
    other = View((2, 4), (Axis(0, 2, 1), Axis(1)))
    assert one == other and hash(one) == hash(other)
    assert one != View.identity((2, 4))


def test_impossible_views_are_refused() -> None:
    with pytest.raises(ProgramError, match="uses a domain axis twice"):
        View((3,), (Axis(0), Axis(0)))
    with pytest.raises(ProgramError, match="or one that it has not"):
        View((3,), (Axis(1),))
    with pytest.raises(ValueError, match="could not broadcast"):
        View.identity((3,)).broadcast((4,))


@pytest.mark.parametrize(
    "view",
    [View((4,), (Axis(0),)), View((2,), (Axis(0, -1),)), View((2,), (Axis(0, 0, -1),)), View((), (Axis(None, 3),))],
)
def test_views_may_not_leave_their_store(view: View) -> None:
    with pytest.raises(ProgramError, match="leaves store"):
        Access(Store(0, (3,), np.dtype(float)), view)
