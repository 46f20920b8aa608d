"""Layouts: how a rank holds its rows of a sparse matrix for products, chosen from their structure.

* `Stencil`: few diagonals, each of one value: the values, and for each row which diagonals it has, in a few bits.
* `Diagonals`: few diagonals, of any values.
* `Kinds` (`kinds.py`): rows that repeat a few patterns of columns and values.
* `Alike` (`alike.py`): rows that repeat sequences of values in any columns.
* `Rows`: slices of eight rows of like length side by side, what is left of longer rows behind them.

The first two are arithmetic on shifted slices, which fuses with what is around it; the others are compiled by Numba
(`handlers.py`).  All are read at the speed of memory, so what counts is how many bytes they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.tree_util as tree
import numpy as np
from jax import lax

from ..lower.kernels import Row
from .alike import Alike
from .kinds import Kinds

#: More diagonals than these are held as rows.
MOST_DIAGONALS = 64
#: Diagonals are worth it up to this much more memory than rows take.
SLACK = 1.2
#: Rows that stand side by side, and the window within which rows are put in order of length.
SLICE = 8
WINDOW = 512


@tree.register_pytree_node_class
@dataclass(frozen=True)
class Stencil:
    """``offsets[k]`` is how far diagonal ``k`` lies from the main one, ``values[k]`` its value.

    Bit ``k`` of ``present`` (an unsigned integer for each row) says whether a row has it; None where all rows have all.
    """

    offsets: tuple[int, ...]
    first: int
    values: Any
    present: Any

    name = "stencil"

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what is static."""
        return (self.values, self.present), (self.offsets, self.first)

    @classmethod
    def tree_unflatten(cls, static: Any, arrays: Any) -> Stencil:
        """From what `tree_flatten` gave."""
        return cls(*static, *arrays)

    def product(self, x: Any, start: int, rows: int) -> Any:
        """The product with a vector of which ``x`` holds the elements from ``start`` on."""
        total = None
        present = None if self.present is None else self.present | _nothing(x).astype(self.present.dtype)
        for k, offset in enumerate(self.offsets):
            part = self.values[k] * _slice(x, self.first + offset - start, rows)
            if present is not None:
                part = jnp.where((present >> k) & 1 != 0, part, jnp.zeros((), part.dtype))
            total = part if total is None else total + part
        return jnp.zeros(rows, x.dtype) if total is None else total

    def row(self) -> Row:
        """A row as loops over rows take it."""
        count = len(self.offsets)
        given = [(self.values, k, 0) for k in range(count)]
        if self.present is not None:
            given.append((self.present, -self.first, 1))

        def make(kept: tuple[int, ...], given: Sequence[Any], elements: Sequence[Any]) -> Any:
            total = jnp.zeros((), given[0].dtype) if not kept else None
            for k, x in zip(kept, elements, strict=True):
                part = given[k] * x
                if self.present is not None:
                    part = jnp.where((given[count] >> k) & 1 != 0, part, jnp.zeros((), part.dtype))
                total = part if total is None else total + part
            return total

        return Row(self.offsets, tuple(given), make)


