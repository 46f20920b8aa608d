"""Arrays joined, split, shifted, repeated and padded: new arrays, written part by part."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import recording
from ..errors import NotSupportedError
from . import core
from .array import ndarray
from .manipulation import atleast_1d, atleast_2d, atleast_3d, axis_of, expand_dims, ravel, reshape

__all__ = [
    "roll",
    "concatenate",
    "concat",
    "stack",
    "vstack",
    "hstack",
    "dstack",
    "column_stack",
    "split",
    "array_split",
    "hsplit",
    "vsplit",
    "tile",
    "repeat",
    "pad",
    "append",
]


def _joined_dtype(arrays: Sequence[ndarray], dtype: Any) -> np.dtype:
    return np.dtype(dtype) if dtype is not None else np.result_type(*[a.dtype for a in arrays])


def concatenate(arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None) -> ndarray:
    """The arrays one after the other along ``axis``; flattened first where it is None."""
    parts = [core.as_array(a) for a in arrays]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts, axis = [ravel(a) for a in parts], 0
    if any(a.ndim == 0 for a in parts):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = axis_of(axis, parts[0].ndim)
    shape = list(parts[0].shape)
    for n, a in enumerate(parts[1:], 1):
        if a.ndim != len(shape):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but along "
                f"dimension 0, the array at index 0 has {len(shape)} dimension(s) and the array at index {n} has "
                f"{a.ndim} dimension(s) ({recording.user_line()})"
            )
        for d in range(a.ndim):
            if d != axis and a.shape[d] != shape[d]:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {d}, the array at index 0 has size {shape[d]} and the array at index {n} has size "
                    f"{a.shape[d]} ({recording.user_line()})"
                )
    shape[axis] = sum(a.shape[axis] for a in parts)
    made = core.empty(tuple(shape), _joined_dtype(parts, dtype)) if out is None else out
    start = 0
    with recording.one_operation():
        for a in parts:
            made[(slice(None),) * axis + (slice(start, start + a.shape[axis]),)] = a
            start += a.shape[axis]
    return made


concat = concatenate


def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None) -> ndarray:
    """The arrays along a new axis."""
    parts = [core.as_array(a) for a in arrays]
    if not parts:
        raise ValueError("need at least one array to stack")
    if any(a.shape != parts[0].shape for a in parts):
        raise ValueError(f"all input arrays must have the same shape ({recording.user_line()})")
    axis = axis_of(axis, parts[0].ndim + 1)
    return concatenate([expand_dims(a, axis) for a in parts], axis, out, dtype=dtype)


def vstack(tup: Any, *, dtype: Any = None) -> ndarray:
    """The arrays below each other."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


