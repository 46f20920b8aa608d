"""Differences of neighbours, derivatives and integrals of what is given at points."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import core
from .array import ndarray
from .creation import empty
from .joining import concatenate
from .manipulation import axis_of, ravel
from .reductions import axes_of, sum

__all__ = ["diff", "ediff1d", "gradient", "trapezoid"]


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> ndarray:
    """Differences of neighbours along ``axis``, ``n`` times."""
    a = core.as_array(a)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, a.ndim)
    if prepend is not None or append is not None:
        a = concatenate([_edge(p, a, axis) for p in (prepend, a, append) if p is not None], axis)
    before = (slice(None),) * axis
    for _ in range(n):
        high, low = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = high != low if a.dtype.kind == "b" else high - low
    return a


def _edge(p: Any, a: ndarray, axis: int) -> ndarray:
    p = core.as_array(p)
    return p.broadcast_to(tuple(1 if d == axis else m for d, m in enumerate(a.shape))) if p.ndim == 0 else p


def ediff1d(ary: Any) -> ndarray:
    """Differences of neighbours of the flattened array."""
    flat = ravel(ary)
    return flat[1:] - flat[:-1]


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Derivatives along axes: central differences, and one-sided ones of order ``edge_order`` (1 or 2) at the ends.

    Args:
        f: the values.
        varargs: spacings: one number for all axes, or for each axis a number or the coordinates of its points.
        axis: one axis or several; all, where it is not given.

    Returns:
        An array of the shape of ``f``, or a tuple of them, one for each of several axes.

    Raises:
        ValueError: ``edge_order`` is another, an axis has no more than so many points, or coordinates do not fit.
        TypeError: the number of spacings is not that of the axes.
    """
    f = core.as_array(f)
    axes = axes_of(axis, f.ndim)
    if len(varargs) not in (0, 1, len(axes)) or (len(varargs) == 1 and len(axes) > 1 and np.ndim(varargs[0])):
        raise TypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise ValueError(f"'edge_order' must be 1 or 2, not {edge_order}")
    spacings = varargs or (1.0,)
    if f.dtype.kind in "iu":
        f = f.astype(np.float64)
    made = [
        _derivative(f, a, _steps(h, f.shape[a]), edge_order)
        for a, h in zip(axes, spacings * len(axes) if len(spacings) == 1 else spacings, strict=True)
    ]
    return made[0] if len(made) == 1 else tuple(made)


def _steps(h: Any, points: int) -> Any:
    """A spacing, or those between points that are not equally far apart."""
    if (h.ndim if isinstance(h, ndarray) else np.ndim(h)) == 0:
        return h
    if not isinstance(h, ndarray):
        h = np.asarray(h)
    if h.ndim != 1:
        raise ValueError("distances must be either scalars or 1d")
    if len(h) != points:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if isinstance(h, ndarray):
        return diff(h if h.dtype.kind in "fc" else h.astype(np.float64))
    steps = np.diff(h if h.dtype.kind in "fc" else h.astype(np.float64))
    return steps[0] if len(steps) and (steps == steps[0]).all() else steps


def _derivative(f: ndarray, axis: int, h: Any, order: int) -> ndarray:
    if f.shape[axis] < order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )

    def at(index: Any) -> Any:
        return (slice(None),) * axis + (index,)

    def along(steps: Any) -> Any:
        return steps[(slice(None), *(np.newaxis,) * (f.ndim - axis - 1))]

    def ends(first: int, step: int) -> Any:
        """The value at an end; ``step`` leads inwards."""
        near = f[at(first + step)] - f[at(first)]
        one = h[first] if np.ndim(h) else h
        if order == 1:
            return step * near / one
        two = h[first + step] if np.ndim(h) else h
        a, c = -(2 * one + two) / (one * (one + two)), -one / (two * (one + two))
        b = (one + two) / (one * two)
        return step * (a * f[at(first)] + b * f[at(first + step)] + c * f[at(first + 2 * step)])

    made = empty(f.shape, f.dtype)
    inner, before, after = at(slice(1, -1)), at(slice(None, -2)), at(slice(2, None))
    if np.ndim(h):
        one, two = h[:-1], h[1:]
        a, b, c = -two / (one * (one + two)), (two - one) / (one * two), one / (two * (one + two))
        made[inner] = along(a) * f[before] + along(b) * f[inner] + along(c) * f[after]
    else:
        made[inner] = (f[after] - f[before]) / (2.0 * h)
    made[at(0)] = ends(0, 1)
    made[at(-1)] = ends(-1, -1)
    return made


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> ndarray:
    """The integral of ``y`` along ``axis`` by the trapezoidal rule."""
    y = core.as_array(y)
    axis = axis_of(axis, y.ndim)
    if x is not None:
        x = core.as_array(x)
        dx = diff(x, axis=axis if x.ndim > 1 else 0)
        if dx.ndim == 1:  # type: ignore[attr-defined]
            dx = dx[tuple(slice(None) if d == axis else np.newaxis for d in range(y.ndim))]  # type: ignore[index]
    before = (slice(None),) * axis
    return sum(dx * (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) / 2.0, axis)
