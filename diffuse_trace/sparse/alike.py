"""Rows of like values: a layout for matrices whose rows repeat sequences of values in columns that lie anywhere.

Finite elements on meshes that were refined uniformly give such matrices: the rows of all vertices within one element
of the first mesh have the same values.  Values are kept once for each sequence, and eight rows of one sequence
stand side by side, so that little more than their columns is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.tree_util as tree
import numpy as np

#: Rows that stand side by side.
SLICE = 8
#: Of so many rows those of one sequence are brought together: what they read of the vector is to stay in the cache.
_WINDOW = 1 << 13
#: The least part of the elements that must stand in slices.
_MOST = 0.5


@tree.register_pytree_node_class
@dataclass(frozen=True)
class Alike:
    """Rows in an ``order`` (int32): first slices of `SLICE` rows of one sequence, then the others.

    Slice ``s`` has sequence ``which[s]`` (int32), whose values are those from ``begins[which[s]]`` (int64) to that of
    the next in ``values``.  The columns (int32) of its rows stand side by side, element by element, slice after slice.
    Row ``r`` of the others has the elements from ``ends[r]`` (int64) to ``ends[r + 1]`` of ``other_columns`` (int32)
    and ``other_values``.  Columns count as in `layouts.Rows`.
    """

    own: tuple[int, int]
    which: Any
    begins: Any
    values: Any
    columns: Any
    order: Any
    ends: Any
    other_columns: Any
    other_values: Any
    ghosts: Any

    name = "alike"

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the product reads."""
        slices = self.which, self.begins, self.values, self.columns, self.order
        return (*slices, self.ends, self.other_columns, self.other_values)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what is static."""
        return (*self.arrays, self.ghosts), self.own

    @classmethod
    def tree_unflatten(cls, static: Any, arrays: Any) -> Alike:
        """From what `tree_flatten` gave."""
        return cls(static, *arrays)

    def product(self, x: Any, rows: int) -> Any:
        """The product with a vector of which ``x`` holds the rank's own elements, then the ghosts."""
        from .handlers import multiply_alike

        return multiply_alike(self, x, rows)

    def row(self) -> None:
        """Their elements lie anywhere."""


def by_values(
    indptr: np.ndarray, columns: np.ndarray, data: np.ndarray, own: tuple[int, int], ghosts: np.ndarray
) -> Alike | None:
    """The rows by their values, where most repeat them; ``columns`` as `layouts.Rows` counts them."""
    lengths = np.diff(indptr).astype(np.int64)
    count = len(lengths)
    if not count or not len(columns):
        return None
    first, sequence = _sequences(indptr, lengths, data)
    window = np.arange(count) // _WINDOW
    order = np.lexsort((np.arange(count), sequence, window))
    starts = np.flatnonzero(np.r_[True, (np.diff(sequence[order]) != 0) | (np.diff(window[order]) != 0)])
    sizes = np.diff(np.r_[starts, count])
    place = np.arange(count) - np.repeat(starts, sizes)  # among those of the same sequence
    side = place < np.repeat(sizes // SLICE * SLICE, sizes)
    if lengths[order[side]].sum() < _MOST * len(columns):
        return None
    order = np.concatenate([order[side], order[~side]])
    sliced = int(side.sum())
    which = sequence[order[:sliced:SLICE]]
    used, which = np.unique(which, return_inverse=True)
    begins = np.concatenate([[0], np.cumsum(lengths[first[used]])])
    at, element = _elements(lengths[order])
    source = indptr[order[at]] + element
    inside = at < sliced
    widths = lengths[order[:sliced:SLICE]]
    before = np.cumsum(widths) - widths
    placed = np.zeros(SLICE * int(widths.sum()), np.int32)
    slice_of, lane = at[inside] // SLICE, at[inside] % SLICE
    placed[(before[slice_of] + element[inside]) * SLICE + lane] = columns[source[inside]]
    kept, number = _elements(lengths[first[used]])
    return Alike(
        own,
        which.astype(np.int32),
        begins.astype(np.int64),
        data[indptr[first[used]][kept] + number],
        placed,
        order.astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths[order[sliced:]])]).astype(np.int64),
        columns[source[~inside]].astype(np.int32),
        data[source[~inside]],
        ghosts.astype(np.int64),
    )


def _elements(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row and the place in it of each element of rows of some lengths."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _sequences(indptr: np.ndarray, lengths: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A row of each sequence of values, and the sequence of each row.  Values are alike where their bits are."""
    words = np.ascontiguousarray(data).view(np.uint64 if data.dtype.itemsize >= 8 else f"u{data.dtype.itemsize}")
    words = words.reshape(len(data), -1).astype(np.uint64)
    row, place = _elements(lengths)
    factors = _factors(int(lengths.max()), words.shape[1])
    scrambled = ((words ^ (words >> np.uint64(31))) * factors[place]).sum(axis=1)
    sums = lengths.astype(np.uint64)
    filled = lengths > 0
    sums[filled] += np.add.reduceat(scrambled, indptr[:-1][filled])
    _, first, sequence = np.unique(sums, return_index=True, return_inverse=True)
    # Sums may be equal by chance: such rows are sequences of their own.
    example = first[sequence]
    there = np.minimum(indptr[example][row] + place, len(data) - 1)
    unlike = (words != words[there]).any(axis=1)
    odd = np.flatnonzero((lengths != lengths[example]) | (np.bincount(row, unlike, len(lengths)) > 0))
    sequence[odd] = len(first) + np.arange(len(odd))
    return np.concatenate([first, odd]), sequence


def _factors(places: int, words: int) -> np.ndarray:
    """Odd numbers that make sums of different sequences different."""
    return np.random.default_rng(1).integers(0, 2**63, (places, words), np.uint64) * np.uint64(2) + np.uint64(1)
