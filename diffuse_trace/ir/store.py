"""Stores: the distributed arrays of a program, without their data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import ProgramError
from .pattern import Pattern


@dataclass(frozen=True, slots=True)
class Store:
    """A distributed array: an identity, a shape (elements an axis) and a NumPy dtype; of a sparse one its pattern."""

    id: int
    shape: tuple[int, ...]
    dtype: np.dtype
    pattern: Pattern | None = None

    def __post_init__(self) -> None:
        if self.pattern is not None and len(self.shape) != 2:
            raise ProgramError(f"store %{self.id} is sparse and has the shape {self.shape}")
        if self.shape and min(self.shape) < 0:
            raise ProgramError(f"store %{self.id} has a negative extent: {self.shape}")

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, on all ranks together; of a sparse store those of one rank."""
        if self.pattern is not None:
            return self.pattern.nbytes
        return self.size * self.dtype.itemsize
