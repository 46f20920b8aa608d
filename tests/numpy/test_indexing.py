"""Indexing against NumPy, by random keys."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diffuse_trace.numpy as dnp

ALIKE = settings(
    max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Integers, slices with any step, newaxis and an ellipsis."""
    items: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.integers(0, 3))
        if kind == 0 and n:
            items.append(draw(st.integers(-n, n - 1)))
        else:
            bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
            items.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, -1, -2, 3]))))
        if draw(st.integers(0, 6)) == 0:
            items.append(None)
    if draw(st.integers(0, 3)) == 0:
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
        items = [k for n, k in enumerate(items) if k is not Ellipsis or Ellipsis not in items[:n]]
        after = len(items) - items.index(Ellipsis) - 1
        if after:
            items = items[: items.index(Ellipsis) + 1]
    return tuple(items) if draw(st.booleans()) or len(items) != 1 else items[0]


@ALIKE
@given(st.data())
def test_reading_and_writing_with_basic_keys(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    right = numpy.arange(float(numpy.prod(shape))).reshape(shape)
    array = dnp.array(right)
    key = data.draw(keys(shape))
    part, seen = right[key], array[key]
    assert seen.shape == part.shape
    seen_values = numpy.asarray(seen)
    numpy.testing.assert_array_equal(seen_values, part)
    if part.ndim:
        again = data.draw(keys(part.shape))
        part[again] += 100
        seen[again] += 100
    right[key] = right[key] * 2 - 1
    array[key] = array[key] * 2 - 1
    numpy.testing.assert_array_equal(numpy.asarray(array), right)


@ALIKE
@given(st.data())
def test_masks_and_index_arrays(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    right = numpy.arange(float(numpy.prod(shape))).reshape(shape)
    array = dnp.array(right)
    mask = (
        numpy.random.default_rng(data.draw(st.integers(0, 99))).random(shape[: data.draw(st.integers(1, len(shape)))])
        < 0.5
    )
    numpy.testing.assert_array_equal(numpy.asarray(array[dnp.array(mask)]), right[mask])
    right[mask] = -1
    array[dnp.array(mask)] = -1
    index = numpy.array(data.draw(st.lists(st.integers(-shape[0], shape[0] - 1), min_size=1, max_size=6)))
    numpy.testing.assert_array_equal(numpy.asarray(array[index]), right[index])
    rest = (index,) + (slice(None, None, -1),) * (len(shape) - 1)
    numpy.testing.assert_array_equal(numpy.asarray(array[rest]), right[rest])
    values = numpy.arange(float(right[index].size)).reshape(right[index].shape)
    right[index] = values
    array[index] = dnp.array(values)
    numpy.testing.assert_array_equal(numpy.asarray(array), right)
    if len(shape) > 1:
        pair = (index, numpy.arange(len(index)) % shape[1])
        numpy.testing.assert_array_equal(numpy.asarray(array[pair]), right[pair])


@pytest.mark.parametrize(
    ("key", "kind", "says"),
    [
        (7, IndexError, "index 7 is out of bounds for axis 0 with size 4"),
        ((0, -6), IndexError, "index -6 is out of bounds for axis 1 with size 5"),
        ((0, 0, 0), IndexError, "too many indices"),
        ("x", IndexError, "only integers, slices"),
        (1.5, IndexError, "only integers, slices"),
        ((..., ...), IndexError, "single ellipsis"),
        (numpy.array([True, False]), IndexError, "boolean index did not match"),
        (numpy.array([9]), IndexError, "out of bounds"),
    ],
)
def test_wrong_keys(key: Any, kind: type, says: str) -> None:
    with pytest.raises(kind, match=says):
        dnp.ones((4, 5))[key]


def test_wrong_values_name_the_line() -> None:
    a = dnp.ones((4, 5))
    with pytest.raises(
        ValueError, match=r"could not broadcast input array from shape \(3,\) into shape \(4, 5\).*test_indexing"
    ):
        a[:] = dnp.ones(3)
    with pytest.raises(ValueError, match=r"shapes \(4,5\) \(3,\).*test_indexing.py"):
        a + dnp.ones(3)
