"""Logical stores: what arrays refer to, and the local data behind them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import Partition, Pattern, Store
from .buffers import pool

_ids = itertools.count()


@dataclass(slots=True)
class Data:
    """This rank's part of a store.

    ``buffer`` is the own block with ``margin`` ghost elements at both sides of each axis (`lower.geometry.Layout`);
    ``valid`` holds the shifts (anchor indices along each grid dimension) for which the ghosts hold the neighbours'
    present values.  A buffer belongs to one `Data` only, so it may be donated when that dies.
    """

    buffer: Any
    partition: Partition
    margin: tuple[int, ...]
    valid: frozenset[tuple[int, ...]] = frozenset()
    reusable: bool = False  # whether the buffer is worth keeping as a spare when this dies

    def __del__(self) -> None:
        if self.reusable and self.buffer is not None and pool is not None:
            pool.give(self.buffer)


class LogicalStore:
    """A distributed array as the user's arrays see it: computed (``data``), or pending in a window.

    Arrays hold the only strong references; a window holds weak ones, so a store that no array refers to is dead.
    """

    __slots__ = ("__weakref__", "data", "error", "ir")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype, data: Data | None = None, pattern: Pattern | None = None
    ) -> None:
        self.ir = Store(next(_ids), shape, dtype, pattern)
        self.data = data
        self.error = ""  # why it has no data and never will

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.ir.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.ir.dtype

    def __repr__(self) -> str:
        state = "pending" if self.data is None else f"on {self.data.partition}"
        return f"LogicalStore(%{self.ir.id} {self.dtype}{list(self.shape)}, {state})"
