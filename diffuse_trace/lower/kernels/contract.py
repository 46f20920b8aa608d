"""Matrix products: sums of products over the axes that both inputs have and the output lacks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...ir import Access
from .casts import cast, numpy_cast
from .reduce import reduced, reduced_axes
from .registry import Context, register


def _axes(context: Context, position: int) -> tuple[int, ...]:
    """The axes of the domain along which an input varies."""
    access = context.task.inputs[position]
    repeated = access.view.broadcast_axes() if isinstance(access, Access) else range(len(context.shape))
    return tuple(d for d in range(len(context.shape)) if d not in repeated)


def _only(value: Any, axes: tuple[int, ...]) -> Any:
    """A block without the axes along which it is repeated."""
    if value.ndim == 0:
        return value
    return value[tuple(slice(None) if d in axes else 0 for d in range(value.ndim))]


def _dtypes(context: Context) -> tuple[np.dtype, np.dtype]:
    """In which inputs are multiplied, and sums formed."""
    dtype = context.dtype
    if dtype == np.float16 or dtype.kind == "b":
        return dtype, np.dtype(np.float32)
    return dtype, dtype


def _generate(context: Context, a: Any, b: Any) -> Any:
    over = reduced_axes(context)
    loop, work = _dtypes(context)
    sides = []
    for position, value in enumerate((jnp.asarray(a), jnp.asarray(b))):
        axes = _axes(context, position)
        value = cast(cast(_only(value, axes), loop), work)
        alone = tuple(d for d in axes if d in over and d not in _axes(context, 1 - position))
        if alone:
            value = jnp.sum(value, axis=tuple(axes.index(d) for d in alone), dtype=work)
        sides.append((value, tuple(d for d in axes if d not in alone)))
    (x, x_axes), (y, y_axes) = sides
    shared = [d for d in x_axes if d in y_axes]
    summed, batch = [d for d in shared if d in over], [d for d in shared if d not in over]
    contracting = ([x_axes.index(d) for d in summed], [y_axes.index(d) for d in summed])
    batched = ([x_axes.index(d) for d in batch], [y_axes.index(d) for d in batch])
    if summed and len(x_axes) == len(shared) == len(y_axes):
        # No matrix product: a multiplication and a reduction, which fuse with what makes the inputs.
        value = _spread(x, x_axes, context) * _spread(y, y_axes, context)
        value = reduced("sum", value, tuple(summed))
    elif summed:
        value = lax.dot_general(
            x, y, (contracting, batched), precision=lax.Precision.HIGHEST, preferred_element_type=work
        )
        order = [*batch, *(d for d in x_axes if d not in shared), *(d for d in y_axes if d not in shared)]
        value = lax.transpose(value, sorted(range(len(order)), key=order.__getitem__))
        value = lax.expand_dims(value, [d for d in range(len(context.shape)) if d not in order])
    else:
        value = _spread(x, x_axes, context) * _spread(y, y_axes, context)
    repeats = [d for d in over if d not in _axes(context, 0) and d not in _axes(context, 1)]
    for d in repeats:
        value = value * np.asarray(context.own[d][1] - context.own[d][0], work)
    return cast(value, context.dtype)


def _spread(value: Any, axes: tuple[int, ...], context: Context) -> Any:
    return lax.expand_dims(value, [d for d in range(len(context.shape)) if d not in axes])


def _reference(context: Context, a: Any, b: Any) -> Any:
    over = reduced_axes(context)
    loop, work = _dtypes(context)
    names = list(range(len(context.shape)))
    kept = [d for d in names if d not in over]
    x, y = (np.broadcast_to(numpy_cast(numpy_cast(v, loop), work), context.shape) for v in (a, b))
    axes = [_axes(context, 0), _axes(context, 1)]
    # Axes that neither input has keep their repetitions.
    axes[0] = tuple(d for d in names if d in axes[0] or d not in axes[1])
    with np.errstate(all="ignore"):
        value = np.einsum(_only(x, axes[0]), axes[0], _only(y, axes[1]), axes[1], kept, optimize=True)
    return numpy_cast(np.expand_dims(value, over), context.dtype)


register("contract", _generate, _reference, exact=True, wide=True)
