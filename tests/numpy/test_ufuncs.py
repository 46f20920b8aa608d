"""Every ufunc on every dtype, and result types with Python scalars."""

from __future__ import annotations

import numpy
import pytest
from numpy_expressions import compare

import diffuse_trace.numpy as dnp
from diffuse_trace import recording
from diffuse_trace.numpy import elementwise

DTYPES = ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]
UFUNCS = [n for n, f in vars(elementwise).items() if isinstance(f, elementwise.Ufunc) and f.__name__ == n]


def values(dtype: str, seed: int) -> numpy.ndarray:
    """A few ordinary values; the special ones are the kernels' own tests' business."""
    generator = numpy.random.default_rng(seed)
    kind = numpy.dtype(dtype).kind
    if kind == "b":
        return numpy.array([True, False, True, False, True, True])
    if kind in "iu":
        return generator.integers(0 if kind == "u" else -5, 6, 6).astype(dtype)
    x = generator.random(6) * 1.6 - 0.6
    return (x + 1j * generator.random(6) if kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ufuncs(dtype: str) -> None:
    a, b = values(dtype, 1), values(dtype, 2)
    x, y = dnp.array(a), dnp.array(b)
    pairs = []
    with numpy.errstate(all="ignore"):
        for name in UFUNCS:
            function = getattr(numpy, name)
            arguments = (a, b)[: function.nin], (x, y)[: function.nin]
            try:
                right = function(*arguments[0])
            except TypeError:
                with pytest.raises(TypeError):
                    getattr(dnp, name)(*arguments[1])
                continue
            except ValueError:
                continue  # integers to negative powers: found out from values, which are not there yet
            pairs.append((name, getattr(dnp, name)(*arguments[1]), right))
    recording.flush()
    wrong = [text for name, got, right in pairs if (text := compare(got, right, 1e-14, f"{name}({dtype})"))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("scalar", [True, 2, 2.5, 1j, numpy.int8(3), numpy.float32(1.5), numpy.float64(1.5)])
def test_promotion_with_scalars(scalar: object) -> None:
    wrong = []
    arrays = [dnp.array(values(dtype, 3)) for dtype in DTYPES]
    for dtype, x in zip(DTYPES, arrays, strict=True):
        a = values(dtype, 3)
        for name in ("add", "multiply", "divide", "floor_divide", "power", "maximum", "less", "arctan2", "bitwise_and"):
            for order in (1, -1):
                try:
                    with numpy.errstate(all="ignore"):
                        right = getattr(numpy, name)(*(a, scalar)[::order])
                except TypeError:
                    with pytest.raises(TypeError):
                        getattr(dnp, name)(*(x, scalar)[::order])
                    continue
                except ValueError:
                    continue
                with recording.trace_into(recording.Window("promotion")):  # only the dtype is asked for
                    got = getattr(dnp, name)(*(x, scalar)[::order])
                if got.dtype != right.dtype:
                    wrong.append(f"{name}({dtype}, {scalar!r}): {got.dtype}, not {right.dtype}")
    assert not wrong, "\n".join(wrong)