@tree.register_pytree_node_class
@dataclass(frozen=True)
class Diagonals:
    """``values[k, i]`` is the element of row ``i`` on diagonal ``k``; 0 where it has none."""

    offsets: tuple[int, ...]
    first: int
    values: Any

    name = "diagonals"

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what is static."""
        return (self.values,), (self.offsets, self.first)

    @classmethod
    def tree_unflatten(cls, static: Any, arrays: Any) -> Diagonals:
        """From what `tree_flatten` gave."""
        return cls(*static, *arrays)

    def product(self, x: Any, start: int, rows: int) -> Any:
        """See `Stencil.product`."""
        total = None
        for k, offset in enumerate(self.offsets):
            value = self.values[k]
            # Beyond the vector there may be anything, also NaN, which 0 would not silence.
            part = jnp.where(value != 0, value * _slice(x, self.first + offset - start, rows), jnp.zeros((), x.dtype))
            total = part if total is None else total + part
        return jnp.zeros(rows, x.dtype) if total is None else total

    def row(self) -> Row:
        """See `Stencil.row`."""
        count = self.values.shape[1]
        given = tuple((self.values, k * count - self.first, 1) for k in range(len(self.offsets)))

        def make(kept: tuple[int, ...], given: Sequence[Any], elements: Sequence[Any]) -> Any:
            total = jnp.zeros((), given[0].dtype) if not kept else None
            for k, x in zip(kept, elements, strict=True):
                part = jnp.where(given[k] != 0, given[k] * x, jnp.zeros((), x.dtype))
                total = part if total is None else total + part
            return total

        return Row(self.offsets, given, make)


def _nothing(x: Any) -> Any:
    """A zero that XLA does not know to be one, from an array that changes.

    In a loop that does not change the matrix XLA would otherwise prepare all it can before it: a boolean for each bit,
    which takes more memory to read than the bits.
    """
    if not x.size:
        return jnp.zeros((), jnp.uint8)
    bit = lax.real(x[0]) > 0 if jnp.iscomplexobj(x) else x[0] > 0
    bit = bit.astype(jnp.uint8)
    return bit & (bit ^ 1)


def _slice(x: Any, start: int, count: int) -> Any:
    from ..lower.blocks import window

    return window(x, [(start, 1, count)])


@tree.register_pytree_node_class
@dataclass(frozen=True)
class Rows:
    """Rows in an ``order`` (int32) in which neighbours have like lengths.

    Slice ``s`` begins at ``starts[s]`` (int64) of ``columns`` (int32) and ``values`` with the first ``widths[s]``
    (int32) elements of its `SLICE` rows, element by element side by side; then what is left of each row, ``lengths``
    (int32) long in all.  Columns count the rank's own first, then those in ``ghosts`` (global, int64).
    """

    own: tuple[int, int]
    starts: Any
    widths: Any
    lengths: Any
    order: Any
    columns: Any
    values: Any
    ghosts: Any

    name = "rows"

    def tree_flatten(self) -> tuple[Any, Any]:
        """The arrays, and what is static."""
        arrays = (self.starts, self.widths, self.lengths, self.order, self.columns, self.values, self.ghosts)
        return arrays, self.own

    @classmethod
    def tree_unflatten(cls, static: Any, arrays: Any) -> Rows:
        """From what `tree_flatten` gave."""
        return cls(static, *arrays)

    def product(self, x: Any, rows: int) -> Any:
        """The product with a vector of which ``x`` holds the rank's own elements, then the ghosts."""
        from .handlers import multiply_rows

        return multiply_rows(self, x, rows)

    def row(self) -> None:
        """Their elements lie anywhere."""


Layout = Stencil | Diagonals | Kinds | Alike | Rows


def nbytes(layout: Layout) -> int:
    """Bytes of a layout's arrays."""
    return sum(a.nbytes for a in tree.tree_leaves(layout))


def describe(layout: Layout) -> str:
    """A layout in words."""
    if isinstance(layout, Rows):
        return f"rows side by side, {len(layout.columns)} elements"
    if isinstance(layout, Alike):
        return f"rows of {len(layout.begins) - 1} sequences of values"
    if isinstance(layout, Kinds):
        return f"rows of {len(layout.begins) - 1} kinds"
    count = f"{len(layout.offsets)} diagonal{'s'[: len(layout.offsets) != 1]}"
    return f"{count} of one value each" if isinstance(layout, Stencil) else count


# --- choosing ------------------------------------------------------------------------------------


