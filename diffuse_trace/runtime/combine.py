"""Combining two arrays elementwise, with NumPy's arithmetic: what reductions over ranks do at each step.

MPI's own operators know neither NumPy's rule that NaN wins in minima and maxima nor float16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import carray, from_dtype

from ..errors import NotSupportedError
from .native import compiled, load_half, pointer, store_half
from .operators import OPERATORS

_SUM, _PROD, _MIN, _MAX = range(len(OPERATORS))


@cache
def combiner(dtype: np.dtype) -> Any:
    """The compiled function for a dtype: ``(operator, left, right, out, elements)``, where out may be left or right.

    Raises:
        NotSupportedError: arrays of this dtype cannot be combined.
    """
    if dtype == np.float16:
        function = _halves
    elif dtype == np.bool_:
        function = _truths(from_dtype(np.dtype(np.uint8)))
    elif dtype.kind in "iuf" and dtype.itemsize <= 8:
        function = _numbers(from_dtype(dtype))
    elif dtype.kind == "c" and dtype.itemsize <= 16:
        function = _complexes(from_dtype(dtype))
    else:
        raise NotSupportedError(f"reductions over ranks of {dtype}: use a bool, integer, float or complex dtype")
    return compiled(function, 5, f"combine_{dtype}")


def _numbers(kind: Any) -> Callable[..., int]:
    def combine(operator, left, right, out, n):
        a, b, c = carray(pointer(left), n, kind), carray(pointer(right), n, kind), carray(pointer(out), n, kind)
        if operator == _SUM:
            for i in range(n):
                c[i] = a[i] + b[i]
        elif operator == _PROD:
            for i in range(n):
                c[i] = a[i] * b[i]
        elif operator == _MIN:
            for i in range(n):
                c[i] = a[i] if a[i] < b[i] or a[i] != a[i] else b[i]
        else:
            for i in range(n):
                c[i] = a[i] if a[i] > b[i] or a[i] != a[i] else b[i]
        return 0

    return combine


def _complexes(kind: Any) -> Callable[..., int]:
    def combine(operator, left, right, out, n):
        a, b, c = carray(pointer(left), n, kind), carray(pointer(right), n, kind), carray(pointer(out), n, kind)
        if operator == _SUM:
            for i in range(n):
                c[i] = a[i] + b[i]
        else:
            for i in range(n):
                c[i] = a[i] * b[i]
        return 0

    return combine


def _truths(kind: Any) -> Callable[..., int]:
    def combine(operator, left, right, out, n):
        a, b, c = carray(pointer(left), n, kind), carray(pointer(right), n, kind), carray(pointer(out), n, kind)
        if operator in (_SUM, _MAX):
            for i in range(n):
                c[i] = a[i] | b[i]
        else:
            for i in range(n):
                c[i] = a[i] & b[i]
        return 0

    return combine


def _halves(operator, left, right, out, n):
    for i in range(n):
        x, y = load_half(left + 2 * i), load_half(right + 2 * i)
        if operator == _SUM:
            z = x + y
        elif operator == _PROD:
            z = x * y
        elif operator == _MIN:
            z = x if x < y or x != x else y
        else:
            z = x if x > y or x != x else y
        store_half(out + 2 * i, z)
    return 0
