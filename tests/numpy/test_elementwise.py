"""Elementwise functions: scalars of traced functions, and what is refused.  The rest is in ``expressions.txt``."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace.errors import NotSupportedError


def test_scalar_arguments_of_traced_functions_are_weak() -> None:
    def run(np: Any, x: Any, scalar: Any) -> Any:
        return x + scalar, scalar * x, x / (scalar + 1), np.maximum(x, scalar), np.where(x > 1, x, scalar), scalar * 2

    jitted = diffuse.jit(lambda x, scalar: run(np, x, scalar))
    for dtype in ("int8", "float32", "float64", "complex64"):
        value = numpy.array([1, 2, 3], dtype)
        for scalar in (3, 2.5, 1j, numpy.float32(0.5), numpy.float64(0.5)):
            if isinstance(scalar, complex) or (isinstance(scalar, float) and dtype == "complex64"):
                continue  # maximum and comparisons of complex numbers are tested elsewhere
            for got, right in zip(jitted(np.array(value), scalar), run(numpy, value, scalar), strict=True):
                if not isinstance(right, float | int) or isinstance(right, numpy.generic):
                    assert got.dtype == right.dtype, (dtype, scalar)
                numpy.testing.assert_allclose(numpy.asarray(got), right, rtol=1e-6)


def test_scalar_arguments_of_traced_functions_never_change() -> None:
    """They stand for Python's numbers: ``n += 1`` binds the name to another one."""

    def run(x: Any, n: Any) -> Any:
        m = n
        n += 0.5
        m *= 3
        return x * m, x * n

    for got, right in zip(diffuse.jit(run)(np.arange(3), 2), run(numpy.arange(3), 2), strict=True):
        assert got.tolist() == right.tolist() and got.dtype == right.dtype


def test_functions_of_scalars_are_not_weak() -> None:
    """``np.sqrt`` of a Python number is a NumPy scalar, which is not weak; what operators give of it still is."""

    def run(np: Any, x: Any, n: Any) -> Any:
        return x * np.sqrt(n), x * (2 * n), x * -n, np.minimum(n, 1) + x

    value = numpy.ones(2, numpy.float32)
    for got, right in zip(
        diffuse.jit(lambda x, n: run(np, x, n))(np.array(value), 2.0), run(numpy, value, 2.0), strict=True
    ):
        assert got.dtype == right.dtype
        numpy.testing.assert_allclose(numpy.asarray(got), right, rtol=1e-6)


def test_a_part_that_numpy_would_alias_cannot_be_written_to() -> None:
    z = np.array([1 + 2j, 3 - 1j])
    with pytest.raises(ValueError, match=r"read-only: x.real is a copy here.*x.real.copy\(\).*test_elementwise"):
        z.real[0] = 5
    part = z.imag
    with pytest.raises(ValueError, match="read-only"):
        part += 1
    copy = part.copy()
    copy += 1
    assert copy.tolist() == [3, 0] and z.tolist() == [1 + 2j, 3 - 1j]
    x = np.array([1.0, 2.0])
    x.real[0] = 7  # the array itself, as in NumPy
    assert x.tolist() == [7, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add.at(x, [0], 1),
        lambda x: np.add.reduceat(x, [0]),
        lambda x: np.maximum.accumulate(x),
        lambda x: numpy.subtract.reduce(x),
        lambda x: numpy.common_type(x),
        lambda x: x.argsort(),
        lambda x: numpy.min_scalar_type(x),
    ],
)
def test_what_is_not_offered_says_so(call: Any) -> None:
    with pytest.raises(NotSupportedError, match=r"test_elementwise.py:\d+: numpy\..* is not supported"):
        call(np.ones(3))


def test_attributes_that_are_not_offered() -> None:
    x = np.ones(3)
    assert not hasattr(x, "argsort") and not hasattr(x, "no_such_thing")
    with pytest.raises(AttributeError, match="'ndarray' object has no attribute 'no_such_thing'"):
        x.no_such_thing  # noqa: B018


def test_many_operations_compile_once() -> None:
    """A loop of 200 trips in a traced function compiles in about the time of two."""

    @diffuse.jit
    def f(x: Any) -> Any:
        for _ in range(200):
            x = x + 1
        return x

    assert f(np.zeros(3)).tolist() == [200, 200, 200]
