"""Reductions, running sums, and the statistics made of them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import recording
from ..ir import View
from ..ir.view import Axis
from . import core
from .array import ndarray
from .elementwise import where as select

__all__ = ["sum", "prod", "min", "max", "amin", "amax", "mean", "var", "std", "average", "ptp", "any", "all", "argmin", "argmax", "count_nonzero", "nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd", "nanargmin", "nanargmax", "cumsum", "cumprod", "nancumsum", "diff", "trapezoid", "nonzero"]


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(_axis(a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def _axis(axis: Any, ndim: int) -> int:
    a = operator.index(axis)
    if not -ndim <= a < ndim:
        raise np.exceptions.AxisError(a, ndim)
    return a % ndim


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[View, tuple[int, ...]]:
    """The view through which a task over ``shape`` reduces along ``axes``, and the shape of its store."""
    kept = [d for d in range(len(shape)) if d not in axes]
    return View(shape, tuple(Axis(d) for d in kept)), tuple(shape[d] for d in kept)


def _reduce(
    op: str, reduction: str, inputs: list[ndarray], axes: tuple[int, ...], dtype: np.dtype, **params: Any
) -> ndarray:
    shape = inputs[0].shape
    view, kept = _kept(shape, axes)
    made = core.empty(kept, dtype)
    sources = [(x.store, x.view.broadcast(shape)) for x in inputs]
    recording.record(op, shape, sources, (made.store, view), reduction=reduction, **params)
    return made


def _finish(value: ndarray, axes: tuple[int, ...], keepdims: bool, out: Any, initial: Any = None, op: str = "") -> ndarray:
    if initial is not None:
        value = core.ufunc(op, value, initial, dtype=value.dtype)
    if keepdims:
        for a in sorted(axes):
            value = ndarray(value.store, value.view.expanded(a))
    if out is not None:
        if out.shape != value.shape:
            raise ValueError(f"output parameter has the wrong shape {out.shape} for a result of shape {value.shape}")
        out[...] = value
        return out
    return value


def _masked(a: ndarray, where: Any, neutral: Any) -> ndarray:
    return a if where is True else select(where, a, a.dtype.type(neutral))


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy adds and multiplies by default."""
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < 8):
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> ndarray:
    """The sum of the elements along ``axis`` (an integer, a tuple, or None for all); small integers in 64 bits."""
    a = core.as_array(a)
    axes = _axes(axis, a.ndim)
    result = _wide(a.dtype) if dtype is None else np.dtype(dtype)
    return _finish(_reduce("sum", "sum", [_masked(a, where, 0)], axes, result), axes, keepdims, out, initial, "add")


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> ndarray:
    """The product of the elements along ``axis``."""
    a = core.as_array(a)
    axes = _axes(axis, a.ndim)
    result = _wide(a.dtype) if dtype is None else np.dtype(dtype)
    return _finish(_reduce("prod", "prod", [_masked(a, where, 1)], axes, result), axes, keepdims, out, initial, "multiply")


