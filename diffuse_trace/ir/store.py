"""Stores: the distributed arrays of a program, without their data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import ProgramError


@dataclass(frozen=True, slots=True)
class Store:
    """A distributed array: an identity, a shape (elements an axis) and a NumPy dtype."""

    id: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def __post_init__(self) -> None:
        if self.shape and min(self.shape) < 0:
            raise ProgramError(f"store %{self.id} has a negative extent: {self.shape}")

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, on all ranks together."""
        return self.size * self.dtype.itemsize
