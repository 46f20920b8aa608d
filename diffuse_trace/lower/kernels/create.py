"""Operations that make arrays: constants, ranges and the identity matrix."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import complexes, floats
from .casts import cast, numpy_cast
from .registry import Context, register


def _cast(context: Context, value: Any, dtype: Any) -> Any:
    return numpy_cast(value, dtype) if context.xp is np else cast(value, dtype)


def product(xp: Any, factor: Any, scale: Any) -> Any:
    """``factor * scale`` for a real factor that is not negative, rounded before anything is added to it.

    XLA would compile the product with an addition that follows to one instruction, which rounds once where NumPy
    rounds twice; an absolute value between them keeps them apart.
    """
    if xp is np:
        return factor * scale
    kind = np.dtype(scale.dtype).kind
    if kind == "c":
        return lax.complex(*(product(xp, factor, part) for part in complexes.parts(scale)))
    value = factor * scale
    return jnp.where(scale < 0, -abs(value), abs(value)) if kind == "f" else value


def _quotient(xp: Any, value: Any, divisor: float) -> Any:
    """``value / divisor``, rounded once."""
    constant = np.asarray(divisor).astype(_real(value.dtype))
    if xp is np:
        return value / constant
    if np.dtype(value.dtype).kind == "c":
        return lax.complex(*(floats.divide(part, constant) for part in complexes.parts(value)))
    return floats.divide(value, constant)


def _real(dtype: Any) -> np.dtype:
    """The dtype of the parts of a number."""
    return np.zeros(0, dtype).real.dtype


def _fill(context: Context, value: Any) -> Any:
    return context.xp.broadcast_to(_cast(context, value, context.dtype), context.shape)


def _axis(context: Context) -> int:
    axis: Any = context.param("axis")
    return 0 if axis is None else axis


def _iota(context: Context, start: Any, step: Any) -> Any:
    """``start + index * step`` in the output's dtype, as NumPy's ``arange`` fills it.

    NumPy computes the first two values and takes their difference for the step: with ``loop`` (one name) in that dtype.
    """
    index = context.index(_axis(context))
    if context.dtype == np.bool_:
        return context.xp.broadcast_to(_cast(context, start + index * step, context.dtype), context.shape)
    first = _cast(context, start, context.dtype)
    delta = _cast(context, start + step, context.dtype) - first
    work = np.dtype(np.float32) if context.dtype == np.float16 else context.dtype
    values = _cast(context, first, work) + product(
        context.xp, _cast(context, index, _real(work)), _cast(context, delta, work)
    )
    return context.xp.broadcast_to(_cast(context, values, context.dtype), context.shape)


def _linspace(context: Context, start: Any, stop: Any) -> Any:
    """``count`` numbers from ``start`` to ``stop``, that included where ``endpoint`` is, as NumPy's ``linspace``."""
    count: Any = context.param("count")
    axis = _axis(context)
    count = context.task.shape[axis] if count is None else count
    endpoint = context.param("endpoint") is not False
    intervals = count - 1 if endpoint else count
    work: Any = context.param("loop")
    work = np.result_type(np.dtype(start.dtype), np.dtype(stop.dtype), np.float64) if work is None else work[0]
    start, stop = _cast(context, start, work), _cast(context, stop, work)
    xp = context.xp
    index = context.index(axis)
    position = _cast(context, index, _real(work))
    delta = stop - start
    if intervals > 0:
        step = _quotient(xp, delta, intervals)
        # NumPy keeps a step that underflows from giving equal numbers.
        values = (
            xp.where(step == 0, product(xp, _quotient(xp, position, intervals), delta), product(xp, position, step))
            + start
        )
        if endpoint and count > 1:
            values = xp.where(index == count - 1, stop, values)
    else:
        values = position * delta + start
    if context.dtype.kind in "iu":
        values = xp.floor(values)
    return xp.broadcast_to(_cast(context, values, context.dtype), context.shape)


def _eye(context: Context) -> Any:
    k: Any = context.param("k")
    ones = context.index(1) - context.index(0) == (0 if k is None else k)
    return _cast(context, ones, context.dtype)


register("fill", _fill, pointwise=True)
register("iota", _iota)
register("linspace", _linspace)
register("eye", _eye)