def _extreme(op: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any) -> ndarray:
    a = core.as_array(a)
    axes = _axes(axis, a.ndim)
    name = {"max": "maximum", "min": "minimum"}[op]
    if initial is None and any_zero(a.shape, axes):
        raise ValueError(
            f"zero-size array to reduction operation {name} which has no identity ({recording.user_line()})"
        )
    if where is not True:
        if initial is None:
            raise ValueError(f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify 'initial'")
        a = select(where, a, a.dtype.type(initial))
    return _finish(_reduce(op, op, [a], axes, a.dtype), axes, keepdims, out, initial, name)


def max(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> ndarray:
    """The largest element along ``axis``; NaN where there is one.  Raises ValueError for no elements."""
    return _extreme("max", a, axis, out, keepdims, initial, where)


def min(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True) -> ndarray:
    """The smallest element along ``axis``; NaN where there is one.  Raises ValueError for no elements."""
    return _extreme("min", a, axis, out, keepdims, initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The largest less the smallest element."""
    return _finish(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), (), False, out)


def _truth(a: Any) -> ndarray:
    a = core.as_array(a)
    return a if a.dtype.kind == "b" else a != a.dtype.type(0)


def any(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> ndarray:
    """Whether an element along ``axis`` is true."""
    a = _masked(_truth(a), where, False)
    axes = _axes(axis, a.ndim)
    return _finish(_reduce("max", "max", [a], axes, a.dtype), axes, keepdims, out)


def all(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> ndarray:
    """Whether all elements along ``axis`` are true."""
    a = _masked(_truth(a), where, True)
    axes = _axes(axis, a.ndim)
    return _finish(_reduce("min", "min", [a], axes, a.dtype), axes, keepdims, out)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> ndarray:
    """How many elements along ``axis`` are not 0."""
    return sum(_truth(a), axis, np.int64, keepdims=keepdims)


def _arg(op: str, a: Any, axis: Any, out: Any, keepdims: bool) -> ndarray:
    a = core.as_array(a)
    axes = _axes(axis, a.ndim)
    if any_zero(a.shape, axes):
        raise ValueError(f"attempt to get arg{op} of an empty sequence ({recording.user_line()})")
    extreme = _reduce(op, op, [a], axes, a.dtype)
    for d in sorted(axes):
        extreme = ndarray(extreme.store, extreme.view.expanded(d))
    params = {} if axis is None else {"axis": axes[0]}
    return _finish(_reduce("arg_index", "min", [a, extreme], axes, np.dtype(np.int64), **params), axes, keepdims, out)


def any_zero(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether there is nothing along one of the axes."""
    return 0 in [shape[d] for d in axes]


def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the first largest element, along ``axis`` or in the flattened array."""
    return _arg("max", a, axis, out, keepdims)


def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the first smallest element, along ``axis`` or in the flattened array."""
    return _arg("min", a, axis, out, keepdims)


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


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> ndarray:
    """The mean along ``axis``; integers in float64."""
    a = core.as_array(a)
    axes = _axes(axis, a.ndim)
    work, result = _mean_dtype(a, dtype)
    total = sum(a, axis, work, keepdims=keepdims, where=where)
    if where is True:
        value = total / _as_real(_count(a.shape, axes), work)
    else:
        value = total / count_nonzero(_masked(_full_like(a, where), True, 0), axis, keepdims=keepdims)
    return _finish(value.astype(result, copy=False), (), False, out)


def _as_real(count: int, work: np.dtype) -> Any:
    return np.zeros(0, work).real.dtype.type(count)


def _full_like(a: ndarray, where: Any) -> ndarray:
    return core.as_array(where).broadcast_to(a.shape)


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, *, where: Any = True
) -> ndarray:
    """The variance along ``axis``: the mean square distance from the mean, with divisor ``n - ddof``."""
    a = core.as_array(a)
    axes = _axes(axis, a.ndim)
    work, result = _mean_dtype(a, dtype)
    distance = (a if a.dtype == work else a.astype(work)) - mean(a, axis, work, keepdims=True, where=where)
    square = (distance * core.ufunc("conjugate", distance)).real if work.kind == "c" else distance * distance
    total = sum(square, axis, keepdims=keepdims, where=where)
    if where is True:
        value = total / _as_real(np.maximum(_count(a.shape, axes) - ddof, 0), work)
    else:
        value = total / core.ufunc("maximum", count_nonzero(_full_like(a, where), axis, keepdims=keepdims) - ddof, 0)
    result = np.zeros(0, result).real.dtype
    return _finish(value.astype(result, copy=False), (), False, out)


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False, *, where: Any = True
) -> ndarray:
    """The standard deviation along ``axis``."""
    return _finish(core.ufunc("sqrt", var(a, axis, dtype, None, ddof, keepdims, where=where)), (), False, out)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The weighted mean along ``axis``."""
    a = core.as_array(a)
    if weights is None:
        value = mean(a, axis, keepdims=keepdims)
        total = core.as_array(float(a.size // value.size if value.size else 0)).broadcast_to(value.shape)
    else:
        weights = core.as_array(weights)
        if weights.shape != a.shape:
            if weights.ndim != 1 or axis is None or a.shape[_axis(axis, a.ndim)] != weights.shape[0]:
                raise TypeError("weights must have the shape of `a`, or be 1-D and fit `axis`")
            key: list[Any] = [np.newaxis] * a.ndim
            key[_axis(axis, a.ndim)] = slice(None)
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
        return _extreme(op, a, axis, out, keepdims, None, True)
    value = _extreme(op, _without_nan(a, -np.inf if op == "max" else np.inf), axis, None, keepdims, None, True)
    nothing = all(core.ufunc("isnan", a), axis, keepdims=keepdims)
    return _finish(select(nothing, a.dtype.type(np.nan), value), (), False, out)


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
    return _finish(value.astype(total.dtype, copy=False), (), False, out)


def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False) -> ndarray:
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
    return _finish(select(count > 0, value, value.dtype.type(np.nan)), (), False, out)


def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False) -> ndarray:
    """The standard deviation of what is a number."""
    return _finish(core.ufunc("sqrt", nanvar(a, axis, dtype, None, ddof, keepdims)), (), False, out)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the largest number (0 where there is none, where NumPy raises)."""
    return argmax(_without_nan(a, -np.inf), axis, out, keepdims=keepdims)


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the smallest number (0 where there is none, where NumPy raises)."""
    return argmin(_without_nan(a, np.inf), axis, out, keepdims=keepdims)


# --- along an axis -------------------------------------------------------------------------------


def _scan(op: str, a: Any, axis: Any, dtype: Any, out: Any) -> ndarray:
    a = core.as_array(a)
    if axis is None:
        a, axis = a.ravel(), 0  # type: ignore[attr-defined]
    axis = _axis(axis, a.ndim)
    made = core.empty(a.shape, _wide(a.dtype) if dtype is None else np.dtype(dtype))
    core.write(op, [a], made, axis=axis, scan=axis, operator=op.removeprefix("cum"))
    return _finish(made, (), False, out)


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running sums along ``axis``, or of the flattened array."""
    return _scan("cumsum", a, axis, dtype, out)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running products along ``axis``, or of the flattened array."""
    return _scan("cumprod", a, axis, dtype, out)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running sums, NaN as 0."""
    return cumsum(_without_nan(a, 0), axis, dtype, out)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> ndarray:
    """Differences of neighbours along ``axis``, ``n`` times."""
    a = core.as_array(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = _axis(axis, a.ndim)
    if prepend is not None or append is not None:
        from .manipulation import concatenate

        a = concatenate([_edge(p, a, axis) for p in (prepend, a, append) if p is not None], axis)
    before = (slice(None),) * axis
    for _ in range(n):
        high, low = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = high != low if a.dtype.kind == "b" else high - low
    return a


def _edge(p: Any, a: ndarray, axis: int) -> ndarray:
    p = core.as_array(p)
    return p.broadcast_to(tuple(1 if d == axis else m for d, m in enumerate(a.shape))) if p.ndim == 0 else p


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> ndarray:
    """The integral of ``y`` along ``axis`` by the trapezoidal rule."""
    y = core.as_array(y)
    axis = _axis(axis, y.ndim)
    if x is not None:
        x = core.as_array(x)
        dx = diff(x, axis=axis if x.ndim > 1 else 0)
        if dx.ndim == 1:  # type: ignore[attr-defined]
            dx = dx[tuple(slice(None) if d == axis else np.newaxis for d in range(y.ndim))]  # type: ignore[index]
    before = (slice(None),) * axis
    return sum(dx * (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) / 2.0, axis)


def nonzero(a: Any) -> tuple[ndarray, ...]:
    """The indices of the elements that are not 0, an array for each axis; not within ``jit``."""
    from . import indexing

    return tuple(indexing.nonzero(_truth(a)))
