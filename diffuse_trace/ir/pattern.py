"""Patterns: where a sparse store has elements, as far as planning needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import ProgramError


@dataclass(frozen=True, slots=True)
class Pattern:
    """The sparsity of a 2-D store, which is cut by rows; equal on all ranks.

    ``number`` identifies it.  ``halo`` says how far columns lie below and above the row that they are in, where a halo
    of a vector that is cut like the rows brings all that a product needs; with None each rank gets just
    the elements that its rows name: ``ghosts`` from other ranks, at most.  ``nbytes`` are those of the rank with most,
    ``layout`` says how they are held.
    """

    number: int
    halo: tuple[int, int] | None = None
    ghosts: int = field(default=0, compare=False)
    nbytes: int = field(default=0, compare=False)
    layout: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.number < 0 or (self.halo is not None and min(self.halo) < 0):
            raise ProgramError(f"impossible {self}")
