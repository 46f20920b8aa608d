"""Reductions, running sums, and the statistics made of them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import recording
from ..ir import View
from ..ir.view import Axis
from . import core
from .array import ndarray
from .elementwise import where as select

__all__ = [
    "sum",
    "prod",
    "min",
    "max",
    "amin",
    "amax",
    "ptp",
    "any",
    "all",
    "argmin",
    "argmax",
    "count_nonzero",
    "cumsum",
    "cumprod",
    "nonzero",
]


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_of(a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError("duplicate value in 'axis'")
    return axes


def axis_of(axis: Any, ndim: int) -> int:
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


def finish(
    value: ndarray, axes: tuple[int, ...], keepdims: bool, out: Any, initial: Any = None, op: str = ""
) -> ndarray:
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


def masked(a: ndarray, where: Any, neutral: Any) -> ndarray:
    return a if where is True else select(where, a, a.dtype.type(neutral))


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy adds and multiplies by default."""
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.itemsize < 8):
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> ndarray:
    """The sum of the elements along ``axis`` (an integer, a tuple, or None for all); small integers in 64 bits."""
    a = core.as_array(a)
    axes = axes_of(axis, a.ndim)
    result = _wide(a.dtype) if dtype is None else np.dtype(dtype)
    return finish(_reduce("sum", "sum", [masked(a, where, 0)], axes, result), axes, keepdims, out, initial, "add")


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> ndarray:
    """The product of the elements along ``axis``."""
    a = core.as_array(a)
    axes = axes_of(axis, a.ndim)
    result = _wide(a.dtype) if dtype is None else np.dtype(dtype)
    return finish(
        _reduce("prod", "prod", [masked(a, where, 1)], axes, result), axes, keepdims, out, initial, "multiply"
    )


def extreme(op: str, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any) -> ndarray:
    a = core.as_array(a)
    axes = axes_of(axis, a.ndim)
    name = {"max": "maximum", "min": "minimum"}[op]
    if initial is None and any_zero(a.shape, axes):
        raise ValueError(
            f"zero-size array to reduction operation {name} which has no identity ({recording.user_line()})"
        )
    if where is not True:
        if initial is None:
            raise ValueError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask one has to specify "
                "'initial'"
            )
        a = select(where, a, a.dtype.type(initial))
    return finish(_reduce(op, op, [a], axes, a.dtype), axes, keepdims, out, initial, name)


def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> ndarray:
    """The largest element along ``axis``; NaN where there is one.  Raises ValueError for no elements."""
    return extreme("max", a, axis, out, keepdims, initial, where)


def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> ndarray:
    """The smallest element along ``axis``; NaN where there is one.  Raises ValueError for no elements."""
    return extreme("min", a, axis, out, keepdims, initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
    """The largest less the smallest element."""
    return finish(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), (), False, out)


def _truth(a: Any) -> ndarray:
    a = core.as_array(a)
    return a if a.dtype.kind == "b" else a != a.dtype.type(0)


def any(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> ndarray:
    """Whether an element along ``axis`` is true."""
    a = masked(_truth(a), where, False)
    axes = axes_of(axis, a.ndim)
    return finish(_reduce("max", "max", [a], axes, a.dtype), axes, keepdims, out)


def all(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> ndarray:
    """Whether all elements along ``axis`` are true."""
    a = masked(_truth(a), where, True)
    axes = axes_of(axis, a.ndim)
    return finish(_reduce("min", "min", [a], axes, a.dtype), axes, keepdims, out)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> ndarray:
    """How many elements along ``axis`` are not 0."""
    return sum(_truth(a), axis, np.int64, keepdims=keepdims)


def _arg(op: str, a: Any, axis: Any, out: Any, keepdims: bool) -> ndarray:
    a = core.as_array(a)
    axes = axes_of(axis, a.ndim)
    if any_zero(a.shape, axes):
        raise ValueError(f"attempt to get arg{op} of an empty sequence ({recording.user_line()})")
    extreme = _reduce(op, op, [a], axes, a.dtype)
    for d in sorted(axes):
        extreme = ndarray(extreme.store, extreme.view.expanded(d))
    params = {} if axis is None else {"axis": axes[0]}
    return finish(_reduce("arg_index", "min", [a, extreme], axes, np.dtype(np.int64), **params), axes, keepdims, out)


def any_zero(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether there is nothing along one of the axes."""
    return 0 in [shape[d] for d in axes]


def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the first largest element, along ``axis`` or in the flattened array."""
    return _arg("max", a, axis, out, keepdims)


def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> ndarray:
    """The index of the first smallest element, along ``axis`` or in the flattened array."""
    return _arg("min", a, axis, out, keepdims)


# --- along an axis -------------------------------------------------------------------------------


def _scan(op: str, a: Any, axis: Any, dtype: Any, out: Any) -> ndarray:
    a = core.as_array(a)
    if axis is None:
        a, axis = a.ravel(), 0  # type: ignore[attr-defined]
    axis = axis_of(axis, a.ndim)
    made = core.empty(a.shape, _wide(a.dtype) if dtype is None else np.dtype(dtype))
    core.write(op, [a], made, axis=axis, scan=axis, operator=op.removeprefix("cum"))
    return finish(made, (), False, out)


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running sums along ``axis``, or of the flattened array."""
    return _scan("cumsum", a, axis, dtype, out)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    """Running products along ``axis``, or of the flattened array."""
    return _scan("cumprod", a, axis, dtype, out)


def nonzero(a: Any) -> tuple[ndarray, ...]:
    """The indices of the elements that are not 0, an array for each axis; not within ``jit``."""
    from . import indexing

    return tuple(indexing.nonzero(_truth(a)))