def diagonal_offsets(indptr: np.ndarray, indices: np.ndarray, first: int, itemsize: int) -> tuple[int, ...] | None:
    """The diagonals of rows from number ``first`` on, where it is worth while to hold them as such; else None."""
    rows = len(indptr) - 1
    if not len(indices):
        return ()
    offset = indices - np.repeat(np.arange(first, first + rows, dtype=indices.dtype), np.diff(indptr))
    low, high = int(offset.min()), int(offset.max())
    if high - low > 64 * (rows + len(indices)):
        return None
    seen = np.zeros(high - low + 1, bool)
    seen[offset - low] = True
    found = np.flatnonzero(seen) + low
    if len(found) > MOST_DIAGONALS or rows * len(found) * itemsize > SLACK * len(indices) * (itemsize + 4):
        return None
    return tuple(int(o) for o in found)


def by_diagonals(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, first: int, offsets: tuple[int, ...]
) -> Stencil | Diagonals:
    """The rows as diagonals; ``offsets`` may name more than there are."""
    count = len(indptr) - 1
    rows = np.repeat(np.arange(count), np.diff(indptr))
    number = {o: k for k, o in enumerate(offsets)}
    low = min(offsets, default=0)
    place = np.zeros(max(offsets, default=0) - low + 1, np.int64)
    for o, k in number.items():
        place[o - low] = k
    diagonal = place[indices - (rows + first) - low] if len(indices) else np.zeros(0, np.int64)
    values = np.zeros((len(offsets), count), data.dtype)
    values[diagonal, rows] = data
    if len(offsets) <= 32:
        present = np.zeros((len(offsets), count), bool)
        present[diagonal, rows] = True
        constants = np.zeros(len(offsets), data.dtype)
        for k in range(len(offsets)):
            some = values[k][present[k]]
            if len(some):
                constants[k] = some[0]
                if not (some == some[0]).all():
                    break
        else:
            if present.all():
                return Stencil(offsets, first, constants, None)
            kind = next(t for t in (np.uint8, np.uint16, np.uint32) if len(offsets) <= 8 * t().itemsize)
            bits: Any = np.zeros(count, kind)
            for k in range(len(offsets)):
                bits = bits | (present[k].astype(kind) << kind(k))
            return Stencil(offsets, first, constants, bits)
    return Diagonals(offsets, first, values)


def by_rows(
    indptr: np.ndarray, columns: np.ndarray, data: np.ndarray, own: tuple[int, int], ghosts: np.ndarray
) -> Rows:
    """The rows in slices; ``columns`` as `Rows` counts them."""
    lengths = np.diff(indptr).astype(np.int64)
    count = len(lengths)
    numbers = np.arange(count)
    if count and int(lengths.min()) == int(lengths.max()):
        order = numbers
    else:
        order = np.lexsort((numbers, -lengths, numbers // WINDOW))
    slices = -(-count // SLICE)
    sorted_lengths = lengths[order]
    padded = np.zeros(slices * SLICE, np.int64)
    padded[:count] = sorted_lengths
    table = padded.reshape(slices, SLICE)
    widths = table.min(axis=1) if slices else np.zeros(0, np.int64)
    totals = table.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(totals)])
    rest = table - widths[:, None]
    behind = np.cumsum(rest, axis=1) - rest + (starts[:-1] + SLICE * widths)[:, None]
    position = np.empty(count, np.int64)
    position[order] = numbers
    row = np.repeat(numbers, lengths)
    at = position[row]
    element = np.arange(len(columns)) - np.repeat(indptr[:-1].astype(np.int64), lengths)
    piece, lane = at // SLICE, at % SLICE
    width = widths[piece]
    target = np.where(element < width, starts[piece] + element * SLICE + lane, behind.reshape(-1)[at] + element - width)
    placed_columns, placed_values = np.zeros(len(columns), np.int32), np.zeros(len(columns), data.dtype)
    placed_columns[target] = columns
    placed_values[target] = data
    return Rows(
        own,
        starts.astype(np.int64),
        widths.astype(np.int32),
        sorted_lengths.astype(np.int32),
        order.astype(np.int32),
        placed_columns,
        placed_values,
        ghosts.astype(np.int64),
    )
