"""The array: attributes, printing, conversions, NumPy's functions on it, aliasing."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace.errors import NotSupportedError, TracingError


@pytest.mark.parametrize(
    "value",
    [
        numpy.arange(6.0).reshape(2, 3) / 7,
        numpy.array(3.5),
        numpy.array([True, False]),
        numpy.array([1, 2], numpy.int8),
        numpy.zeros((0, 3)),
        numpy.array([1 + 2j]),
        numpy.arange(2000),
    ],
)
def test_attributes_and_printing_are_numpys(value: numpy.ndarray) -> None:
    x = np.array(value)
    for name in ("shape", "ndim", "size", "dtype", "itemsize", "nbytes"):
        assert getattr(x, name) == getattr(value, name)
    assert repr(x) == repr(value)
    assert str(x) == str(value)
    assert x.tolist() == value.tolist()
    numpy.testing.assert_array_equal(numpy.asarray(x.T), value.T)
    numpy.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).gather(), value)


def test_scalars() -> None:
    x = np.array([1.5, 2.0])
    assert float(x[0]) == 1.5 and int(x[1]) == 2 and bool(x[0]) and complex(x[0]) == 1.5
    assert f"{x.sum():.2f}" == "3.50" and str(x.max()) == "2.0" and x.sum().item() == 3.5
    assert [10, 20][np.array(1)] == 20
    assert len(x) == 2 and [float(v) for v in x] == [1.5, 2.0] and 2.0 in x and 7 not in x
    with pytest.raises(ValueError, match="truth value of an array with more than one element is ambiguous.*test_array"):
        bool(x)
    with pytest.raises(TypeError, match="only 0-dimensional"):
        float(x)
    with pytest.raises(TypeError, match="unsized"):
        len(x[0])


def test_aliasing() -> None:
    x = np.array([1, 2, 3])
    y = x
    y += 1
    view = x[1:]
    view *= 10
    deep, shallow = copy.deepcopy(x), copy.copy(x)
    x[0] = -1
    assert x.tolist() == [-1, 30, 40] and y is x
    assert deep.tolist() == shallow.tolist() == [2, 30, 40]


def test_a_reshape_that_numpy_would_alias_cannot_be_written_to() -> None:
    x = np.zeros((3, 4))
    y = x.reshape(12)
    with pytest.raises(ValueError, match=r"read-only.*use x.reshape\(...\).copy\(\)"):
        y[5] = 7
    with pytest.raises(ValueError, match="read-only"):
        y += 1
    z = y.copy()
    z[5] = 7
    assert z.sum().item() == 7 and x.sum().item() == 0
    w = x.reshape(3, 1, 4)  # only an axis of one element comes: a view, as in NumPy
    w[0, 0, 0] = 5
    assert x[0, 0].item() == 5
    with pytest.raises(ValueError, match="read-only"):
        np.broadcast_to(x, (2, 3, 4))[0] = 1


def test_numpys_functions_come_here() -> None:
    value = numpy.arange(6.0).reshape(2, 3)
    x = np.array(value)
    for got, right in [
        (numpy.sin(x), numpy.sin(value)),
        (numpy.add(value, x), value + value),
        (value + x, value + value),
        (numpy.float64(2) * x, 2 * value),
        (numpy.sum(x, axis=0), value.sum(0)),
        (numpy.concatenate([x, x]), numpy.concatenate([value, value])),
        (numpy.add.reduce(x), value.sum(0)),
        (numpy.linalg.norm(x), numpy.linalg.norm(value)),
        (numpy.where(x > 2, x, 0), numpy.where(value > 2, value, 0)),
        (numpy.matmul(x, x.T), value @ value.T),
    ]:
        assert isinstance(got, np.ndarray)
        numpy.testing.assert_allclose(numpy.asarray(got), right)
    with pytest.raises(NotSupportedError, match="linalg.svd.*gathers"):
        numpy.linalg.svd(x)
    with pytest.raises(AttributeError, match="numpy.percentile is not supported"):
        np.percentile  # noqa: B018
    assert not hasattr(np, "percentile")


def test_values_are_not_there_while_a_function_is_traced() -> None:
    @diffuse.jit
    def branches(x):
        return x if x.max() > 1 else -x

    @diffuse.jit
    def converts(x, n):
        return x * float(n)

    @diffuse.jit
    def counts(x, n):
        return sum(x for _ in range(n))

    @diffuse.jit
    def shows(x):
        return repr(x) + str(x)

    x = np.ones(3)
    for call in (lambda: branches(x), lambda: converts(x, 2.0), lambda: counts(x, 3)):
        with pytest.raises(
            TracingError, match=r"test_array.py:\d+: .* is needed while .* is being traced.*static_argnames"
        ):
            call()
    assert "being traced" in shows(x)
    assert x.tolist() == [1, 1, 1]


def test_types_that_are_not_numbers() -> None:
    with pytest.raises(TypeError, match="not supported; use numbers"):
        np.array(["a"])
    with pytest.raises(TypeError):
        np.ones(3) + "a"
