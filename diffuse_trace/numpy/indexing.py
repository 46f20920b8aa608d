"""Indexing: NumPy's keys as views, and element by element access where the elements are known at run time only."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import recording
from ..errors import NotSupportedError
from ..ir import Privilege, View
from ..recording import Array
from ..runtime import dynamic
from . import core

if TYPE_CHECKING:
    from .array import ndarray


def is_basic(key: tuple[Any, ...]) -> bool:
    """Whether a key has slices, integers, newaxis and an ellipsis only."""
    return all(k is None or k is Ellipsis or isinstance(k, slice) or _is_integer(k) for k in key)


def _is_integer(k: Any) -> bool:
    if isinstance(k, bool | np.bool_):
        return False
    if isinstance(k, int | np.integer):
        return True
    return isinstance(k, Array) and not k.view.shape and k.store.dtype.kind in "iu"


def basic(view: View, key: tuple[Any, ...]) -> View:
    """The view that a basic key selects.  Raises IndexError with NumPy's words."""
    key = expand(view.shape, key)
    axis = number = 0  # of the view, and as the user counts
    for k in key:
        if k is None:
            view = view.expanded(axis)
            axis += 1
        elif isinstance(k, slice):
            start, stop, step = k.indices(view.shape[axis])
            view = view.sliced(axis, start, step, len(range(start, stop, step)))
            axis, number = axis + 1, number + 1
        else:
            n, i = view.shape[axis], operator.index(k)
            if not -n <= i < n:
                where = recording.user_line()
                raise IndexError(f"index {i} is out of bounds for axis {number} with size {n} ({where})")
            view = view.fixed(axis, i % n)
            number += 1
    return view


def expand(shape: tuple[int, ...], key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key with its ellipsis written out, and full slices for axes that it does not name."""
    places = [n for n, k in enumerate(key) if k is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(_axes_of(k) for k in key if k is not None and k is not Ellipsis)
    if used > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed "
            f"({recording.user_line()})"
        )
    fill = (slice(None),) * (len(shape) - used)
    if places:
        return (*key[: places[0]], *fill, *key[places[0] + 1 :])
    return (*key, *fill)


def _axes_of(k: Any) -> int:
    if isinstance(k, Array | np.ndarray) and k.dtype.kind == "b":
        return k.ndim
    return 1


def as_key(key: Any) -> tuple[Any, ...]:
    """A key as a tuple; lists become index arrays, and anything else that cannot index raises IndexError."""
    items = key if isinstance(key, tuple) else (key,)
    result = []
    for k in items:
        if isinstance(k, list):
            made = np.asarray(k) if not any(isinstance(i, Array) for i in k) else core.as_array(k)
            made = made.astype(np.intp) if made.size == 0 else made
            k = made if made.dtype.kind in "biu" else k
        if isinstance(k, bool | np.bool_):
            k = np.asarray(k)
        if isinstance(k, np.ndarray | Array) and k.dtype.kind not in "biu":
            raise IndexError(f"arrays used as indices must be of integer (or boolean) type ({recording.user_line()})")
        if not (k is None or k is Ellipsis or isinstance(k, slice | np.ndarray | Array) or hasattr(k, "__index__")):
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
                f"are valid indices ({recording.user_line()})"
            )
        result.append(k)
    return tuple(result)


# --- masks ---------------------------------------------------------------------------------------


def sole_mask(array: Array, key: tuple[Any, ...]) -> ndarray | None:
    """The boolean mask that is the whole key and covers all axes of the array, or its leading ones; None otherwise."""
    if key and key[-1] is Ellipsis:
        key = key[:-1]
    if len(key) != 1 or not _is_mask(key[0]):
        return None
    mask = core.as_array(key[0])
    _check_mask(mask.shape, array.view.shape, 0)
    return mask


def _is_mask(k: Any) -> bool:
    return isinstance(k, np.ndarray | Array) and k.dtype.kind == "b"


def _check_mask(mask: tuple[int, ...], shape: tuple[int, ...], first: int) -> None:
    for axis, (m, n) in enumerate(zip(mask, shape[first:], strict=False), first):
        if m != n:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is {n} but size of "
                f"corresponding boolean axis is {m} ({recording.user_line()})"
            )


def set_where(target: ndarray, key: tuple[Any, ...], value: Any) -> bool:
    """``target[key] = value`` for one mask, with slices and integers beside it, and a value that is the same at each
    element of the mask.  False for all other keys and values.
    """
    key = expand(target.shape, key)
    masks = [n for n, k in enumerate(key) if _is_mask(k)]
    rest = key[: masks[0]] + key[masks[0] + 1 :] if len(masks) == 1 else (masks,)
    if not is_basic(rest):
        return False
    place = masks[0]
    mask = core.as_array(key[place])
    _check_mask(mask.shape, target.shape, sum(k is not None for k in key[:place]))
    chosen = target[(*key[:place], *(slice(None),) * mask.ndim, *key[place + 1 :])]
    first = sum(k is None or isinstance(k, slice) for k in key[:place])
    after = chosen.ndim - first - mask.ndim
    value = core.operand(value)
    shape = core.shape_of(value)
    # The axes of the value that fall on the elements of the mask, or on axes before it, must have one element.
    same = 0 if place else after
    if any(n != 1 for n in shape[: max(len(shape) - same, 0)]):
        return False
    while len(shape) > after and value.ndim:
        value = value[0]
        shape = value.shape
    mask = mask[(..., *(None,) * after)]
    core.write("choose", [mask, value, chosen], chosen, privilege=Privilege.READ_WRITE)
    return True


# --- elements known at run time ------------------------------------------------------------------


def _refuse_tracing(what: str) -> None:
    name = recording.tracing()
    if name:
        raise NotSupportedError(
            f"{recording.user_line()}: {what} is not supported in a function decorated with jit ({name}), since its "
            "elements are known at run time only; use np.where or slices there, or do it outside"
        )


def compress(array: ndarray, mask: ndarray) -> ndarray:
    """``array[mask]`` in row-major order; the ranks hold equal blocks of the result."""
    from .array import ndarray

    _refuse_tracing("reading with a boolean mask")
    line = recording.user_line()
    if not mask.ndim:
        return array[np.newaxis][: int(bool(mask))].copy()
    if mask.ndim < array.ndim:
        return take(array, tuple(nonzero(mask)))
    flat = _true_elements(mask)
    values = dynamic.take(array.store, recording.ready(array.store, "a mask"), array.view, flat, line)
    count, block = dynamic.select(flat, values, array.size, line)
    store = recording.new((count,), array.dtype)
    store.data = dynamic.from_block((count,), block)
    return ndarray(store)


def nonzero(mask: ndarray) -> list[ndarray]:
    """The indices of the true elements, an array for each axis."""
    from .array import ndarray

    _refuse_tracing("nonzero")
    line = recording.user_line()
    flat = _true_elements(mask)
    count, block = dynamic.select(flat, flat, mask.size, line)
    results = []
    for index in np.unravel_index(block, mask.shape):
        store = recording.new((count,), np.int64)
        store.data = dynamic.from_block((count,), np.asarray(index, np.int64))
        results.append(ndarray(store))
    return results


def _true_elements(mask: ndarray) -> np.ndarray:
    """Flat indices of the true elements that this rank owns (copies are left to the first rank that has one)."""
    data = recording.ready(mask.store, "a mask")
    block, region = recording.owned(mask.store, data, mask.view)
    return dynamic.flat_indices(mask.shape, region)[block.astype(bool)]


def _advanced(array: ndarray, key: tuple[Any, ...]) -> tuple[tuple[int, ...], np.ndarray]:
    """The shape of ``array[key]``, and for this rank's block of it the flat index of each element in the array."""
    parts: list[Any] = []
    for k in expand(array.shape, key):
        if isinstance(k, np.ndarray | Array) and k.dtype.kind == "b":
            parts += [i.gather() for i in nonzero(core.as_array(k))]
        elif isinstance(k, Array):
            parts.append(core.as_array(k).gather())
        else:
            parts.append(k)
    # NumPy itself says where the axes go: index an array of no size whose elements have the right strides.
    shape = array.shape
    model = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shape, (0,) * len(shape))
    try:
        result = model[tuple(parts)].shape
    except IndexError as error:
        raise IndexError(f"{error} ({recording.user_line()})") from None
    region = dynamic.own_block(result)
    strides = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    flat = np.zeros([high - low for low, high in region], np.int64)
    here = tuple(slice(low, high) for low, high in region)
    for axis, stride in enumerate(strides):
        extent = [1] * len(shape)
        extent[axis] = shape[axis]
        along = np.broadcast_to((np.arange(shape[axis], dtype=np.int64) * stride).reshape(extent), shape)
        flat += _index_lazily(along, tuple(parts), here, result)
    return result, flat