def hstack(tup: Any, *, dtype: Any = None) -> ndarray:
    """The arrays beside each other."""
    parts = [atleast_1d(a) for a in tup]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: Any) -> ndarray:
    """The arrays along a third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2)


def column_stack(tup: Any) -> ndarray:
    """Vectors as columns, beside matrices."""
    parts = [core.as_array(a) for a in tup]
    return concatenate([a[:, np.newaxis] if a.ndim == 1 else a for a in parts], 1)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    """Views of parts along ``axis``: so many nearly equal ones, or between indices."""
    ary = core.as_array(ary)
    axis = axis_of(axis, ary.ndim)
    n = ary.shape[axis]
    try:
        sections = operator.index(indices_or_sections)
    except TypeError:
        bounds = [0, *indices_or_sections, n]
    else:
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, extra = divmod(n, sections)
        bounds = [0]
        for k in range(sections):
            bounds.append(bounds[-1] + each + (k < extra))
    before = (slice(None),) * axis
    return [ary[(*before, slice(low, high))] for low, high in zip(bounds, bounds[1:], strict=False)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    """As `array_split`, for equal parts."""
    ary = core.as_array(ary)
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[ndarray]:
    """Split into columns."""
    ary = core.as_array(ary)
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[ndarray]:
    """Split into rows."""
    return split(ary, indices_or_sections, 0)


def roll(a: Any, shift: Any, axis: Any = None) -> ndarray:
    """The elements moved along axes, those beyond the end coming back at the start; flattened where axis is None."""
    a = core.as_array(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape) if a.ndim != 1 else roll(a, shift, 0)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        shifts = shifts * len(axes) if len(shifts) == 1 else shifts
        axes = axes * len(shifts) if len(axes) == 1 else axes
    total: dict[int, int] = {}
    for s, x in zip(shifts, axes, strict=True):
        d = axis_of(x, a.ndim)
        total[d] = total.get(d, 0) + operator.index(s)
    moved = a
    with recording.one_operation():
        for d, s in total.items():
            n = a.shape[d]
            if not n or not s % n:
                continue
            s %= n
            made = core.empty(a.shape, a.dtype)
            before = (slice(None),) * d
            made[(*before, slice(s, None))] = moved[(*before, slice(None, n - s))]
            made[(*before, slice(None, s))] = moved[(*before, slice(n - s, None))]
            moved = made
    return moved if moved is not a else a.copy()


def tile(A: Any, reps: Any) -> ndarray:
    """The array repeated along axes."""
    a = core.as_array(A)
    counts = tuple(reps) if isinstance(reps, Sequence) else (reps,)
    counts = (1,) * (a.ndim - len(counts)) + counts
    while a.ndim < len(counts):
        a = a[np.newaxis]
    made = core.empty(tuple(n * c for n, c in zip(a.shape, counts, strict=True)), a.dtype)
    with recording.one_operation():
        for place in np.ndindex(*counts):
            made[tuple(slice(p * n, (p + 1) * n) for p, n in zip(place, a.shape, strict=True))] = a
    return made


def repeat(a: Any, repeats: Any, axis: int | None = None) -> ndarray:
    """Each element ``repeats`` times along ``axis``; flattened where it is None.  ``repeats`` is one integer."""
    a = core.as_array(a)
    try:
        count = operator.index(repeats)
    except TypeError:
        raise NotSupportedError("repeat with a count for each element is not supported; use one integer") from None
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of(axis, a.ndim)
    made = core.empty(tuple(n * count if d == axis else n for d, n in enumerate(a.shape)), a.dtype)
    with recording.one_operation():
        for k in range(count):
            made[(slice(None),) * axis + (slice(k, None, count),)] = a
    return made


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> ndarray:
    """The array with a border: constant, edge, reflect, symmetric, wrap or empty."""
    a = core.as_array(array)
    widths = [tuple(map(int, w)) for w in np.broadcast_to(np.asarray(pad_width), (a.ndim, 2))]
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap", "empty"):
        raise NotSupportedError(
            f"pad with mode {mode!r} is not supported; there are constant, edge, reflect, symmetric, wrap"
        )
    made = core.empty(tuple(n + low + high for n, (low, high) in zip(a.shape, widths, strict=True)), a.dtype)
    inner = tuple(slice(low, low + n) for n, (low, _) in zip(a.shape, widths, strict=True))
    with recording.one_operation():
        if mode == "constant":
            values = np.broadcast_to(np.asarray(constant_values), (a.ndim, 2))
            if (values == values.flat[0]).all() if values.size else True:
                made.assign(a.dtype.type(values.flat[0] if values.size else 0))
        made[inner] = a
        for d, (low, high) in enumerate(widths):
            n = a.shape[d]
            # Axes before this one are complete, those after it have only the middle.
            around = tuple(slice(None) if k < d else inner[k] for k in range(a.ndim))

            def at(part: Any, d: int = d, around: Any = around) -> tuple[Any, ...]:
                return (*around[:d], part, *around[d + 1 :])

            if mode == "constant":
                if not (values == values.flat[0]).all():
                    made[at(slice(0, low))] = a.dtype.type(values[d][0])
                    made[at(slice(low + n, None))] = a.dtype.type(values[d][1])
                continue
            if mode == "empty":
                continue
            if n == 0 and low + high:
                raise ValueError(f"can't extend empty axis {d} using modes other than 'constant' or 'empty'")
            for k in range(low):
                made[at(low - 1 - k)] = made[at(low + _source(mode, -1 - k, n))]
            for k in range(high):
                made[at(low + n + k)] = made[at(low + _source(mode, n + k, n))]
    return made


def _source(mode: str, index: int, n: int) -> int:
    """Which element stands for one outside ``[0, n)``."""
    if mode == "edge":
        return min(max(index, 0), n - 1)
    if mode == "wrap":
        return index % n
    period = 2 * n if mode == "symmetric" else max(2 * n - 2, 1)
    index %= period
    return index if index < n else period - index - (mode == "symmetric")


def append(arr: Any, values: Any, axis: int | None = None) -> ndarray:
    """The array with values after it; both flattened where ``axis`` is None."""
    return concatenate([core.as_array(arr), core.as_array(values)], axis)
