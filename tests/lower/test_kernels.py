"""Each kernel against its reference, over NumPy's dtypes and the values where the two might differ."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffuse_trace.ir import Access, Axis, IndexTask, Operand, Privilege, Store, View
from diffuse_trace.lower.kernels import Context, kernel, registered

jax.config.update("jax_enable_x64", True)

DTYPES = [np.dtype(c) for c in "?bhilBHILefdFD"]
UFUNCS = [n for n in registered() if isinstance(getattr(np, n, None), np.ufunc)]
UNARY = [n for n in UFUNCS if getattr(np, n).nin == 1]
BINARY = [n for n in UFUNCS if getattr(np, n).nin == 2]
#: The first loop of each ufunc takes care of the rest of the pairs; these mix their input dtypes.
MIXED = [(n, "Qq->?") for n in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")]

#: Largest error in units in the last place; other ufuncs agree in every bit.
ULPS = {
    **dict.fromkeys("exp exp2 expm1 log log2 log10 log1p cbrt hypot logaddexp logaddexp2".split(), 4),
    **dict.fromkeys("sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh".split(), 4),
    **dict.fromkeys(["power", "float_power"], 4),
}


def task(op: str, shape: tuple[int, ...], inputs: int, dtype: Any, kept: Any = None, **params: Any) -> IndexTask:
    """A task over ``shape`` whose output has the domain's axes ``kept`` (all of them unless given)."""
    reduces = kept is not None
    axes = tuple(range(len(shape))) if kept is None else kept
    out = Store(99, tuple(shape[a] for a in axes), np.dtype(dtype))
    view = View(shape, tuple(Axis(a) for a in axes))
    access = Access(out, view, Privilege.REDUCE, op) if reduces else Access(out, view, Privilege.WRITE)
    return IndexTask(op, shape, tuple(Operand(k) for k in range(inputs)), access, tuple(sorted(params.items())))


def both(made: IndexTask, *arrays: Any) -> tuple[np.ndarray, np.ndarray]:
    """The generator's result and the reference's, both over the whole domain."""
    whole = tuple((0, n) for n in made.shape)
    found = jax.jit(lambda *a: kernel(made.op).generate(Context(made, whole, whole, jnp), *a))(*arrays)
    expected = kernel(made.op).reference(Context(made, whole, whole, np), *arrays)
    dtype = made.output.store.dtype
    assert found.dtype == dtype
    return np.broadcast_to(found, expected.shape), np.asarray(expected).astype(dtype)


@cache
def values(dtype: np.dtype, complete: bool = True) -> np.ndarray:
    """Ordinary and special values of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [0, 1, 2, 3, 5, 7, 8, 12, 31, 63, 64, 100, info.max - 1, info.max]
        return np.array(near + ([-1, -2, -3, -7, -12, -100, info.min, info.min + 1] if info.min else []), dtype)
    if dtype.kind == "c":
        part = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 0.3], dtype)
        if complete:
            part = np.append(part, np.array([np.inf, -np.inf, np.nan], dtype))
        result = np.empty((part.size, part.size), dtype)
        result.real, result.imag = part.real[:, None], part.real
        return result.ravel()
    info = np.finfo(dtype)
    plain = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1e-3, 7.25, 88.0, info.max / 4, info.eps, np.inf]
    with np.errstate(over="ignore"):
        return np.array([s * v for v in plain for s in (1, -1)] + [np.nan], dtype)


def assert_equal(found: np.ndarray, expected: np.ndarray, ulps: float = 0, signs: bool = True) -> None:
    """Equal to so many units in the last place; zeros have equal signs, and what is not a number is so in both."""
    if expected.dtype.kind == "c":
        size = np.maximum(np.abs(expected.real), np.abs(expected.imag)) if ulps else None
        for part in ("real", "imag"):
            _assert_parts(getattr(found, part), getattr(expected, part), ulps, signs, size)
    elif expected.dtype.kind == "f":
        _assert_parts(found, expected, ulps, signs, None)
    else:
        np.testing.assert_array_equal(found, expected)


def _assert_parts(found: Any, expected: Any, ulps: float, signs: bool, size: Any) -> None:
    if not ulps:
        np.testing.assert_array_equal(found, expected)
    else:
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(finite, np.isfinite(found))
        np.testing.assert_array_equal(found[~finite], expected[~finite])
        scale = np.abs(expected if size is None else size)[finite]
        unit = np.maximum(np.spacing(scale), np.finfo(expected.dtype).tiny).astype(float)
        error = np.abs(found[finite].astype(float) - expected[finite].astype(float)) / unit
        assert error.max(initial=0) <= ulps, (error.max(), found[finite][error.argmax()], expected[finite][error.argmax()])
    if signs:
        zero = (expected == 0) & (found == 0)
        np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(expected)[zero])


def resolved(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...]) -> tuple[np.dtype, ...] | None:
    """The loop of a ufunc for these dtypes; None where NumPy has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loop = ufunc.resolve_dtypes((*dtypes, *(None,) * ufunc.nout))
    except TypeError:
        return None
    return loop if all(d in DTYPES for d in loop) else None
