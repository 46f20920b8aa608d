"""Versions: each write of a store makes a new one, so that old values can still be read after it.

With versions an anti-dependence (a later task writes what an earlier one reads) is satisfied by renaming, as
in register renaming; only true dependences order the tasks of a window.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Access, Program, Store


@dataclass(frozen=True, slots=True)
class Version:
    """One value of a store: what the ``producer`` task leaves in it, or its value on entry (None)."""

    id: int
    store: Store
    producer: int | None
    previous: int | None = None  # the version whose elements remain where the producer wrote only a part


@dataclass(frozen=True)
class Versions:
    """All versions of a program; ``reads[t][k]`` is the version that input ``k`` of task ``t`` sees (-1: a scalar)."""

    all: tuple[Version, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[int, ...]
    final: dict[int, int]  # store id -> its last version
    entry: dict[int, int]  # store id -> its version on entry, for inputs

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
    current: dict[int, int] = {}
    entry: dict[int, int] = {}
    for store, _ in program.inputs:
        entry[store.id] = current[store.id] = len(versions)
        versions.append(Version(len(versions), store, None))
    reads, writes = [], []
    for t, task in enumerate(program.tasks):
        reads.append(tuple(current[i.store.id] if isinstance(i, Access) else -1 for i in task.inputs))
        store = task.output.store
        previous = current.get(store.id) if task.partial else None
        current[store.id] = len(versions)
        writes.append(len(versions))
        versions.append(Version(len(versions), store, t, previous))
    return Versions(tuple(versions), tuple(reads), tuple(writes), current, entry)
