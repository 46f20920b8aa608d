"""Reductions over the axes that the output's view leaves out: ``sum``, ``prod``, ``min``, ``max``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import complexes
from .casts import cast, numpy_cast
from .folds import fold, opaque
from .registry import Context, register


def reduced_axes(context: Context) -> tuple[int, ...]:
    """The axes of the domain that the output does not have."""
    return context.task.output.view.broadcast_axes()


def identity(operator: str, dtype: Any) -> Any:
    """What changes nothing when it is combined with a value of ``dtype``."""
    dtype = np.dtype(dtype)
    if operator in ("sum", "prod"):
        return dtype.type(operator == "prod")
    high = operator == "min"
    if dtype.kind == "b":
        return np.bool_(high)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).max if high else np.iinfo(dtype).min)
    extreme = np.inf if high else -np.inf
    return dtype.type(complex(extreme, extreme) if dtype.kind == "c" else extreme)


def own_block(context: Context, x: Any) -> Any:
    """The own points of a block with the region's extents (or 1), so that no other takes part."""
    index = []
    for n, (low, high), (first, last) in zip(x.shape, context.region, context.own, strict=True):
        whole = n != high - low or (low, high) == (first, last)
        index.append(slice(None) if whole else slice(first - low, max(last, first) - low))
    return x[tuple(index)]


def _generator(operator: str) -> Any:
    def generate(context: Context, x: Any) -> Any:
        # Sums and products of a repeated value need it as often as it is repeated.
        x = own_block(context, jnp.broadcast_to(cast(x, context.dtype), context.shape))
        return reduced(operator, x, reduced_axes(context))

    return generate


def reduced(operator: str, x: Any, axes: tuple[int, ...]) -> Any:
    """Reduce axes of an array to extent 1, in its dtype."""
    dtype = np.dtype(x.dtype)
    if dtype.kind == "b":
        return (jnp.any if operator in ("sum", "max") else jnp.all)(x, axis=axes, keepdims=True)
    if dtype == np.float16 and operator in ("sum", "prod"):
        return cast(reduced(operator, x.astype(np.float32), axes), dtype)  # as NumPy accumulates
    start = identity(operator, dtype)
    if dtype.kind != "c":
        return fold(x, axes, opaque(operator, dtype), start)
    if operator == "sum":
        return lax.complex(*(reduced("sum", part, axes) for part in complexes.parts(x)))
    combine: Any = {"prod": lax.mul, "min": complexes.minimum, "max": complexes.maximum}[operator]
    value = lax.reduce(x, jnp.asarray(start), combine, axes)
    return value.reshape([1 if d in axes else n for d, n in enumerate(x.shape)])


def _reference(operator: str) -> Any:
    ufunc = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[operator]

    def reference(context: Context, x: Any) -> Any:
        x = np.broadcast_to(numpy_cast(x, context.dtype), context.shape)
        with np.errstate(all="ignore"):
            if x.size == 0:
                x = ufunc.reduce(
                    x, axis=reduced_axes(context), keepdims=True, initial=identity(operator, context.dtype)
                )
                return numpy_cast(x, context.dtype)
            return ufunc.reduce(x, axis=reduced_axes(context), keepdims=True, dtype=context.dtype)

    return reference


for _operator in ("sum", "prod", "min", "max"):
    register(_operator, _generator(_operator), _reference(_operator))


def _arg_index(context: Context, x: Any, extreme: Any) -> Any:
    """The least index at which ``x`` is ``extreme`` (or both are not numbers), along ``axis`` or of the flat domain.

    Reduced with ``min``, so that points without a match contribute the largest int64.
    """
    xp = context.xp
    match = (x == extreme) | ((x != x) & (extreme != extreme))
    axis: Any = context.param("axis")
    index, stride = 0, 1
    for d in reversed(range(len(context.shape))) if axis is None else (axis,):
        index = index + context.index(d) * np.int64(stride)
        stride *= context.task.shape[d]
    none = np.int64(np.iinfo(np.int64).max)
    found = own_block(context, xp.broadcast_to(xp.where(match, index, none), context.shape))
    if xp is np:
        return np.min(found, axis=reduced_axes(context), keepdims=True, initial=none)
    return fold(found, reduced_axes(context), opaque("min", np.dtype(np.int64)), none)


register("arg_index", _arg_index)
