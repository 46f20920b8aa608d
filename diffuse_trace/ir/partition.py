"""Partitions: how a store, or the index space of a task, is laid out over the process grid.

A partition says for each dimension of the grid how the array lies along it: `Split` along one of its
axes, `Pinned` to the one coordinate that owns an index, or `Spread` (a copy at each coordinate).  Blocks
are those of an *anchor*: an axis of ``extent`` elements in ``parts`` balanced blocks, of which the array
sees the indices ``offset + step * j``.  So ``u[1:-1]`` lies exactly where ``u`` lies, although ``n`` and ``n - 2``
would be cut differently.  Equality is that of a few integers, whatever the number of ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from ..errors import ProgramError
from .view import View


@dataclass(frozen=True, slots=True)
class Split:
    """Axis ``axis`` of the array is cut: index ``j`` lies with anchor index ``offset + step * j``."""

    axis: int
    parts: int
    extent: int
    offset: int = 0
    step: int = 1

    def __post_init__(self) -> None:
        if self.parts < 1 or self.extent < 0 or self.step == 0:
            raise ProgramError(f"impossible {self}")

    def bound(self, coordinate: int) -> int:
        """First anchor index of the block at ``coordinate``."""
        return coordinate * self.extent // self.parts

    def owner(self, anchor: int) -> int:
        """The coordinate whose block holds an anchor index (0 <= anchor < extent)."""
        return ((anchor + 1) * self.parts - 1) // self.extent

    def preimage(self, low: int, high: int) -> tuple[int, int]:
        """The indices ``[low, high)`` of the array whose anchor indices lie in ``[low, high)``."""
        low, high = low - self.offset, high - self.offset
        if self.step > 0:
            return -(-low // self.step), -(-high // self.step)
        # Backwards: low <= step * j <= high - 1.
        return -(-(high - 1) // self.step), low // self.step + 1

    def interval(self, coordinate: int) -> tuple[int, int]:
        """The indices ``[low, high)`` of the block at ``coordinate``; not cut to the array's own extent."""
        return self.preimage(self.bound(coordinate), self.bound(coordinate + 1))


@dataclass(frozen=True, slots=True)
class Pinned:
    """The array lies with anchor index ``index`` only: one coordinate of this grid dimension owns it."""

    parts: int
    extent: int
    index: int

    def owner(self) -> int:
        """The coordinate whose block holds the index."""
        return ((self.index + 1) * self.parts - 1) // self.extent


@dataclass(frozen=True, slots=True)
class Spread:
    """Every coordinate of this grid dimension holds a copy."""

    parts: int


Dim = Split | Pinned | Spread


