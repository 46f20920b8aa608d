"""What a read needs from other ranks: nothing, a halo around the own block, or a block laid out anew."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Access, Partition, Pinned, Split, Spread


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


Need = Local | Halo | Move


def need(access: Access, store: Partition, task: Partition, max_halo: int) -> Need:
    """Compare where a store lies with where a task reads it; constant time.

    A halo is a shift of at most ``max_halo`` along cut dimensions of the same grid.  Larger shifts, other steps, other
    axes and other grids move the view.
    """
    here = store.pull(access.view)
    if here.replicated or here == task:
        return Local()
    if here.grid != task.grid:
        return Move(f"it lies over a grid of {here.grid or 1} and is read over {task.grid or 1}")
    shifts = []
    for g, (a, b) in enumerate(zip(here.dims, task.dims, strict=True)):
        match a, b:
            case _ if a.parts == 1:
                shifts.append(0)  # every rank has all of it
            case Spread(), _:
                shifts.append(0)
            case Split(), Split() if (a.axis, a.extent, a.step) == (b.axis, b.extent, b.step):
                shifts.append(a.offset - b.offset)
            case Pinned(), Pinned() if (a.extent, a.index) == (b.extent, b.index):
                shifts.append(0)
            case Pinned(), Pinned():
                # One row for one row: a halo would bring all that lie between.
                return Move(f"it lies at index {a.index} and is read at {b.index} along grid dimension {g}")
            case _:
                return Move(f"it is laid out otherwise along grid dimension {g}")
    if any(abs(s) > max_halo for s in shifts):
        return Move(f"it is read {max(shifts, key=abs)} elements away, more than max_halo={max_halo}")
    return Halo(tuple(shifts)) if any(shifts) else Local()
