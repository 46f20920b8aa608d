"""The product of a matrix in slices of rows with a vector, compiled by Numba and called by XLA."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from numba import carray, from_dtype, int32, int64, njit

from ..lower import jax_compat
from ..runtime.boxes import data
from ..runtime.handlers import answered, attribute
from ..runtime.native import compiled, element, load, pointer, put_element

_PREFIX = "diffuse_trace_rows_"
_layout = jax_compat.frame_layout()
_ARGUMENTS, _RESULTS, _DATA = _layout.arguments, _layout.results, _layout.data
_COUNT = 0  # the only attribute
_I32, _I64 = int32, int64


def multiply_rows(layout: Any, x: Any, rows: int) -> Any:
    """The product, as an operation of a traced function; ``x`` and the values are of one floating or int64 dtype."""
    arrays = [layout.starts, layout.widths, layout.lengths, layout.order, layout.columns, layout.values, x]
    result = jax.ShapeDtypeStruct((rows,), x.dtype)
    return jax_compat.call(_registered(np.dtype(x.dtype)), [result], arrays, {}, rows=np.int64(rows))[0]


@cache
def _registered(dtype: np.dtype) -> str:
    name = _PREFIX + dtype.name
    handler = compiled(_handler(from_dtype(dtype)), 1, name)
    jax_compat.register(name, handler.address)
    _kept.append(handler)  # it owns the code
    return name


_kept: list[Any] = []


def _handler(kind: Any) -> Callable[[int], int]:
    def rows_product(frame):
        if not answered(frame):
            given, made = load(frame + _ARGUMENTS), load(frame + _RESULTS)
            count = attribute(frame, _COUNT)
            slices = (count + 7) // 8
            _product(
                count,
                slices,
                carray(pointer(data(given, 0, _DATA)), slices + 1, _I64),
                carray(pointer(data(given, 1, _DATA)), slices, _I32),
                carray(pointer(data(given, 2, _DATA)), count, _I32),
                carray(pointer(data(given, 3, _DATA)), count, _I32),
                carray(pointer(data(given, 4, _DATA)), 1, _I32),
                carray(pointer(data(given, 5, _DATA)), 1, kind),
                carray(pointer(data(given, 6, _DATA)), 1, kind),
                carray(pointer(data(made, 0, _DATA)), count, kind),
            )
        return 0

    return rows_product


@njit
def _rest(columns, values, x, start, count, total):
    for k in range(start, start + count):
        total += element(values, k) * element(x, element(columns, k))
    return total


@njit
def _product(count, slices, starts, widths, lengths, order, columns, values, x, y):
    # Eight rows at a time: their sums are independent, so that a processor works on all of them at once.
    for s in range(slices):
        k, width, first = element(starts, s), element(widths, s), s * 8
        behind = k + width * 8
        zero = y.dtype.type(0)
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
        while k < behind:
            a0 += element(values, k + 0) * element(x, element(columns, k + 0))
            a1 += element(values, k + 1) * element(x, element(columns, k + 1))
            a2 += element(values, k + 2) * element(x, element(columns, k + 2))
            a3 += element(values, k + 3) * element(x, element(columns, k + 3))
            a4 += element(values, k + 4) * element(x, element(columns, k + 4))
            a5 += element(values, k + 5) * element(x, element(columns, k + 5))
            a6 += element(values, k + 6) * element(x, element(columns, k + 6))
            a7 += element(values, k + 7) * element(x, element(columns, k + 7))
            k += 8
        if element(starts, s + 1) > behind:
            if first + 0 < count:
                rest = element(lengths, first + 0) - width
                a0 = _rest(columns, values, x, behind, rest, a0)
                behind += rest
            if first + 1 < count:
                rest = element(lengths, first + 1) - width
                a1 = _rest(columns, values, x, behind, rest, a1)
                behind += rest
            if first + 2 < count:
                rest = element(lengths, first + 2) - width
                a2 = _rest(columns, values, x, behind, rest, a2)
                behind += rest
            if first + 3 < count:
                rest = element(lengths, first + 3) - width
                a3 = _rest(columns, values, x, behind, rest, a3)
                behind += rest
            if first + 4 < count:
                rest = element(lengths, first + 4) - width
                a4 = _rest(columns, values, x, behind, rest, a4)
                behind += rest
            if first + 5 < count:
                rest = element(lengths, first + 5) - width
                a5 = _rest(columns, values, x, behind, rest, a5)
                behind += rest
            if first + 6 < count:
                rest = element(lengths, first + 6) - width
                a6 = _rest(columns, values, x, behind, rest, a6)
                behind += rest
            if first + 7 < count:
                rest = element(lengths, first + 7) - width
                a7 = _rest(columns, values, x, behind, rest, a7)
                behind += rest
        put_element(y, element(order, first), a0)
        if first + 1 < count:
            put_element(y, element(order, first + 1), a1)
        if first + 2 < count:
            put_element(y, element(order, first + 2), a2)
        if first + 3 < count:
            put_element(y, element(order, first + 3), a3)
        if first + 4 < count:
            put_element(y, element(order, first + 4), a4)
        if first + 5 < count:
            put_element(y, element(order, first + 5), a5)
        if first + 6 < count:
            put_element(y, element(order, first + 6), a6)
        if first + 7 < count:
            put_element(y, element(order, first + 7), a7)
