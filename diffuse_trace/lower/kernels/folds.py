"""Reductions of a traced array that XLA compiles to fast loops fused with what makes their input.

XLA's own reductions of a block on the CPU have faults.  An axis of 32 or more is rewritten to a tree of windows, whose
input is materialised; or YNNPACK takes the reduction with the producer of its input, which is slow by a factor of 50
where that reads shifted slices.  So an axis is folded first, 16 elements to one: a loop fusion which the compiler
unrolls over the 16 and vectorises along rows.  XLA's tree then reduces what is left, 1/16 of the elements.  Sums are
pairwise enough to be as accurate as NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

Combine = Callable[[Any, Any], Any]

#: Elements that are folded into one.  XLA unrolls 16, but not 25; from 32 it makes a tree of them.
FAN = 16
#: Elements in a row of a folded one-dimensional array, so that one fold reads a few pages only.
ROW = 512
#: Axes with fewer elements than this, taken together, are not folded first.
FEW = 256


def fold(x: Any, axes: tuple[int, ...], combine: Combine, identity: np.generic) -> Any:
    """Reduce ``axes`` of ``x`` to extent 1 by an associative and commutative ``combine``.

    ``combine`` should not look like one of XLA's own reductions: see `opaque`.
    """
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    if x.size == 0:
        return jnp.full(kept, jnp.asarray(identity))
    start = jnp.asarray(identity)
    if x.ndim > 1 and x.shape[-1] < 4 * FAN and len(axes) == x.ndim:
        x, axes = x.reshape(-1), (0,)
    parts = [(x, axes)]
    if math.prod(x.shape[d] for d in axes) >= FEW:
        # Along rows only where they are all that is reduced.
        axis = max(axes, key=lambda d: (d < x.ndim - 1 and x.shape[d] >= FAN, x.shape[d]))
        if x.shape[axis] >= FAN:
            parts = _folded(x, axis, axes, combine, start)
    result = None
    for part, over in parts:
        value = lax.reduce(part, start, combine, over).reshape(kept)
        result = value if result is None else combine(result, value)
    return result


def _folded(
    x: Any, axis: int, axes: tuple[int, ...], combine: Combine, start: Any
) -> list[tuple[Any, tuple[int, ...]]]:
    """``x`` folded along an axis, and the elements at the end that fill no fold; each with the axes left to reduce."""
    extent, last = x.shape[axis], x.ndim - 1
    if axis == last and extent >= 2 * FAN * ROW:
        shape: tuple[int, ...] = (extent // (FAN * ROW), FAN, ROW)
    elif axis == last:
        # The elements of a fold lie far from each other, so that those of a vector are adjacent.
        shape = (1, FAN, extent // FAN)
    else:
        shape = (extent // FAN, FAN)
    used = math.prod(shape)
    main = lax.slice_in_dim(x, 0, used, axis=axis).reshape(*x.shape[:axis], *shape, *x.shape[axis + 1 :])
    folded = lax.reduce(main, start, combine, (axis + 1,))
    # Without the barrier XLA would merge the two reductions into one.
    over = axes if axis < last else (*axes, last + 1)
    parts = [(lax.optimization_barrier(folded), over)]
    if used < extent:
        parts.append((lax.slice_in_dim(x, used, extent, axis=axis), axes))
    return parts


def opaque(operator: str, dtype: np.dtype) -> Combine:
    """How two values are combined, written so that XLA takes it for no reduction that it knows.

    A recognised one may be handed to YNNPACK together with the producer of its input.
    """
    if operator in ("sum", "prod"):
        plain = lax.add if operator == "sum" else lax.mul
        if dtype.kind != "f":
            return plain
        return lambda a, b: lax.select(a != a, a, plain(a, b))
    if dtype.kind != "f":
        return lax.min if operator == "min" else lax.max
    first = lax.le if operator == "min" else lax.ge
    return lambda a, b: lax.select(first(a, b) | (a != a), a, b)
