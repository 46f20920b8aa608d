"""Means, variances, and reductions that leave out what is not a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import core
from .array import ndarray
from .elementwise import where as select
from .reductions import all, argmax, argmin, axes_of, axis_of, count_nonzero, cumsum, extreme, finish, masked, prod, sum

__all__ = [
    "nancumsum",
    "mean",
    "var",
    "std",
    "average",
    "nansum",
    "nanprod",
    "nanmin",
    "nanmax",
    "nanmean",
    "nanvar",
    "nanstd",
    "nanargmin",
    "nanargmax",
]


# --- statistics ----------------------------------------------------------------------------------


def _count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    return math.prod(shape[d] for d in axes)


def _mean_dtype(a: ndarray, dtype: Any) -> tuple[np.dtype, np.dtype]:
    """In which a mean is computed, and its dtype."""
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if a.dtype.kind in "biu":
        return np.dtype(np.float64), np.dtype(np.float64)
    return (np.dtype(np.float32) if a.dtype == np.float16 else a.dtype), a.dtype


def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> ndarray:
    """The mean along ``axis``; integers in float64."""
    a = core.as_array(a)
    axes = axes_of(axis, a.ndim)
    work, result = _mean_dtype(a, dtype)
    total = sum(a, axis, work, keepdims=keepdims, where=where)
    if where is True:
        value = total / _as_real(_count(a.shape, axes), work)
    else:
        value = total / count_nonzero(masked(_full_like(a, where), True, 0), axis, keepdims=keepdims)
    return finish(value.astype(result, copy=False), (), False, out)


def _as_real(count: int, work: np.dtype) -> Any:
    return np.zeros(0, work).real.dtype.type(count)


def _full_like(a: ndarray, where: Any) -> ndarray:
    return core.as_array(where).broadcast_to(a.shape)


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> ndarray:
    """The variance along ``axis``: the mean square distance from the mean, with divisor ``n - ddof``."""
    a = core.as_array(a)
    axes = axes_of(axis, a.ndim)
    work, result = _mean_dtype(a, dtype)
    distance = (a if a.dtype == work else a.astype(work)) - mean(a, axis, work, keepdims=True, where=where)
    square = (distance * core.ufunc("conjugate", distance)).real if work.kind == "c" else distance * distance
    total = sum(square, axis, keepdims=keepdims, where=where)
    if where is True:
        value = total / _as_real(np.maximum(_count(a.shape, axes) - ddof, 0), work)
    else:
        value = total / core.ufunc("maximum", count_nonzero(_full_like(a, where), axis, keepdims=keepdims) - ddof, 0)
    result = np.zeros(0, result).real.dtype
    return finish(value.astype(result, copy=False), (), False, out)


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> ndarray:
    """The standard deviation along ``axis``."""
    return finish(core.ufunc("sqrt", var(a, axis, dtype, None, ddof, keepdims, where=where)), (), False, out)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The weighted mean along ``axis``."""
    a = core.as_array(a)
    if weights is None:
        value = mean(a, axis, keepdims=keepdims)
        total = core.as_array(float(a.size // value.size if value.size else 0)).broadcast_to(value.shape)
    else:
        weights = core.as_array(weights)
        if weights.shape != a.shape:
            if weights.ndim != 1 or axis is None or a.shape[axis_of(axis, a.ndim)] != weights.shape[0]:
                raise TypeError("weights must have the shape of `a`, or be 1-D and fit `axis`")
            key: list[Any] = [np.newaxis] * a.ndim
            key[axis_of(axis, a.ndim)] = slice(None)
            weights = weights[tuple(key)].broadcast_to(a.shape)
        total = sum(weights, axis, keepdims=keepdims)
        value = sum(a * weights, axis, keepdims=keepdims) / total
    return (value, total) if returned else value


# --- without NaN ---------------------------------------------------------------------------------


def _without_nan(a: Any, neutral: Any) -> ndarray:
    a = core.as_array(a)
    return a if a.dtype.kind not in "fc" else select(core.ufunc("isnan", a), a.dtype.type(neutral), a)


def _numbers(a: ndarray) -> Any:
    return True if a.dtype.kind not in "fc" else core.ufunc("logical_not", core.ufunc("isnan", a))


def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The sum of what is a number."""
    return sum(_without_nan(a, 0), axis, dtype, out, keepdims)


def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The product of what is a number."""
    return prod(_without_nan(a, 1), axis, dtype, out, keepdims)


def _nan_extreme(op: str, a: Any, axis: Any, out: Any, keepdims: bool) -> ndarray:
    a = core.as_array(a)
    if a.dtype.kind not in "fc":
        return extreme(op, a, axis, out, keepdims, None, True)
    value = extreme(op, _without_nan(a, -np.inf if op == "max" else np.inf), axis, None, keepdims, None, True)
    nothing = all(core.ufunc("isnan", a), axis, keepdims=keepdims)
    return finish(select(nothing, a.dtype.type(np.nan), value), (), False, out)


def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The largest number; NaN where there is none."""
    return _nan_extreme("max", a, axis, out, keepdims)


def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The smallest number; NaN where there is none."""
    return _nan_extreme("min", a, axis, out, keepdims)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The mean of what is a number."""
    a = core.as_array(a)
    numbers = _numbers(a)
    if numbers is True:
        return mean(a, axis, dtype, out, keepdims)
    total = nansum(a, axis, dtype, keepdims=keepdims)
    value = total / count_nonzero(numbers, axis, keepdims=keepdims)
    return finish(value.astype(total.dtype, copy=False), (), False, out)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> ndarray:
    """The variance of what is a number."""
    a = core.as_array(a)
    numbers = _numbers(a)
    if numbers is True:
        return var(a, axis, dtype, out, ddof, keepdims)
    distance = select(numbers, a - nanmean(a, axis, keepdims=True), a.dtype.type(0))
    square = (distance * core.ufunc("conjugate", distance)).real if a.dtype.kind == "c" else distance * distance
    total = sum(square, axis, dtype, keepdims=keepdims)
    count = count_nonzero(numbers, axis, keepdims=keepdims) - ddof
    value = (total / count).astype(total.dtype, copy=False)
    return finish(select(count > 0, value, value.dtype.type(np.nan)), (), False, out)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> ndarray:
    """The standard deviation of what is a number."""
    return finish(core.ufunc("sqrt", nanvar(a, axis, dtype, None, ddof, keepdims)), (), False, out)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the largest number (0 where there is none, where NumPy raises)."""
    return argmax(_without_nan(a, -np.inf), axis, out, keepdims=keepdims)


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the smallest number (0 where there is none, where NumPy raises)."""
    return argmin(_without_nan(a, np.inf), axis, out, keepdims=keepdims)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running sums, NaN as 0."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)
