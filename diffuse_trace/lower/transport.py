"""What lowering asks of communication: exchanges, allreduces and scans that can be traced into an executable.

The runtime supplies a `Transport`; lowering knows neither MPI nor how a message travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Box:
    """Elements of a local buffer: ``offset + sum(index * stride)`` for every index below ``shape``, all in elements.

    ``buffer`` numbers the buffers of the exchange: its sources, then those updated in place, then its results.
    Where ``flag`` is not negative the box travels only if that entry of the ``active`` vector is not 0; sender and
    receiver hold equal vectors.
    """

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    flag: int = -1


@dataclass(frozen=True, slots=True)
class Message:
    """Boxes that go to, or come from, one peer, in an order that both ends derive."""

    peer: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class ExchangeSpec:
    """One exchange on one rank.  ``copies`` stay on the rank: (from, to).  ``itemsizes`` are bytes, by buffer number.

    ``digest`` identifies the plan and the place in it; it is equal on all ranks that run the same program.  ``where``
    is the user's line, for the message when the other end runs something else.
    """

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    copies: tuple[tuple[Box, Box], ...]
    itemsizes: tuple[int, ...]
    digest: int
    where: str

    @property
    def empty(self) -> bool:
        """Whether nothing moves on this rank."""
        return not (self.sends or self.receives or self.copies)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a step has taken: how often it ran, the seconds in all, and those of them that it waited for other ranks."""

    times: float = 0
    seconds: float = 0.0
    waited: float = 0.0


class Marks(Protocol):
    """Clocks within an executable; see `runtime/marks.py`."""

    address: Any

    def begin(self) -> None:
        """The time runs from here."""

    def spent(self) -> list[Spent]:
        """What has been spent up to each mark, since the last question."""

    def mark(self, number: int, arrays: Sequence[Any], address: Any) -> list[Any]:
        """Let arrays pass a mark, in a traced function: it comes after what made them and before what uses them."""


class Transport(Protocol):
    """Communication of one rank, as operations inside one traced function.

    All operations are chained by ``token``, a small array that each takes and gives back: MPI then sees them in the
    same order on every rank.
    """

    rank: int
    size: int

    def token(self) -> Any:
        """What the first operation of the function takes, at each of its calls."""

    def exchange(
        self,
        spec: ExchangeSpec,
        sources: Sequence[Any],
        in_place: Sequence[Any],
        results: Sequence[Any],
        active: Any,
        token: Any,
    ) -> tuple[list[Any], list[Any], Any]:
        """Run an exchange: ``results`` are shapes and dtypes; returns the updated buffers, the results and the
        token."""

    def allreduce(
        self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str, token: Any
    ) -> tuple[Any, Any]:
        """Combine ``array`` elementwise over ``ranks`` (this rank among them) with sum, prod, min or max."""

    def exscan(
        self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str, token: Any
    ) -> tuple[Any, Any]:
        """Combine the arrays of the ranks before this one in ``ranks``; the operator's identity on the first."""

    def marks(self, count: int) -> Marks:
        """Clocks for one executable."""

    def waited(self) -> float:
        """Seconds that this rank has waited for others, noted where it is profiled."""

    def check(self) -> None:
        """Raise what went wrong inside the executables that have run."""
