"""Versions: each write of a store makes a new one, so that old values can still be read after it.

With versions an anti-dependence (a later task writes what an earlier one reads) is satisfied by renaming, as
in register renaming; only true dependences order the tasks of a window.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Access, Block, Branch, Loop, Program, Store


@dataclass(frozen=True, slots=True)
class Version:
    """One value of a store: what the ``producer`` task leaves in it.

    Without a producer it is the value on entry, or one that a region hands on (`Handed`).
    """

    id: int
    store: Store
    producer: int | None
    previous: int | None = None  # the version whose elements remain where the producer wrote only a part


@dataclass(frozen=True, slots=True)
class Handed:
    """The versions of what a region hands on, in the order of its values, and that of its predicate.

    Of a loop ``first`` are those before it, ``second`` what a trip leaves and ``made`` what a trip begins with; of a
    branch ``first`` and ``second`` are what its arms leave, ``made`` what there is after it.
    """

    predicate: int
    first: tuple[int, ...]
    second: tuple[int, ...]
    made: tuple[int, ...]


@dataclass(frozen=True)
class Versions:
    """All versions of a program; ``reads[t][k]`` is the version that input ``k`` of task ``t`` sees (-1: a scalar).

    ``handed[r]`` are those of region ``r``.
    """

    all: tuple[Version, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[int, ...]
    final: dict[int, int]  # store id -> its last version
    entry: dict[int, int]  # store id -> its version on entry, for inputs
    handed: tuple[Handed, ...] = ()

    def readers(self) -> dict[int, list[tuple[int, int]]]:
        """For each version, the (task, input) pairs that read it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for t, row in enumerate(self.reads):
            for k, v in enumerate(row):
                if v >= 0:
                    found.setdefault(v, []).append((t, k))
        return found


def number_versions(program: Program) -> Versions:
    """Walk the program once and give every read and write its version."""
    versions: list[Version] = []
    entry: dict[int, int] = {}

    def new(store: Store, producer: int | None = None, previous: int | None = None) -> int:
        versions.append(Version(len(versions), store, producer, previous))
        return len(versions) - 1

    for store, _ in program.inputs:
        entry[store.id] = new(store)
    reads: list[tuple[int, ...]] = [()] * len(program.tasks)
    writes: list[int] = [-1] * len(program.tasks)
    handed: list[Handed | None] = [None] * len(program.regions)

    def walk(block: Block, current: dict[int, int]) -> None:
        for item in block.items:
            if isinstance(item, int):
                task = program.tasks[item]
                reads[item] = tuple(current[i.store.id] if isinstance(i, Access) else -1 for i in task.inputs)
                store = task.output.store
                writes[item] = new(store, item, current.get(store.id) if task.partial else None)
                current[store.id] = writes[item]
                continue
            number, first, second = item
            region = program.regions[number]
            if isinstance(region, Loop):
                before = tuple(current[c.initial.id] for c in region.carried)
                made = tuple(new(c.inside) for c in region.carried)
                current.update((c.inside.id, v) for c, v in zip(region.carried, made, strict=True))
                inner = dict(current)
                walk(first, inner)
                predicate = inner[region.predicate.id]
                walk(second, inner)
                left = tuple(inner[c.result.id] for c in region.carried)
                handed[number] = Handed(predicate, before, left, made)
            else:
                assert isinstance(region, Branch)
                arms = dict(current), dict(current)
                walk(first, arms[0])
                walk(second, arms[1])
                one = tuple(arms[0][c.first.id] for c in region.chosen)
                other = tuple(arms[1][c.second.id] for c in region.chosen)
                made = tuple(new(c.final) for c in region.chosen)
                handed[number] = Handed(current[region.predicate.id], one, other, made)
                current.update((c.final.id, v) for c, v in zip(region.chosen, made, strict=True))

    final = dict(entry)
    walk(program.block(), final)
    return Versions(
        tuple(versions), tuple(reads), tuple(writes), final, entry, tuple(h for h in handed if h is not None)
    )
