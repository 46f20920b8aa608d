"""Making arrays: from values, constants, ranges and functions.  Only host data is ever held whole by a rank."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import recording
from . import core
from .array import ndarray

__all__ = [
    "array",
    "asarray",
    "asanyarray",
    "ascontiguousarray",
    "copy",
    "zeros",
    "ones",
    "full",
    "empty",
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "arange",
    "linspace",
    "logspace",
    "geomspace",
    "eye",
    "identity",
    "diag",
    "tri",
    "tril",
    "triu",
    "meshgrid",
    "indices",
    "fromfunction",
]


def array(object: Any, dtype: Any = None, *, copy: bool = True, ndmin: int = 0, **_: Any) -> ndarray:
    """A new array with the elements of numbers, nested sequences or arrays; every rank gives the same."""
    made = core.as_array(object, dtype)
    if made is object and copy:
        made = made.copy()
    while made.ndim < ndmin:
        made = made[np.newaxis]
    return made


def asarray(a: Any, dtype: Any = None, **_: Any) -> ndarray:
    """The array itself, or a new one with the elements of a NumPy array or a sequence."""
    return core.as_array(a, dtype)


asanyarray = asarray


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """As `asarray`; the layout in memory is this package's business."""
    return core.as_array(a, dtype)


def copy(a: Any, order: str = "K") -> ndarray:
    """A copy with elements of its own."""
    return core.as_array(a).copy()


def _shape(shape: Any) -> tuple[int, ...]:
    sizes: tuple[int, ...]
    try:
        sizes = (operator.index(shape),)
    except TypeError:
        sizes = tuple(operator.index(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"negative dimensions are not allowed ({recording.user_line()})")
    return sizes


def _dtype(dtype: Any) -> np.dtype:
    made = np.dtype(dtype)
    if made.kind not in "biufc" or made.itemsize > 16:
        raise TypeError(f"{recording.user_line()}: arrays of {made} are not supported; use numbers or booleans")
    return made


def full(shape: Any, fill_value: Any, dtype: Any = None) -> ndarray:
    """An array of ``shape`` with every element ``fill_value`` (a scalar, or what broadcasts to it)."""
    value = core.operand(fill_value)
    if dtype is None:
        dtype = value.dtype if not isinstance(value, int | float | complex) else np.asarray(value).dtype
    made = core.empty(_shape(shape), _dtype(dtype))
    made.assign(value)
    return made


def zeros(shape: Any, dtype: Any = float, **_: Any) -> ndarray:
    """An array of zeros."""
    return full(shape, np.dtype(dtype).type(0), dtype)


def ones(shape: Any, dtype: Any = float, **_: Any) -> ndarray:
    """An array of ones."""
    return full(shape, np.dtype(dtype).type(1), dtype)


def empty(shape: Any, dtype: Any = float, **_: Any) -> ndarray:
    """An array with unspecified elements."""
    return core.empty(_shape(shape), _dtype(dtype))


def _like(a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], np.dtype]:
    a = a if isinstance(a, ndarray) else np.asarray(a)
    return (a.shape if shape is None else _shape(shape)), np.dtype(a.dtype if dtype is None else dtype)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> ndarray:
    """Zeros in the shape and dtype of ``a``."""
    return zeros(*_like(a, dtype, shape))


def ones_like(a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> ndarray:
    """Ones in the shape and dtype of ``a``."""
    return ones(*_like(a, dtype, shape))


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, **_: Any) -> ndarray:
    """``fill_value`` in the shape and dtype of ``a``."""
    shape, dtype = _like(a, dtype, shape)
    return full(shape, fill_value, dtype)


