"""Assignment against NumPy: what is written through which key, what views alias, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from programs.runner import compare

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace.errors import DiffuseError, TracingError

# The same examples at every run and on every rank: all of them must record the same.
examples = settings(
    derandomize=True, database=None, deadline=None, max_examples=25, suppress_health_check=list(HealthCheck)
)
many = settings(examples, max_examples=100)

shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)


def numbered(shape: tuple[int, ...], dtype: Any = float) -> numpy.ndarray:
    """Elements 0, 1, 2, ..."""
    return numpy.arange(numpy.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def basic(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Keys of slices with any step, integers, newaxis and an ellipsis."""
    return arrays.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6)


@st.composite
def shape_and_keys(draw: st.DrawFn, number: int = 1) -> tuple[tuple[int, ...], list[Any]]:
    shape = draw(shapes)
    return shape, [draw(basic(shape)) for _ in range(number)]


# --- basic keys ----------------------------------------------------------------------------------


@many
@given(st.data())
def test_read_of_a_view(data: st.DataObject) -> None:
    right = numbered(data.draw(shapes))
    got = np.asarray(right)
    for _ in range(3):
        if data.draw(st.booleans()):
            got, right = got.T, right.T
        else:
            key = data.draw(basic(right.shape))
            got, right = got[key], numpy.asarray(right[key])
    compare(got, right)


@examples
@given(st.data())
def test_write_of_an_array(data: st.DataObject) -> None:
    right = numbered(data.draw(shapes))
    got = np.asarray(right.copy())
    for n in range(3):
        key = data.draw(basic(right.shape))
        want = numpy.asarray(right[key]).shape
        # A shape that broadcasts to the selection: axes dropped, or of extent 1, or 1s in front.
        shape = tuple(data.draw(st.sampled_from([m, 1])) if m else m for m in want)
        shape = shape[data.draw(st.integers(0, len(shape))) :] if 0 not in shape else shape
        if want:  # an element takes no array of more axes
            shape = (1,) * data.draw(st.integers(0, 1)) + shape
        value = (n + 1) * 100.0 + numbered(shape)
        right[key] = value
        got[key] = np.asarray(value)
    compare(got, right)


@examples
@given(st.data())
def test_write_from_the_same_array(data: st.DataObject) -> None:
    """The right side has the values from before, however the two views overlap."""
    right = numbered(data.draw(arrays.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=7)))
    got = np.asarray(right.copy())
    for _ in range(3):
        target, source = [], []
        for n in right.shape:
            length = data.draw(st.integers(0, n))
            target.append(data.draw(slices(n, length)))
            source.append(data.draw(slices(n, length)))
        right[tuple(target)] = right[tuple(source)].copy() + 0.5
        got[tuple(target)] = got[tuple(source)] + 0.5
        right[tuple(source)] = right[tuple(target)].copy()
        got[tuple(source)] = got[tuple(target)]
    compare(got, right)


