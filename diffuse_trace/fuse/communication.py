"""What a read needs from other ranks: nothing, a halo around the own block, or a block laid out anew."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir import Access, Partition, Pattern, Pinned, Split, Spread


@dataclass(frozen=True, slots=True)
class Local:
    """Every element lies on the rank that reads it."""


@dataclass(frozen=True, slots=True)
class Halo:
    """The elements lie ``shifts[g]`` anchor indices away along each dimension ``g`` of the grid."""

    shifts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """The elements lie elsewhere: the view is laid out anew over the partition of the task."""

    reason: str


@dataclass(frozen=True, slots=True)
class Halos:
    """The halos of several ``shifts``: for a product with a banded matrix as far below and above as it reaches."""

    shifts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Overlap:
    """The elements lie ``shifts`` away, as with `Halo`, in a temporary: this rank computes them too (`overlap.py`)."""

    shifts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Gather:
    """A product with a sparse matrix: the elements that the rank's rows of its pattern name."""

    pattern: Pattern


Need = Local | Halo | Halos | Overlap | Move | Gather


def crosses(need: Need) -> bool:
    """Whether elements come from other ranks."""
    return not isinstance(need, Local | Overlap)


def shifts_of(need: Need) -> tuple[tuple[int, ...], ...]:
    """The shifts of the halos that a need asks for."""
    return (need.shifts,) if isinstance(need, Halo) else need.shifts if isinstance(need, Halos) else ()


def _cut(partition: Partition) -> list[tuple[int, Split | Pinned | Spread]]:
    """The dimensions along which there is more than one piece, with their numbers."""
    return [(g, d) for g, d in enumerate(partition.dims) if d.parts > 1]


def need(access: Access, store: Partition, task: Partition, max_halo: int) -> Need:
    """Compare where a store lies with where a task reads it; constant time.

    A halo is a shift of at most ``max_halo`` along cut dimensions of the same grid.  Larger shifts, other steps, other
    axes and other grids move the view.
    """
    here = store.pull(access.view)
    if here.replicated or here == task or access.store.pattern is not None:
        return Local()
    ours, theirs = _cut(here), _cut(task)
    if [d.parts for _, d in ours] != [d.parts for _, d in theirs]:
        return Move(f"it lies over a grid of {here.grid or 1} and is read over {task.grid or 1}")
    shifts = [0] * len(here.dims)
    for (g, a), (_, b) in zip(ours, theirs, strict=True):
        match a, b:
            case Spread(), _:
                pass
            case Split(), Split() if (a.axis, a.extent, a.step) == (b.axis, b.extent, b.step):
                shifts[g] = a.offset - b.offset
            case Pinned(), Pinned() if (a.extent, a.index) == (b.extent, b.index):
                pass
            case Pinned(), Pinned():
                # One row for one row: a halo would bring all that lie between.
                return Move(f"it lies at index {a.index} and is read at {b.index} along grid dimension {g}")
            case _:
                return Move(f"it is laid out otherwise along grid dimension {g}")
    if any(abs(s) > max_halo for s in shifts):
        return Move(f"it is read {max(shifts, key=abs)} elements away, more than max_halo={max_halo}")
    return Halo(tuple(shifts)) if any(shifts) else Local()


def product_need(access: Access, store: Partition, matrix: Access, rows: Partition) -> Need:
    """What a product of a sparse matrix, cut by rows, needs of a vector along its columns.

    The vector must lie in balanced blocks along the columns; from elsewhere all of it is moved to every rank.
    """
    pattern = matrix.store.pattern
    assert pattern is not None
    here = store.pull(access.view)
    if here.replicated:
        return Local()
    columns = matrix.store.shape[1]
    cut = _cut(here)
    if len(cut) != 1 or cut[0][1] != Split(1, math.prod(rows.grid), columns):
        return Move("it does not lie in balanced blocks along the columns of the matrix")
    if pattern.halo is None:
        return Gather(pattern)
    g = cut[0][0]
    sides = (-pattern.halo[0], pattern.halo[1])
    shifts = tuple(tuple(s if d == g else 0 for d in range(len(here.dims))) for s in sides if s)
    return Halos(shifts) if shifts else Local()