@dataclass(frozen=True, slots=True)
class Partition:
    """One `Dim` for each dimension of the process grid; none at all for `REPLICATED`."""

    dims: tuple[Dim, ...]

    def __post_init__(self) -> None:
        axes = [d.axis for d in self.dims if isinstance(d, Split)]
        if len(set(axes)) != len(axes):
            raise ProgramError(f"{self} splits an axis twice")

    @property
    def grid(self) -> tuple[int, ...]:
        """Coordinates of each grid dimension."""
        return tuple(d.parts for d in self.dims)

    @property
    def replicated(self) -> bool:
        """Whether every rank holds everything."""
        return all(isinstance(d, Spread) for d in self.dims)

    def complete(self, shape: tuple[int, ...]) -> bool:
        """Whether every element of an array of ``shape`` has an owner: its anchor indices are all within the anchor."""
        for d in self.dims:
            if isinstance(d, Split) and shape[d.axis]:
                last = d.offset + d.step * (shape[d.axis] - 1)
                if not (0 <= d.offset < d.extent and 0 <= last < d.extent):
                    return False
            elif isinstance(d, Pinned) and not 0 <= d.index < d.extent:
                return False
        return True

    def simplified(self) -> Partition:
        """`REPLICATED` where nothing is split or pinned, else this."""
        return REPLICATED if self.replicated else self

    def pull(self, view: View) -> Partition:
        """The partition of the view's domain under which every element lies where its store element lies."""
        dims: list[Dim] = []
        for d in self.dims:
            if not isinstance(d, Split):
                dims.append(d)
                continue
            a = view.axes[d.axis]
            at = d.offset + d.step * a.offset
            if a.source is None:
                dims.append(Pinned(d.parts, d.extent, at))
            else:
                dims.append(Split(a.source, d.parts, d.extent, at, d.step * a.step))
        return Partition(tuple(dims))

    def push(self, view: View) -> Partition | None:
        """The partition of the store of which `pull` gives this one; None where there is none such."""
        dims: list[Dim] = []
        if any(a.source is None for a in view.axes):
            return None
        axis_of = {a.source: (k, a) for k, a in enumerate(view.axes)}
        for d in self.dims:
            if not isinstance(d, Split):
                dims.append(d)
            elif d.axis not in axis_of:
                return None
            else:
                k, a = axis_of[d.axis]
                if d.step % a.step:
                    return None
                step = d.step // a.step
                dims.append(Split(k, d.parts, d.extent, d.offset - step * a.offset, step))
        return Partition(tuple(dims))

    def reduced(self, view: View) -> Partition:
        """The partition of a store into which a task launched over this one reduces through ``view``."""
        kept = {a.source: k for k, a in enumerate(view.axes)}
        dims: list[Dim] = []
        for d in self.dims:
            if isinstance(d, Split) and d.axis in kept:
                dims.append(Split(kept[d.axis], d.parts, d.extent, d.offset, d.step))
            else:
                dims.append(Spread(d.parts))
        return Partition(tuple(dims)).simplified()

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """The grid coordinates of a rank, last dimension fastest."""
        result = []
        for n in reversed(self.grid):
            rank, c = divmod(rank, n)
            result.append(c)
        return tuple(reversed(result))

    def rank(self, coordinates: tuple[int, ...]) -> int:
        """The rank at grid coordinates."""
        rank = 0
        for n, c in zip(self.grid, coordinates, strict=True):
            rank = rank * n + c
        return rank

    def block(self, shape: tuple[int, ...], coordinates: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """The half-open interval ``(low, high)`` of each axis that the piece at ``coordinates`` holds."""
        intervals = [(0, n) for n in shape]
        for d, c in zip(self.dims, coordinates, strict=True):
            if isinstance(d, Split):
                low, high = d.interval(c)
                n = shape[d.axis]
                low, high = min(max(low, 0), n), min(max(high, 0), n)
                intervals[d.axis] = (low, max(low, high))
            elif isinstance(d, Pinned) and d.owner() != c:
                return tuple((0, 0) for _ in shape)
        return tuple(intervals)

    def holds(self, coordinates: tuple[int, ...]) -> bool:
        """Whether the piece at ``coordinates`` is the owner as far as pinned dimensions are concerned."""
        return all(not isinstance(d, Pinned) or d.owner() == c for d, c in zip(self.dims, coordinates, strict=True))


REPLICATED = Partition(())


@lru_cache(maxsize=1024)
def dims_create(ranks: int, ndim: int) -> tuple[int, ...]:
    """Balanced factors of ``ranks``, largest first, as ``MPI_Dims_create`` gives them."""
    if ndim == 0:
        return ()
    if ndim == 1:
        return (ranks,)
    best: tuple[int, ...] | None = None
    for first in range(1, ranks + 1):
        if ranks % first == 0:
            rest = dims_create(ranks // first, ndim - 1)
            if first >= rest[0]:
                candidate = (first, *rest)
                if best is None or max(candidate) - min(candidate) < max(best) - min(best):
                    best = candidate
    assert best is not None
    return best


#: An axis this many times shorter than the longest one is not cut (a state index, a colour, a vector component).
SHORT = 16


@lru_cache(maxsize=4096)
def canonical(shape: tuple[int, ...], ranks: int, grid: tuple[int, ...] = ()) -> Partition:
    """The partition a new array of ``shape`` gets: balanced blocks over a balanced process grid.

    ``grid`` overrides the process grid for arrays of as many dimensions.  Axes much shorter than the longest are
    not cut, whatever the number of ranks.
    """
    if math.prod(shape) == 0 or not shape:
        # Nothing to own: every rank holds the empty array (or the one value of a 0-d array).
        return REPLICATED
    if len(grid) == len(shape) and math.prod(grid) == ranks:
        parts = list(grid)
    else:
        cut = [k for k, n in enumerate(shape) if n * SHORT > max(shape)]
        parts = [1] * len(shape)
        for k, p in zip(cut, dims_create(ranks, len(cut)), strict=True):
            parts[k] = p
    return Partition(tuple(Split(k, p, n) for k, (p, n) in enumerate(zip(parts, shape, strict=True))))