@st.composite
def slices(draw: st.DrawFn, extent: int, length: int) -> slice:
    """A slice that selects ``length`` of ``extent`` elements."""
    if not length:
        start = draw(st.integers(0, extent))
        return slice(start, start)
    step = draw(st.integers(1, (extent - 1) // (length - 1) if length > 1 else 3))
    first = draw(st.integers(0, extent - 1 - step * (length - 1)))
    last = first + step * (length - 1)
    if draw(st.booleans()):
        return slice(last, first - 1 if first else None, -step)
    return slice(first, last + 1, step)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("value", [True, 3, 3.7, numpy.float32(2.5), numpy.array([2.9, -2.9]), numpy.array([1, 300])])
def test_assignment_casts_as_numpy_does(dtype: str, value: Any) -> None:
    right = numpy.zeros(2, dtype)
    got = np.asarray(right)
    with numpy.errstate(all="ignore"):
        right[:] = value
    got[:] = np.asarray(value) if isinstance(value, numpy.ndarray) else value
    compare(got, right)


def test_assignment_of_python_integers_that_do_not_fit() -> None:
    for dtype, value in (("int8", 300), ("uint8", -1)):
        with pytest.raises(OverflowError):
            numpy.zeros(2, dtype)[:] = value
        with pytest.raises(OverflowError):
            np.zeros(2, dtype)[:] = value


def test_assignment_of_sequences_and_numpy_arrays() -> None:
    got, right = np.zeros((2, 3)), numpy.zeros((2, 3))
    for x in (got, right):
        x[0] = [1, 2, 3]
        x[1] = numpy.array([4.0, 5.0, 6.0])
        x[:, 1] = (7, 8)
    compare(got, right)


@pytest.mark.parametrize(("key", "shape"), [((), (2, 4)), (0, (3,)), ((slice(None), 0), (4,)), (slice(0, 0), (2, 4))])
def test_values_that_do_not_broadcast(key: Any, shape: tuple[int, ...]) -> None:
    right = numbered((3, 4))
    got = np.asarray(right)
    with pytest.raises(ValueError) as expected:
        right[key] = numpy.ones(shape)
    with pytest.raises(ValueError) as found:
        got[key] = np.ones(shape)
    assert str(found.value).replace(" ", "").startswith(str(expected.value).replace(" ", ""))
    compare(got, right)


def test_integers_of_numpy_and_of_arrays_index() -> None:
    right = numbered((3, 4))
    got = np.asarray(right)
    compare(got[numpy.int8(1), numpy.uint64(2)], right[1, 2])
    compare(got[np.argmax(got[:, 0])], right[2])
    compare(got[: np.asarray(2)], right[:2])
    got[np.asarray(1)] = 0
    right[1] = 0
    compare(got, right)


def test_an_index_that_is_traced_raises() -> None:
    @diffuse.jit
    def f(x: Any, n: int) -> Any:
        return x[n]

    with pytest.raises(TracingError, match=r"test_assignment.py:\d+"):
        f(np.arange(4), 2)


# --- aliasing ------------------------------------------------------------------------------------


def test_views_alias() -> None:
    def run(np: Any) -> Any:
        x = np.zeros((4, 5))
        rows, column, flipped = x[1:3], x[:, 2], x[::-1, ::-2]
        rows[...] = 1
        column += 5
        flipped[0] = -1
        rows.T[4] = 9
        x[()][0, 0] = 3
        x[...][0, 1] = 4
        x[np.newaxis, 2, :, np.newaxis][0, 3] = 8
        return x, rows, column, flipped

    compare(run(np), run(numpy))


def test_an_update_of_a_view_is_one_task() -> None:
    """``x[key] += y`` ends with an assignment of the view to itself, which records nothing."""

    @diffuse.jit
    def f(x: Any) -> None:
        x[1:-1] += 1.0

    assert [t.op for t in f.program(np.ones(5)).tasks if t.op != "fill"] == ["add"]


def test_assignments_to_nothing() -> None:
    x = np.zeros(10)
    assert x[10:10].shape == (0,)
    x[9:9] = 1
    x[5:2] += 1
    x[5:2] = np.zeros(0)
    compare(x, numpy.zeros(10))


# --- masks ---------------------------------------------------------------------------------------


@examples
@given(st.data())
def test_masks(data: st.DataObject) -> None:
    """Masks of the whole shape or of leading axes: assignment of one value, and reading."""
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    right = numbered(shape)
    got = np.asarray(right)
    axes = data.draw(st.integers(1, len(shape)))
    mask = data.draw(arrays.arrays(bool, shape[:axes]))
    for value in (-1.0, numpy.float32(0.5), 10 * numbered(shape[axes:])):
        right[mask] = value
        got[np.asarray(mask)] = np.asarray(value) if isinstance(value, numpy.ndarray) else value
    compare(got, right)
    compare(got[np.asarray(mask)], right[mask])
    compare(got[mask], right[mask])
    compare(got[~np.asarray(mask)], right[~mask])


def test_masks_of_an_expression() -> None:
    def run(np: Any, wrap: Any = lambda f: f) -> Any:
        @wrap
        def f(x: Any) -> Any:
            x[x < 0] = 0.0
            x[x > 5] *= 1.0 if np is numpy else 1.0
            x[0][x[0] == 0] = 7.0
            x[:, 0][x[:, 0] > 6] = 1.5
            return x.sum()

        x = np.asarray(numbered((4, 3)) - 5)
        return f(x), x

    compare(run(np), run(numpy))


def test_mask_and_other_keys() -> None:
    right = numbered((4, 3, 2))
    got = np.asarray(right)
    rows = numpy.array([True, False, True, True])
    columns = numpy.array([True, False, True])
    keys = [(rows, 0), (rows, slice(None, None, -1)), (slice(None), columns), (..., numpy.array([False, True]))]
    for n, key in enumerate(keys):
        compare(got[key], right[key])
        right[key] = -n
        got[key] = -n
    compare(got, right)
    for key in (True, False, numpy.bool_(True)):
        compare(got[key], right[key])
    right[True] = numbered((3, 2))
    got[True] = numbered((3, 2))
    got[False] = 7.0
    compare(got, right)
    compare(got[np.asarray(rows), 1], right[rows, 1])


def test_assignment_with_a_mask_and_other_keys_is_recorded() -> None:
    @diffuse.jit
    def f(x: Any, value: Any) -> None:
        x[x[:, 0] > 3, 1] = value
        x[:, x[1] > 4] = 0.5

    got, right = np.asarray(numbered((4, 3))), numbered((4, 3))
    f(got, 7.0)
    f.function(right, 7.0)
    compare(got, right)


def test_as_many_values_as_true_elements() -> None:
    def run(np: Any) -> Any:
        x, y = np.asarray(numbered((3, 4))), np.asarray(-numbered((3, 4)))
        mask = x % 3 == 0
        x[mask] = y[mask] - 0.5
        x[x > 8] += 100
        return x

    compare(run(np), run(numpy))
    with pytest.raises(ValueError, match="shape mismatch|cannot assign"):
        np.zeros(3)[numpy.array([True, True, False])] = np.ones(3)


def test_case_12() -> None:
    x = np.asarray([[-1.0, -2, -3], [1, 2, 3]])
    m = x[x >= 0]
    compare(m, numpy.array([1.0, 2, 3]))
    assert float(m.min()) == 1
    assert abs(float(m.std()) - 0.8165) < 1e-4


# --- integer arrays ------------------------------------------------------------------------------


def test_lists_and_permutations() -> None:
    right = numbered((5, 2))
    got = np.asarray(right)
    order = [3, 1, 4, 0, 2]
    compare(got[order], right[order])
    compare(got[:, [1, 0]], right[:, [1, 0]])
    compare(got[[]], right[[]])
    got[order] = np.asarray(right) * 2
    right[order] = right * 2
    compare(got, right)
    got[[0, 1], [1, 0]] += 1
    right[[0, 1], [1, 0]] += 1
    compare(got, right)


@pytest.mark.parametrize(
    "action", [lambda x, m: x[m] + x, lambda x, m: x[[0, 1]], lambda x, m: x.__setitem__([0, 1], 1.0)]
)
def test_what_only_values_tell_is_refused_while_tracing(action: Any) -> None:
    @diffuse.jit
    def f(x: Any) -> Any:
        return action(x, x > 1)

    with pytest.raises(DiffuseError, match=r"test_assignment.py:\d+.*np.where"):
        f(np.arange(4.0))


# --- the case list -------------------------------------------------------------------------------


@pytest.mark.parametrize("jit", [lambda f: f, diffuse.jit], ids=["plain", "jit"])
def test_overlapping_updates(jit: Any) -> None:
    def run(np: Any, jit: Any) -> Any:
        @jit
        def up(a: Any) -> None:
            a[1:] = a[:-1]

        @jit
        def down(a: Any) -> None:
            a[:-1] = a[1:]

        @jit
        def add(u: Any) -> None:
            u[1:] += u[:-1]

        @jit
        def column(p: Any) -> None:
            p[1:-1, -1] = p[1:-1, -2]

        @jit
        def transposed(x: Any) -> None:
            x += x.T

        @jit
        def relax(u: Any) -> None:
            u[1:-1] = 0.5 * (u[2:] + u[:-2])

        results = []
        for function, make in (
            (up, lambda: np.arange(8.0)),
            (down, lambda: np.arange(8.0)),
            (add, lambda: np.ones(6)),
            (add, lambda: np.ones(10_000)),
            (column, lambda: np.asarray(numbered((5, 5)))),
            (transposed, lambda: np.asarray([[1, 2], [3, 4]])),
            *((relax, lambda n=n: np.arange(n) ** 2.0) for n in (2, 3, 4, 5, 9)),
        ):
            x = make()
            function(x)
            results.append(x)
        return results

    got = run(np, jit)
    compare(got, run(numpy, lambda f: f))
    assert got[0].tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    assert got[1].tolist() == [1, 2, 3, 4, 5, 6, 7, 7]
    assert got[2].tolist() == [1, 2, 2, 2, 2, 2]
    assert got[4][:, -1].tolist() == [4, 8, 13, 18, 24]
    assert got[5].tolist() == [[2, 5], [5, 8]]
