"""Rows of few kinds: a layout for matrices whose rows repeat a few patterns, as restrictions and prolongations do.

A row is a kind, and the column of its first element; elements are columns relative to that and values, once for each
kind.  A row takes nine bytes, however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.tree_util as tree
import numpy as np

#: More kinds than these do not fit a byte.
MOST = 256
#: Bytes of a row: its kind, its first column and its number.
_ROW = 9
#: Rows that are looked at to see whether there may be few kinds.
_SAMPLE = 4096
#: Rows that are put in order of their kinds together.
_WINDOW = 512


@tree.register_pytree_node_class
@dataclass(frozen=True)
class Kinds:
    """Rows in an ``order`` (int32) in which neighbours are of like kinds.

    Row ``i`` of these is of kind ``which[i]`` (uint8), and its columns are relative to ``firsts[i]`` (int32).  Kind
    ``k`` has the elements from ``begins[k]`` (int64) to ``begins[k + 1]`` of ``shifts`` (int32) and ``values``.
    Columns count as in `layouts.Rows`.
    """

    own: tuple[int, int]
    begins: Any
    shifts: Any
    values: Any
    which: Any
    firsts: Any
    order: Any
    ghosts: Any

    name = "kinds"

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what is static."""
        arrays = (self.begins, self.shifts, self.values, self.which, self.firsts, self.order, self.ghosts)
        return arrays, self.own

    @classmethod
    def tree_unflatten(cls, static: Any, arrays: Any) -> Kinds:
        """From what `tree_flatten` gave."""
        return cls(static, *arrays)

    def product(self, x: Any, rows: int) -> Any:
        """The product with a vector of which ``x`` holds the rank's own elements, then the ghosts."""
        from .handlers import multiply_kinds

        return multiply_kinds(self, x, rows)

    def row(self) -> None:
        """Their elements lie anywhere."""


def by_kinds(
    indptr: np.ndarray, columns: np.ndarray, data: np.ndarray, own: tuple[int, int], ghosts: np.ndarray
) -> Kinds | None:
    """The rows by kinds, where they take much less memory so; ``columns`` as `layouts.Rows` counts them."""
    lengths = np.diff(indptr)
    count = len(lengths)
    element = 4 + data.dtype.itemsize  # bytes, its column included
    if not count or 2 * _ROW * count > element * len(columns):
        return None
    firsts = np.zeros(count, np.int64)
    filled = lengths > 0
    firsts[filled] = columns[indptr[:-1][filled]]
    relative = columns - np.repeat(firsts, lengths)
    few = min(count, _SAMPLE)
    if _numbered(indptr[: few + 1], lengths[:few], relative, data) is None:
        return None
    found = _numbered(indptr, lengths, relative, data)
    if found is None:
        return None
    which, samples = found
    begins = np.concatenate([[0], np.cumsum(lengths[samples])]).astype(np.int64)
    if 2 * (_ROW * count + element * int(begins[-1])) > element * len(columns):
        return None
    elements = np.concatenate([np.arange(indptr[i], indptr[i + 1]) for i in samples])
    numbers = np.arange(count)
    order = np.lexsort((numbers, which, numbers // _WINDOW))
    return Kinds(
        own,
        begins,
        relative[elements].astype(np.int32),
        data[elements],
        which[order].astype(np.uint8),
        firsts[order].astype(np.int32),
        order.astype(np.int32),
        ghosts.astype(np.int64),
    )


def _numbered(
    indptr: np.ndarray, lengths: np.ndarray, relative: np.ndarray, data: np.ndarray
) -> tuple[np.ndarray, list[int]] | None:
    """The kind of each row, and a row of each kind; None where there are too many."""
    which, samples = np.zeros(len(lengths), np.int64), list[int]()
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        elements = indptr[rows][:, None] + np.arange(length)
        # Values are alike where their bits are.
        bits = np.ascontiguousarray(data[elements]).view(np.uint8).reshape(len(rows), -1)
        parts = np.concatenate([np.ascontiguousarray(relative[elements]).view(np.uint8), bits], axis=1)
        kinds = np.zeros(len(rows), np.int64)
        if length:
            packed = parts.view(np.dtype((np.void, parts.shape[1]))).reshape(-1)
            _, some, kinds = np.unique(packed, return_index=True, return_inverse=True)
            rows_of = rows[some]
        else:
            rows_of = rows[:1]
        which[rows] = kinds + len(samples)
        samples += rows_of.tolist()
        if len(samples) > MOST:
            return None
    return which, samples
