"""What arrays are, and whether they are equal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import core
from .array import ndarray
from .elementwise import isclose, where
from .reductions import all as every

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "shape",
    "ndim",
    "size",
    "iscomplexobj",
    "isrealobj",
    "isscalar",
]


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements are close, as `isclose` says."""
    return every(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether shapes and all elements are equal."""
    a, b = core.as_array(a1), core.as_array(a2)
    if a.shape != b.shape:
        return False
    same = a == b
    if equal_nan:
        same = where((a != a) & (b != b), True, same)
    return every(same)


def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether the arrays are equal once broadcast."""
    a, b = core.as_array(a1), core.as_array(a2)
    try:
        core.common_shape(a.shape, b.shape)
    except ValueError:
        return False
    return every(a == b)


def shape(a: Any) -> tuple[int, ...]:
    """Elements along each axis."""
    return a.shape if isinstance(a, ndarray) else np.shape(a)


def ndim(a: Any) -> int:
    """Number of axes."""
    return len(shape(a))


def size(a: Any, axis: int | None = None) -> int:
    """Number of elements, or of those along an axis."""
    return math.prod(shape(a)) if axis is None else shape(a)[axis]


def iscomplexobj(x: Any) -> bool:
    """Whether the elements are complex numbers."""
    return (x.dtype if isinstance(x, ndarray) else np.asarray(x).dtype).kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the elements are not complex numbers."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether it is a Python or NumPy scalar."""
    return np.isscalar(element)
