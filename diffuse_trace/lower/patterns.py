"""What a rank knows of the patterns of sparse stores: which elements of a vector it sends and gets for a product."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ProgramError
from ..ir import Pattern


@dataclass(frozen=True, eq=False)
class Lists:
    """The elements of vectors that travel for one pattern, on this rank.

    ``indices`` (int32) are those of the own block that are sent, peer after peer; ``sends`` and ``receives`` hold
    (peer, number of elements), by peer.
    """

    indices: np.ndarray
    sends: tuple[tuple[int, int], ...]
    receives: tuple[tuple[int, int], ...]

    @property
    def ghosts(self) -> int:
        """How many elements come."""
        return sum(count for _, count in self.receives)

    @property
    def sent(self) -> int:
        """How many elements go."""
        return len(self.indices)

    def pack(self, own: Any) -> Any:
        """What is sent of a vector, given the own block."""
        return own.at[self.indices].get(mode="promise_in_bounds")


_numbers = itertools.count(1)
_lists: dict[int, Lists | None] = {}


def register_pattern(
    halo: tuple[int, int] | None = None,
    lists: Lists | None = None,
    *,
    ghosts: int = 0,
    nbytes: int = 0,
    layout: str = "",
) -> Pattern:
    """A new pattern, under the same number on all ranks: call it in the same order on each.

    Args:
        halo, ghosts, nbytes, layout: see `Pattern`; equal on all ranks.
        lists: what this rank sends and gets where there is no ``halo``.
    """
    pattern = Pattern(next(_numbers), halo, ghosts, nbytes, layout)
    _lists[pattern.number] = lists
    return pattern


def forget_pattern(pattern: Pattern) -> None:
    """Free the lists of a pattern that no store has any more; plans that were made with it keep theirs."""
    _lists.pop(pattern.number, None)


def local(pattern: Pattern) -> Lists:
    """This rank's lists of a pattern."""
    found = _lists.get(pattern.number)
    if found is None:
        raise ProgramError(f"nothing is known here of the elements that pattern {pattern.number} names")
    return found
