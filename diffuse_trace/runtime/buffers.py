"""Spare buffers: dead local blocks that results are written into."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..lower.executable import SMALL

#: Dead buffers kept for each shape and dtype; more are given back to the allocator.
KEEP = 2


class Pool:
    """Dead buffers by shape and dtype."""

    def __init__(self, keep: int = KEEP) -> None:
        self.keep = keep
        self._spares: dict[tuple[tuple[int, ...], np.dtype], list[Any]] = {}

    def take(self, aval: tuple[tuple[int, ...], np.dtype]) -> Any:
        """A buffer whose values do not matter."""
        spares = self._spares.get(aval)
        return spares.pop() if spares else jnp.empty(*aval)

    def give(self, buffer: Any) -> None:
        """Keep a large buffer that nobody refers to, if there is room for its kind."""
        spares = self._spares.setdefault((buffer.shape, buffer.dtype), [])
        if len(spares) < self.keep and not buffer.is_deleted():
            spares.append(buffer)

    def clear(self) -> None:
        """Give all memory back."""
        self._spares.clear()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(b.nbytes for spares in self._spares.values() for b in spares)


def worthwhile(shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether a buffer is large enough to be kept."""
    return math.prod(shape) * dtype.itemsize >= SMALL


pool = Pool()
