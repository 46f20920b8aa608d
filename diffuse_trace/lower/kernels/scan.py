"""Running sums and products along an axis of the own block; the executable adds what the ranks before have."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .casts import cast, numpy_cast
from .registry import Context, register


def _scan(name: str) -> tuple[Any, Any]:
    def generate(context: Context, x: Any) -> Any:
        x = jnp.broadcast_to(cast(x, context.dtype), context.shape)
        return cast(getattr(jnp, name)(x, axis=context.param("axis") or 0, dtype=context.dtype), context.dtype)

    def reference(context: Context, x: Any) -> Any:
        x = np.broadcast_to(numpy_cast(x, context.dtype), context.shape)
        with np.errstate(all="ignore"):
            return getattr(np, name)(x, axis=context.param("axis") or 0, dtype=context.dtype)

    return generate, reference


for _name in ("cumsum", "cumprod"):
    register(_name, *_scan(_name), exact=True)
