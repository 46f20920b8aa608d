"""Spare buffers: dead local blocks that results are written into."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..lower.slots import SMALL, Aval

#: Dead buffers kept for each shape and dtype, unless a plan takes more; others are given back to the allocator.
KEEP = 2


class Pool:
    """Dead buffers by shape and dtype."""

    def __init__(self, keep: int = KEEP) -> None:
        self.keep = keep
        self._spares: dict[Aval, list[Any]] = {}
        self._wanted: dict[Aval, int] = {}

    def expect(self, avals: Iterable[Aval]) -> None:
        """Say what one run of a plan takes.

        A loop that computes new arrays from old ones takes as many as it then gives back: all of them are kept.
        """
        for aval, count in Counter(avals).items():
            self._wanted[aval] = max(count, self._wanted.get(aval, self.keep))

    def take(self, aval: Aval) -> Any:
        """A buffer whose values do not matter."""
        spares = self._spares.get(aval)
        return spares.pop() if spares else jnp.empty(*aval)

    def give(self, buffer: Any) -> None:
        """Keep a large buffer that nobody refers to, if there is room for its kind."""
        aval = buffer.shape, buffer.dtype
        spares = self._spares.setdefault(aval, [])
        if len(spares) < self._wanted.get(aval, self.keep) and not buffer.is_deleted():
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
