"""Products of vectors and matrices, and norms."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import recording
from ..errors import NotSupportedError
from ..ir import View
from ..ir.view import Axis
from . import core
from .array import ndarray

__all__ = ["dot", "vdot", "inner", "outer", "matmul", "vecdot", "tensordot", "trace", "diagonal", "kron"]


def _contract(a: ndarray, b: ndarray, a_axes: list[int], b_axes: list[int], kept: list[int], ndim: int) -> ndarray:
    """Sum of products over the axes of a domain of ``ndim`` axes that are not ``kept``; each array lies along its
    axes."""
    shape = [1] * ndim
    for x, axes in ((a, a_axes), (b, b_axes)):
        for d, n in zip(axes, x.shape, strict=True):
            shape[d] = max(shape[d], n) if n != 1 else shape[d]
    if any(0 in x.shape for x in (a, b)):
        for x, axes in ((a, a_axes), (b, b_axes)):
            for d, n in zip(axes, x.shape, strict=True):
                shape[d] = 0 if n == 0 else shape[d]
    domain = tuple(shape)
    result = np.result_type(a.dtype, b.dtype)
    made = core.empty(tuple(shape[d] for d in kept), result)
    sources = []
    for x, axes in ((a, a_axes), (b, b_axes)):
        view = x.view
        order = sorted(range(len(axes)), key=axes.__getitem__)
        view = view.transposed(tuple(order))
        for d in range(ndim):
            if d not in axes:
                view = view.expanded(d)
        sources.append((x.store, view.broadcast(domain)))
    written = View(domain, tuple(Axis(d) for d in kept))
    recording.record("contract", domain, sources, (made.store, written), reduction="sum")
    return made


def matmul(x1: Any, x2: Any, out: Any = None) -> ndarray:
    """The product of matrices (the last two axes) or vectors; other axes broadcast.  ``@``.

    Raises:
        ValueError: the inner dimensions differ, or an argument is a scalar.
    """
    a, b = core.as_array(x1), core.as_array(x2)
    if not a.ndim or not b.ndim:
        number = 0 if not a.ndim else 1
        raise ValueError(
            f"matmul: Input operand {number} does not have enough dimensions (has 0, gufunc core with signature "
            f"(n?,k),(k,m?)->(n?,m?) requires 1) ({recording.user_line()})"
        )
    inner_b = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != inner_b:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(n?,k),(k,m?)->(n?,m?) (size {inner_b} is different from {a.shape[-1]}) ({recording.user_line()})"
        )
    rows, columns = a.ndim > 1, b.ndim > 1
    batch_a, batch_b = a.shape[:-2] if rows else (), b.shape[:-2] if columns else ()
    batch = core.common_shape(batch_a, batch_b)
    n = len(batch)
    # The domain: batch axes, then the row, the column and the inner axis.
    row, column, inner = n, n + rows, n + rows + columns
    a_axes = [n - len(batch_a) + k for k in range(len(batch_a))] + ([row] if rows else []) + [inner]
    b_axes = [n - len(batch_b) + k for k in range(len(batch_b))] + [inner] + ([column] if columns else [])
    kept = list(range(n)) + ([row] if rows else []) + ([column] if columns else [])
    made = _contract(a, b, a_axes, b_axes, kept, inner + 1)
    if out is not None:
        out[...] = made
        return out
    return made


def dot(a: Any, b: Any, out: Any = None) -> ndarray:
    """The product of vectors, of matrices, or with a scalar; sums over the last axis of ``a`` and the second last of
    ``b``."""
    a, b = core.as_array(a), core.as_array(b)
    if not a.ndim or not b.ndim:
        return core.ufunc("multiply", a, b, out=out)
    over = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != over:
        raise ValueError(
            f"shapes {a.shape} and {b.shape} not aligned: {a.shape[-1]} (dim {a.ndim - 1}) != {over} "
            f"(dim {max(b.ndim - 2, 0)}) ({recording.user_line()})"
        )
    made = tensordot(a, b, ((a.ndim - 1,), (max(b.ndim - 2, 0),)))
    if out is not None:
        out[...] = made
        return out
    return made


def vdot(a: Any, b: Any) -> ndarray:
    """The sum of products of all elements, those of ``a`` conjugated."""
    a, b = core.as_array(a), core.as_array(b)
    if a.shape != b.shape:
        if a.size != b.size:
            raise ValueError(f"cannot reshape array of size {b.size} into shape {a.shape} ({recording.user_line()})")
        a, b = a.ravel(), b.ravel()  # type: ignore[attr-defined]
    axes = list(range(a.ndim))
    return _contract(core.ufunc("conjugate", a) if a.dtype.kind == "c" else a, b, axes, axes, [], a.ndim)


def inner(a: Any, b: Any) -> ndarray:
    """The sum of products over the last axes."""
    a, b = core.as_array(a), core.as_array(b)
    if not a.ndim or not b.ndim:
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"shapes {a.shape} and {b.shape} not aligned: {a.shape[-1]} (dim {a.ndim - 1}) != {b.shape[-1]} "
            f"(dim {b.ndim - 1}) ({recording.user_line()})"
        )
    return tensordot(a, b, ((a.ndim - 1,), (b.ndim - 1,)))


def outer(a: Any, b: Any, out: Any = None) -> ndarray:
    """The products of all pairs of elements."""
    from .manipulation import ravel

    return core.ufunc("multiply", ravel(a)[:, np.newaxis], ravel(b)[np.newaxis, :], out=out)


def vecdot(x1: Any, x2: Any, axis: int = -1) -> ndarray:
    """The sum of products along an axis, elements of ``x1`` conjugated."""
    from .reductions import sum as total

    return total(core.ufunc("conjugate", x1) * core.as_array(x2), axis)


def tensordot(a: Any, b: Any, axes: Any = 2) -> ndarray:
    """The sum of products over pairs of axes."""
    a, b = core.as_array(a), core.as_array(b)
    try:
        count = operator.index(axes)
        over_a, over_b = list(range(a.ndim - count, a.ndim)), list(range(count))
    except TypeError:
        over_a, over_b = ([x] if isinstance(x, int) else list(x) for x in axes)
    over_a, over_b = [x % a.ndim for x in over_a], [x % b.ndim for x in over_b]
    if len(over_a) != len(over_b) or any(a.shape[i] != b.shape[j] for i, j in zip(over_a, over_b, strict=True)):
        raise ValueError(f"shape-mismatch for sum ({recording.user_line()})")
    free_a, free_b = [d for d in range(a.ndim) if d not in over_a], [d for d in range(b.ndim) if d not in over_b]
    kept = len(free_a) + len(free_b)
    a_axes, b_axes = [0] * a.ndim, [0] * b.ndim
    for n, d in enumerate(free_a):
        a_axes[d] = n
    for n, d in enumerate(free_b):
        b_axes[d] = len(free_a) + n
    for n, (i, j) in enumerate(zip(over_a, over_b, strict=True)):
        a_axes[i] = b_axes[j] = kept + n
    return _contract(a, b, a_axes, b_axes, list(range(kept)), kept + len(over_a))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
    """The elements with equal indices (but for ``offset``) along two axes; a copy here."""
    from .creation import eye
    from .elementwise import where
    from .manipulation import moveaxis
    from .reductions import sum as total

    a = moveaxis(core.as_array(a), (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    n = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    square = a[..., max(-offset, 0) : max(-offset, 0) + n, max(offset, 0) : max(offset, 0) + n]
    return total(where(eye(n, dtype=bool), square, a.dtype.type(0)), -1, dtype=a.dtype)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> ndarray:
    """The sum of a diagonal."""
    from .reductions import sum as total

    return total(diagonal(a, offset, axis1, axis2), -1, dtype)


def kron(a: Any, b: Any) -> ndarray:
    """The Kronecker product of two vectors or matrices."""
    a, b = core.as_array(a), core.as_array(b)
    ndim = max(a.ndim, b.ndim)
    if ndim > 2 or not ndim:
        raise NotSupportedError("kron is supported for vectors and matrices")
    a, b = (x if x.ndim == ndim else x[np.newaxis] for x in (a, b))
    made = core.empty(tuple(m * n for m, n in zip(a.shape, b.shape, strict=True)), np.result_type(a.dtype, b.dtype))
    with recording.one_operation():
        for place in np.ndindex(*b.shape):
            key = tuple(slice(p, None, n) for p, n in zip(place, b.shape, strict=True))
            made[key] = a * b[place]
    return made


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> ndarray:
    """The norm of a vector (``ord`` any number, inf or -inf) or of a matrix ('fro', 1, -1, inf, -inf).

    By default the root of the sum of squares of all elements.

    Raises:
        NotSupportedError: a matrix norm that needs singular values.
    """
    from .reductions import max as largest
    from .reductions import min as smallest
    from .reductions import sum as total

    x = core.as_array(x)
    if x.dtype.kind in "biu":
        x = x.astype(float)
    magnitude = core.ufunc("absolute", x)
    if axis is None and ord is None:
        axes: tuple[int, ...] = tuple(range(x.ndim))
    elif axis is None:
        axes = tuple(range(x.ndim))
        if len(axes) > 2 or not axes:
            raise ValueError("Improper number of dimensions to norm.")
    else:
        axes = axis if isinstance(axis, tuple) else (operator.index(axis),)
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return core.ufunc("sqrt", total(magnitude * magnitude, axes, keepdims=keepdims))
    if len(axes) == 1:
        if ord in (np.inf, -np.inf):
            return (largest if ord > 0 else smallest)(magnitude, axes, keepdims=keepdims)
        if ord == 0:
            return total((x != 0).astype(magnitude.dtype), axes, keepdims=keepdims)
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return total(magnitude**ord, axes, keepdims=keepdims) ** (1.0 / ord)
    row, column = (a % x.ndim for a in axes)
    if ord in (1, -1, np.inf, -np.inf):
        over, rest = (row, column) if abs(ord) == 1 else (column, row)
        sums = total(magnitude, over, keepdims=True)
        value = (largest if ord > 0 else smallest)(sums, rest, keepdims=True)
        return value if keepdims else value[tuple(0 if d in (row, column) else slice(None) for d in range(x.ndim))]
    if ord in (2, -2, "nuc"):
        raise NotSupportedError(
            f"norm(ord={ord!r}) of a matrix is not supported; use numpy.linalg.norm(numpy.asarray(x))"
        )
    raise ValueError("Invalid norm order for matrices.")