def _index_lazily(
    along: np.ndarray, key: tuple[Any, ...], here: tuple[slice, ...], result: tuple[int, ...]
) -> np.ndarray:
    """``along[key][here]``; index arrays are cut to the part of the result first where they lead it."""
    arrays = [k for k in key if isinstance(k, np.ndarray)]
    if len(key) == 1 and len(arrays) == 1 and here:
        cut = tuple(h for h in here[: arrays[0].ndim])
        return along[arrays[0][cut]][(slice(None),) * arrays[0].ndim + here[arrays[0].ndim :]]
    return along[key][here]


def take(array: ndarray, key: tuple[Any, ...]) -> ndarray:
    """``array[key]`` with integer index arrays (and slices, integers and masks beside them); a copy, as in NumPy."""
    from .array import ndarray

    _refuse_tracing("reading with index arrays")
    shape, flat = _advanced(array, key)
    data = recording.ready(array.store, "index arrays")
    block = dynamic.take(array.store, data, array.view, flat, recording.user_line())
    store = recording.new(shape, array.dtype)
    store.data = dynamic.from_block(shape, block)
    return ndarray(store)


def put(array: ndarray, key: tuple[Any, ...], value: Any) -> None:
    """``array[key] = value`` with index arrays; of several values for one element the last stays."""
    _refuse_tracing("assignment with index arrays")
    shape, flat = _advanced(array, key)
    values = core.as_array(value)
    try:
        values = values.broadcast_to(shape) if values.shape != shape else values
    except ValueError:
        raise ValueError(
            f"shape mismatch: value array of shape {values.shape} could not be broadcast to indexing result of shape "
            f"{shape} ({recording.user_line()})"
        ) from None
    fresh = values.copy()
    region = dynamic.own_block(shape)
    place = dynamic.flat_indices(shape, region)
    line = recording.user_line()
    block = dynamic.take(fresh.store, recording.ready(fresh.store, "index arrays"), fresh.view, place, line)
    dynamic.put(array.store, recording.ready(array.store, "index arrays"), array.view, flat, place, block, line)


def reshaped(array: ndarray, shape: Sequence[int]) -> ndarray:
    """The elements in row-major order in another shape, as a copy."""
    from .array import ndarray

    _refuse_tracing("reshape to a shape that merges or splits axes")
    shape = tuple(shape)
    store = recording.new(shape, array.dtype)
    flat = dynamic.flat_indices(shape, dynamic.own_block(shape))
    data = recording.ready(array.store, "reshape")
    block = dynamic.take(array.store, data, array.view, flat, recording.user_line())
    store.data = dynamic.from_block(shape, block)
    return ndarray(store)
