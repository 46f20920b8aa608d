"""Shapes: views with other axes, and arrays joined, repeated, shifted and padded."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import recording
from ..errors import NotSupportedError
from . import core, indexing
from .array import ndarray

__all__ = [
    "transpose",
    "permute_dims",
    "swapaxes",
    "moveaxis",
    "reshape",
    "ravel",
    "squeeze",
    "expand_dims",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "flip",
    "fliplr",
    "flipud",
    "rot90",
    "broadcast_to",
    "broadcast_arrays",
    "copyto",
    "take",
]


def axis_of(axis: Any, ndim: int) -> int:
    """The axis counted from the front.  Raises AxisError, as NumPy does."""
    a = operator.index(axis)
    if not -ndim <= a < ndim:
        raise np.exceptions.AxisError(a, ndim)
    return a % ndim


def _view(a: ndarray, view: Any) -> ndarray:
    return a._view(view)


def transpose(a: Any, axes: Any = None) -> ndarray:
    """The view with the axes in another order, by default reversed."""
    a = core.as_array(a)
    if axes is None:
        return a.T
    order = tuple(axis_of(x, a.ndim) for x in axes)
    if sorted(order) != list(range(a.ndim)):
        raise ValueError("axes don't match array")
    return _view(a, a.view.transposed(order))


permute_dims = transpose


def swapaxes(a: Any, axis1: int, axis2: int) -> ndarray:
    """The view with two axes exchanged."""
    a = core.as_array(a)
    order = list(range(a.ndim))
    i, j = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order[i], order[j] = j, i
    return transpose(a, order)


def moveaxis(a: Any, source: Any, destination: Any) -> ndarray:
    """The view with axes moved to other places."""
    a = core.as_array(a)
    sources = [axis_of(s, a.ndim) for s in (source if isinstance(source, Sequence) else [source])]
    targets = [axis_of(d, a.ndim) for d in (destination if isinstance(destination, Sequence) else [destination])]
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [d for d in range(a.ndim) if d not in sources]
    for target, s in sorted(zip(targets, sources, strict=True)):
        order.insert(target, s)
    return transpose(a, order)


def _whole_shape(shape: Any, size: int) -> tuple[int, ...]:
    """A shape with its -1 replaced.  Raises ValueError where it does not fit."""
    try:
        sizes = [operator.index(shape)]
    except TypeError:
        sizes = [operator.index(n) for n in shape]
    if sizes.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    rest = math.prod(n for n in sizes if n != -1)
    if -1 in sizes and rest and size % rest == 0:
        sizes[sizes.index(-1)] = size // rest
    if math.prod(sizes) != size or -1 in sizes:
        raise ValueError(f"cannot reshape array of size {size} into shape {tuple(sizes)} ({recording.user_line()})")
    return tuple(sizes)


#: Elements of the smaller part of an axis up to which a reshape is recorded as strided copies.
_FEW = 32


def reshape(a: Any, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> ndarray:
    """The elements, in row-major order, in another shape.

    Where only axes of one element come or go this is a view, as in NumPy.  Otherwise NumPy gives a view of the same
    elements and this a copy that cannot be written to, so that code which relies on the view fails instead of going
    wrong; ``.copy()`` of it can be written to.
    """
    if order not in ("C", "A", "K"):
        raise NotSupportedError("reshape in Fortran order is not supported; transpose before and after")
    a = core.as_array(a)
    sizes = _whole_shape(shape, a.size)
    if [n for n in sizes if n != 1] == [n for n in a.shape if n != 1] and a.size:
        view = a.view
        for d in reversed(range(a.ndim)):
            if view.shape[d] == 1:
                view = view.fixed(d, 0)
        for d, n in enumerate(sizes):
            if n == 1:
                view = view.expanded(d)
        made = _view(a, view)
        return made.copy() if copy else made
    if not a.size:
        return core.empty(sizes, a.dtype)
    strided = _by_strides(a, sizes) if recording.tracing() or a.size <= _FEW else None
    made = indexing.reshaped(a, sizes) if strided is None else strided
    if not copy:
        made._readonly = (
            "a reshape that merges or splits axes is a copy here, where NumPy's is a view; use x.reshape(...).copy()"
        )
    return made


def _by_strides(a: ndarray, sizes: tuple[int, ...]) -> ndarray | None:
    """A reshape as strided copies: one axis split or merged at a time, over the smaller of its parts."""
    flat: ndarray | None = a
    with recording.one_operation():
        while flat is not None and flat.ndim > 1:
            flat = _merge(flat)
        for d in range(len(sizes) - 1):
            flat = _split(flat, d, sizes[d]) if flat is not None else None
    return flat


def _merge(a: ndarray) -> ndarray | None:
    """The last two axes as one."""
    rows, columns = a.shape[-2:]
    if min(rows, columns) > _FEW:
        return None
    made = core.empty((*a.shape[:-2], rows * columns), a.dtype)
    if columns <= rows:
        for j in range(columns):
            made[..., j::columns] = a[..., j]
    else:
        for i in range(rows):
            made[..., i * columns : (i + 1) * columns] = a[..., i, :]
    return made


def _split(a: ndarray, axis: int, rows: int) -> ndarray | None:
    """The last axis as two, the first of them of ``rows``."""
    columns = a.shape[-1] // rows
    if min(rows, columns) > _FEW:
        return None
    made = core.empty((*a.shape[:-1], rows, columns), a.dtype)
    if columns <= rows:
        for j in range(columns):
            made[..., j] = a[..., j::columns]
    else:
        for i in range(rows):
            made[..., i, :] = a[..., i * columns : (i + 1) * columns]
    return made


def ravel(a: Any, order: str = "C") -> ndarray:
    """One dimension, in row-major order; see `reshape` for when it is a view."""
    a = core.as_array(a)
    return a if a.ndim == 1 else reshape(a, (-1,) if a.size else (0,), order)


def squeeze(a: Any, axis: Any = None) -> ndarray:
    """The view without axes of one element."""
    a = core.as_array(a)
    if axis is None:
        axes = [d for d, n in enumerate(a.shape) if n == 1]
    else:
        axes = [axis_of(x, a.ndim) for x in (axis if isinstance(axis, tuple) else (axis,))]
        if any(a.shape[d] != 1 for d in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    view = a.view
    for d in sorted(axes, reverse=True):
        view = view.fixed(d, 0)
    return _view(a, view)


def expand_dims(a: Any, axis: Any) -> ndarray:
    """The view with new axes of one element at these places of the result."""
    a = core.as_array(a)
    given = axis if isinstance(axis, tuple) else (axis,)
    view = a.view
    for d in sorted(axis_of(x, a.ndim + len(given)) for x in given):
        view = view.expanded(d)
    return _view(a, view)


def _atleast(ndim: int, arrays: tuple[Any, ...]) -> Any:
    made = []
    for x in arrays:
        a = core.as_array(x)
        if ndim == 3 and a.ndim == 2:
            a = a[:, :, np.newaxis]
        if ndim == 3 and a.ndim == 1:
            a = a[np.newaxis, :, np.newaxis]
        while a.ndim < ndim:
            a = a[np.newaxis]
        made.append(a)
    return made[0] if len(made) == 1 else tuple(made)


def atleast_1d(*arys: Any) -> Any:
    """Views with one axis at least."""
    return _atleast(1, arys)


def atleast_2d(*arys: Any) -> Any:
    """Views with two axes at least."""
    return _atleast(2, arys)


def atleast_3d(*arys: Any) -> Any:
    """Views with three axes at least."""
    return _atleast(3, arys)


def flip(m: Any, axis: Any = None) -> ndarray:
    """The view with the order along axes (all by default) reversed."""
    m = core.as_array(m)
    axes = (
        range(m.ndim) if axis is None else [axis_of(a, m.ndim) for a in (axis if isinstance(axis, tuple) else (axis,))]
    )
    return m[tuple(slice(None, None, -1) if d in axes else slice(None) for d in range(m.ndim))]


def fliplr(m: Any) -> ndarray:
    """The view with axis 1 reversed."""
    return flip(m, 1)


def flipud(m: Any) -> ndarray:
    """The view with axis 0 reversed."""
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> ndarray:
    """The view turned by 90 degrees ``k`` times in the plane of two axes."""
    m = core.as_array(m)
    first, second = (axis_of(a, m.ndim) for a in axes)
    k %= 4
    if k == 2:
        return flip(m, (first, second))
    if k == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second) if k == 3 else m


def broadcast_to(array: Any, shape: Any) -> ndarray:
    """The view that repeats the elements to ``shape``; it cannot be written to."""
    a = core.as_array(array)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        made = _view(a, a.view.broadcast(sizes))
    except ValueError:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {a.shape} and "
            f"requested shape {sizes} ({recording.user_line()})"
        ) from None
    made._readonly = "it is a broadcast view, several elements of which are one"
    return made


def broadcast_arrays(*args: Any) -> tuple[ndarray, ...]:
    """Views of the arrays in their common shape."""
    arrays = [core.as_array(a) for a in args]
    shape = core.common_shape(*(a.shape for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Assign ``src`` to ``dst``, where ``where`` is True."""
    source = core.operand(src)
    kind = source.dtype if isinstance(source, ndarray | np.generic) else np.result_type(dst.dtype, source)
    if not np.can_cast(kind, dst.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {kind!r} to {dst.dtype!r} according to the rule {casting!r}")
    if where is True:
        dst[...] = src
    else:
        core.apply("copy", [source], dst.dtype, out=dst, where=where)


def take(a: Any, indices: Any, axis: int | None = None) -> ndarray:
    """Elements by index along ``axis``, or of the flattened array."""
    a = core.as_array(a)
    if axis is None:
        a, axis = ravel(a), 0
    return a[
        (slice(None),) * axis_of(axis, a.ndim) + (indices if isinstance(indices, ndarray) else np.asarray(indices),)
    ]
