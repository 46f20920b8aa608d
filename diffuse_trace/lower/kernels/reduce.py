"""Reductions over the axes that the output's view leaves out: ``sum``, ``prod``, ``min``, ``max``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from . import complexes
from .casts import cast, numpy_cast
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


def _reduction(operator: str) -> Any:
    function = {"sum": jnp.sum, "prod": jnp.prod, "min": jnp.min, "max": jnp.max}[operator]

    def generate(context: Context, x: Any) -> Any:
        axes = reduced_axes(context)
        x = own_block(context, jnp.broadcast_to(cast(x, context.dtype), context.shape))
        if np.dtype(x.dtype).kind == "b":
            function = jnp.any if operator in ("sum", "max") else jnp.all
            return function(x, axis=axes, keepdims=True)
        return function(x, axis=axes, keepdims=True)

    def reference(context: Context, x: Any) -> Any:
        ufunc = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[operator]
        x = np.broadcast_to(numpy_cast(x, context.dtype), context.shape)
        with np.errstate(all="ignore"):
            start = identity(operator, context.dtype) if x.size == 0 else np._NoValue
            return ufunc.reduce(x, axis=reduced_axes(context), keepdims=True, initial=start)

    return generate, reference


for _operator in ("sum", "prod", "min", "max"):
    register(_operator, *_reduction(_operator))
