"""Regions: loops and branches over some of a program's tasks.

A program's tasks stay one flat sequence.  A region names two intervals of it: of a loop the tasks that decide whether
there is another trip, then those of the trip; of a branch those of either arm.  So every analysis of tasks, views
and accesses holds inside regions as outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..errors import ProgramError
from .store import Store


@dataclass(frozen=True, slots=True)
class Carried:
    """What a loop hands from trip to trip.

    ``inside`` is the store as a trip finds it, and what is left after the loop; before the first trip it holds
    ``initial``, and before each other one what the last trip left in ``result``.  All three are one store where the
    trips update an array in place.
    """

    initial: Store
    inside: Store
    result: Store

    def stores(self) -> tuple[Store, Store, Store]:
        """The three, in this order."""
        return self.initial, self.inside, self.result

    def renamed(self, stores: dict[int, Store]) -> Carried:
        """The same with other stores, by id."""
        return Carried(*(stores[s.id] for s in self.stores()))


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a branch leaves in ``final``: what one of its arms left in ``first`` or the other in ``second``."""

    first: Store
    second: Store
    final: Store

    def stores(self) -> tuple[Store, Store, Store]:
        """The three, in this order."""
        return self.first, self.second, self.final

    def renamed(self, stores: dict[int, Store]) -> Chosen:
        """The same with other stores, by id."""
        return Chosen(*(stores[s.id] for s in self.stores()))


@dataclass(frozen=True, slots=True)
class Region:
    """A loop or a branch: tasks ``[start, middle)`` and ``[middle, stop)``.

    ``predicate`` is a 0-d boolean store: of a loop one that the first part makes before each trip, of a branch one
    that is there before.  A region lies in part ``arm`` of region ``parent``, or in none (-1).
    """

    start: int
    middle: int
    stop: int
    predicate: Store
    parent: int = -1
    arm: int = 0
    line: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.middle <= self.stop or self.arm not in (0, 1):
            raise ProgramError(f"impossible region over tasks {self.start}, {self.middle}, {self.stop}")
        if self.predicate.shape or self.predicate.dtype.kind != "b":
            raise ProgramError(f"the predicate %{self.predicate.id} is {self.predicate.dtype}{self.predicate.shape}")
        for value in self.values():
            kinds = {(s.shape, s.dtype) for s in value.stores()}
            if len(kinds) != 1:
                raise ProgramError(f"stores {[s.id for s in value.stores()]} stand for each other and differ: {kinds}")

    def values(self) -> Sequence[Carried | Chosen]:
        """What the region hands on."""
        raise NotImplementedError

    def stores(self) -> Iterator[Store]:
        """The stores that the region itself names."""
        yield self.predicate
        for value in self.values():
            yield from value.stores()

    def renamed(self, stores: dict[int, Store]) -> Region:
        """The same region with other stores, by id."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Loop(Region):
    """Tasks that are repeated while the predicate holds.

    ``counter`` and ``bound`` are two 0-d integer stores where a trip comes exactly if the one (carried, and one more
    after each trip) is less than the other: the compiler may then take two trips at once.
    """

    carried: tuple[Carried, ...] = ()
    counter: Store | None = None
    bound: Store | None = None

    def values(self) -> Sequence[Carried]:
        """What is carried."""
        return self.carried

    def stores(self) -> Iterator[Store]:
        """The stores that the loop itself names."""
        yield self.predicate
        for value in self.carried:
            yield from value.stores()
        yield from (s for s in (self.counter, self.bound) if s is not None)

    def renamed(self, stores: dict[int, Store]) -> Loop:
        """The same loop with other stores, by id."""
        counter, bound = (None if s is None else stores[s.id] for s in (self.counter, self.bound))
        carried = tuple(value.renamed(stores) for value in self.carried)
        return replace(self, predicate=stores[self.predicate.id], carried=carried, counter=counter, bound=bound)


@dataclass(frozen=True, slots=True)
class Branch(Region):
    """The first tasks where the predicate holds, else the second."""

    chosen: tuple[Chosen, ...] = ()

    def values(self) -> Sequence[Chosen]:
        """What is chosen."""
        return self.chosen

    def renamed(self, stores: dict[int, Store]) -> Branch:
        """The same branch with other stores, by id."""
        chosen = tuple(value.renamed(stores) for value in self.chosen)
        return replace(self, predicate=stores[self.predicate.id], chosen=chosen)


Item = int | tuple[int, "Block", "Block"]


@dataclass(frozen=True, slots=True)
class Block:
    """Tasks (by number) and regions (number, first and second part) in program order."""

    items: tuple[Item, ...]

    def stretches(self) -> Iterator[list[int] | tuple[int, Block, Block]]:
        """Runs of tasks, also empty ones, with a region between each two."""
        run: list[int] = []
        for item in self.items:
            if isinstance(item, int):
                run.append(item)
            else:
                yield run
                yield item
                run = []
        yield run


def nest(tasks: int, regions: Sequence[Region]) -> Block:
    """The tree of a program's tasks and regions.  Raises `ProgramError` where regions overlap or leave their parent."""
    children: dict[tuple[int, int], list[int]] = {}
    for number, region in enumerate(regions):
        if region.parent >= number:
            raise ProgramError(f"region {number} stands before its parent {region.parent}")
        children.setdefault((region.parent, region.arm if region.parent >= 0 else 0), []).append(number)

    def block(owner: tuple[int, int], start: int, stop: int) -> Block:
        items: list[Item] = []
        at = start
        for number in children.get(owner, []):
            region = regions[number]
            if region.start < at or region.stop > stop:
                raise ProgramError(f"region {number} lies across another or leaves its parent")
            items += range(at, region.start)
            first = block((number, 0), region.start, region.middle)
            items.append((number, first, block((number, 1), region.middle, region.stop)))
            at = region.stop
        items += range(at, stop)
        return Block(tuple(items))

    return block((-1, 0), 0, tasks)