def empty_like(a: Any, dtype: Any = None, shape: Any = None, **_: Any) -> ndarray:
    """Unspecified elements in the shape and dtype of ``a``."""
    return empty(*_like(a, dtype, shape))


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> ndarray:
    """``start, start + step, ...`` below ``stop``; from 0 with one argument."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    start, stop, step = (v.item() if isinstance(v, ndarray) else v for v in (start, stop, step))
    if step == 0:
        raise ZeroDivisionError("division by zero")
    if dtype is None:
        dtype = np.result_type(*(np.asarray(v).dtype for v in (start, stop, step)))
        if dtype.kind == "b":
            dtype = np.dtype(np.int64)
    dtype = _dtype(dtype)
    length = max(0, math.ceil((stop - start) / step))
    made = core.empty((length,), dtype)
    core.write("iota", [np.asarray(start)[()], np.asarray(step)[()]], made, axis=0)
    return made


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (which is one of them unless ``endpoint`` is False)."""
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = core.operand(start), core.operand(stop)
    result = np.result_type(
        *(np.asarray(v).dtype if not isinstance(v, ndarray) else v.dtype for v in (start, stop)), 0.0
    )
    shape = core.common_shape(core.shape_of(start), core.shape_of(stop))
    made = core.empty((num, *shape), _dtype(result if dtype is None else dtype))
    inputs = [v if isinstance(v, ndarray) else result.type(v) for v in (start, stop)]
    core.write("linspace", inputs, made, axis=0, endpoint=bool(endpoint), count=num, loop=(result.name,))
    if axis:
        from .manipulation import moveaxis

        made = moveaxis(made, 0, axis)
    step = (stop - start) / (num - 1 if endpoint else num) if num > int(endpoint) else np.nan
    return (made, step) if retstep else made


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None
) -> ndarray:
    """``base`` to the power of evenly spaced numbers."""
    made = core.ufunc("power", base, linspace(start, stop, num, endpoint))
    return made if dtype is None else made.astype(dtype)


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = None) -> ndarray:
    """Numbers with equal ratios from ``start`` to ``stop``; both positive or both negative."""
    if start == 0 or stop == 0:
        raise ValueError("Geometric sequence cannot include zero")
    sign = -1.0 if start < 0 and stop < 0 else 1.0
    made = sign * logspace(math.log10(sign * start), math.log10(sign * stop), num, endpoint)
    if num:
        made[0] = start
        if endpoint and num > 1:
            made[-1] = stop
    return made if dtype is None else made.astype(dtype)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, **_: Any) -> ndarray:
    """Ones on the ``k``-th diagonal, zeros elsewhere."""
    made = core.empty((operator.index(N), operator.index(N if M is None else M)), _dtype(dtype))
    core.write("eye", [], made, k=operator.index(k))
    return made


def identity(n: int, dtype: Any = None) -> ndarray:
    """The identity matrix."""
    return eye(n, dtype=float if dtype is None else dtype)


def diag(v: Any, k: int = 0) -> ndarray:
    """The ``k``-th diagonal of a matrix (a copy), or the matrix with ``v`` on it."""
    v = core.as_array(v)
    if v.ndim == 1:
        n = v.shape[0] + abs(k)
        square = eye(n, k=k, dtype=bool)
        padded = zeros(n, v.dtype)
        padded[max(k, 0) : max(k, 0) + v.shape[0]] = v
        return core.apply("where", [square, padded, v.dtype.type(0)], v.dtype)
    if v.ndim != 2:
        raise ValueError("Input must be 1- or 2-d.")
    from .linalg import diagonal

    return diagonal(v, k).copy()


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> ndarray:
    """Ones at and below the ``k``-th diagonal."""
    rows, columns = arange(N)[:, np.newaxis], arange(N if M is None else M)
    return (columns <= rows + k).astype(dtype)


def tril(m: Any, k: int = 0) -> ndarray:
    """The elements at and below the ``k``-th diagonal, zeros above."""
    m = core.as_array(m)
    return core.apply("where", [tri(m.shape[-2], m.shape[-1], k, bool), m, m.dtype.type(0)], m.dtype)


def triu(m: Any, k: int = 0) -> ndarray:
    """The elements at and above the ``k``-th diagonal, zeros below."""
    m = core.as_array(m)
    return core.apply("where", [tri(m.shape[-2], m.shape[-1], k - 1, bool), m.dtype.type(0), m], m.dtype)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[ndarray, ...]:
    """Coordinate arrays of a grid from coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [core.as_array(x).ravel() if not isinstance(x, ndarray) or x.ndim != 1 else x for x in xi]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    shape = [0] * len(vectors)
    for n, axis in enumerate(order):
        shape[axis] = vectors[n].shape[0]
    grids = []
    for n, axis in enumerate(order):
        key: list[Any] = [np.newaxis] * len(vectors)
        key[axis] = slice(None)
        grid = vectors[n][tuple(key)]
        if not sparse:
            grid = grid.broadcast_to(tuple(shape))
        grids.append(grid.copy() if copy else grid)
    return tuple(grids)


def indices(dimensions: Sequence[int], dtype: Any = int, sparse: bool = False) -> Any:
    """The indices of a grid, an array for each axis."""
    shape = _shape(dimensions)
    axes = []
    for axis in range(len(shape)):
        made = core.empty(
            shape if not sparse else tuple(n if d == axis else 1 for d, n in enumerate(shape)), _dtype(dtype)
        )
        core.write("iota", [0, 1], made, axis=axis)
        axes.append(made)
    if sparse:
        return tuple(axes)
    from .joining import stack

    return stack(axes) if axes else empty((0,), dtype)


def fromfunction(function: Callable[..., Any], shape: Sequence[int], *, dtype: Any = float, **kwargs: Any) -> Any:
    """``function`` of the index arrays of ``shape``."""
    sizes = _shape(shape)
    axes = []
    for axis in range(len(sizes)):
        made = core.empty(sizes, _dtype(dtype))
        core.write("iota", [0, 1], made, axis=axis)
        axes.append(made)
    return function(*axes, **kwargs)
