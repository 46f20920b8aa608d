"""What the steps of a plan work on while they are traced: pieces by key, slots, scalars and the token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from ..ir import Partition, Pattern, View
from .blocks import Piece, none_after
from .transport import Marks, Transport


@dataclass(frozen=True, slots=True)
class Key:
    """A value of the environment: a version, a view of one laid out over another partition, or what has been gathered
    of one for a pattern."""

    version: int
    view: View | None = None
    partition: Partition | None = None
    pattern: Pattern | None = None


@dataclass(frozen=True)
class Clocks:
    """Marks behind the steps within regions, so that a profile can tell what each takes."""

    marks: Marks
    numbers: dict[int, int]  # of each step, by its identity


@dataclass
class State:
    """What steps work on while they are traced.

    ``slots`` are donated buffers, in which results are built; ``readers`` names what loops have made that read what
    is in a slot now; ``in_memory`` what is surely stored, and not computed anew by XLA where it is read.  ``vectors``
    are the arrays in which operands came, and their places there.  ``ticket`` is an int32 of at most 0 that is known
    once all calls of loops so far are over.
    """

    pieces: dict[Key, Piece]
    slots: list[Any]
    operands: Sequence[Any]
    transport: Transport
    active: Any
    token: Any
    readers: dict[int, list[Key]] = field(default_factory=dict)
    vectors: Sequence[tuple[Any, int]] = ()
    clocks: tuple[Clocks, Any] | None = None  # and the address of the marks
    outside: frozenset[int] = frozenset()  # identities of arrays that a region only reads
    in_memory: set[Key] = field(init=False)
    ticket: Any = field(init=False)

    def __post_init__(self) -> None:
        self.in_memory = set(self.pieces)
        self.ticket = self.active[-1]

    def inside(self, slots: list[Any], token: Any) -> State:
        """What the steps of a region work on."""
        return State(
            dict(self.pieces),
            slots,
            self.operands,
            self.transport,
            self.active,
            token,
            vectors=self.vectors,
            clocks=self.clocks,
            outside=frozenset(id(piece.array) for piece in self.pieces.values()),
        )

    def passed(self, step: Step) -> None:
        """Note the time once a step is over, where it is asked for: all that a region has made passes a mark."""
        if self.clocks is None:
            return
        clocks, address = self.clocks
        found = {id(a): a for a in (*(p.array for p in self.pieces.values()), *self.slots) if isinstance(a, jax.Array)}
        old = [array for number, array in found.items() if array.size and number not in self.outside]
        chained = [self.ticket] if self.token is None else [self.ticket, self.token]
        new = clocks.marks.mark(clocks.numbers[id(step)], [*chained, *old], address)
        self.ticket = new.pop(0)
        self.token = new.pop(0) if self.token is not None else None
        for before, after in zip(old, new, strict=True):
            self.replace(before, after)

    def readers_done(self, slots: Iterable[int]) -> Any:
        """An int32 of at most 0 that is known once all have read what is in some slots."""
        keys = [key for slot in slots for key in self.readers.pop(slot, [])]
        return none_after([self.pieces[key].array for key in keys], self.ticket)

    def has_read(self, reader: Key, pieces: Iterable[Piece]) -> None:
        """Note which slots hold what ``reader`` has been computed from."""
        arrays = {id(piece.array) for piece in pieces}
        for slot, buffer in enumerate(self.slots):
            if buffer is not None and id(buffer) in arrays:
                self.readers.setdefault(slot, []).append(reader)

    def replace(self, old: Any, new: Any) -> None:
        """Use the ``new`` array wherever the ``old`` one stands."""
        for key, piece in self.pieces.items():
            if piece.array is old:
                self.pieces[key] = Piece(new, piece.region)
        self.slots = [new if array is old else array for array in self.slots]


class Step:
    """One step; ``uses`` and ``makes`` are the keys that it reads and sets, ``updates`` those that it changes in
    place."""

    uses: tuple[Key, ...] = ()
    makes: tuple[Key, ...] = ()
    updates: tuple[Key, ...] = ()
    communicates = False
    name = ""

    def run(self, state: State) -> None:
        """Trace the step."""
        raise NotImplementedError
