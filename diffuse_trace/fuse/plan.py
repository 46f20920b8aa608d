"""Plans: what a program becomes: groups of tasks with exchanges and allreduces between them.

A plan is scale-free: it names partitions, never pieces, so it is as long for 4096 ranks as for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..ir import Access, IndexTask, Partition, Pattern, Program, View
from .alignment import Alignment, align
from .communication import Local, Need, need, product_need
from .constraints import Placed
from .versions import Version, Versions, number_versions


@dataclass(frozen=True, slots=True)
class Transfer:
    """Elements of one version that ranks get from each other.

    A halo (``view`` is None) fills the margin of the version's own blocks, for each of the ``shifts`` (anchor indices
    along each grid dimension).  A move lays ``view`` of the version out over ``partition``.  A gather (``pattern``)
    brings the elements of a vector, ``view`` of the version, that the rank's rows of a sparse matrix name.
    """

    version: int
    source: Partition
    shifts: tuple[tuple[int, ...], ...] = ()
    view: View | None = None
    partition: Partition | None = None
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """All transfers at one point: one message for each pair of neighbours."""

    transfers: tuple[Transfer, ...]
    line: str = ""


@dataclass(frozen=True, slots=True)
class Partial:
    """A version whose pieces are combined with ``operator`` over the dimensions ``dims`` of the process ``grid``.

    For a scan ``axis`` is that of the running result: a piece is combined with the last elements of those before it.
    """

    version: int
    operator: str
    grid: tuple[int, ...]
    dims: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Reduction:
    """All partial results that are ready at one point."""

    items: tuple[Partial, ...]
    line: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that run as one; ``temporaries`` are versions made and used up inside, never materialised."""

    tasks: tuple[int, ...]
    temporaries: frozenset[int]
    ended: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """The steps of loop ``region``: those that decide whether a trip comes, and those of the trip."""

    region: int
    condition: tuple[Step, ...]
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """The steps of the two arms of branch ``region``."""

    region: int
    first: tuple[Step, ...]
    second: tuple[Step, ...]


Step = Exchange | Reduction | Group | Repeat | Choose


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """All steps, those of regions after the region's own."""
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from walk((*step.condition, *step.body))
        elif isinstance(step, Choose):
            yield from walk((*step.first, *step.second))


@dataclass(frozen=True)
class Plan:
    """A planned program, in canonical numbering; ``mode`` says by which rules its groups were formed, ``repeated``
    how many tasks were left out because others had made their results before.

    Lists of groups and the like hold those inside regions too.
    """

    program: Program
    versions: Versions
    alignment: Alignment
    placed: tuple[Placed, ...]
    steps: tuple[Step, ...]
    mode: str = "1"
    repeated: int = 0

    def groups(self) -> list[Group]:
        """The groups, in order."""
        return [s for s in walk(self.steps) if isinstance(s, Group)]

    def exchanges(self) -> list[Exchange]:
        """The exchanges, in order."""
        return [s for s in walk(self.steps) if isinstance(s, Exchange)]

    def reductions(self) -> list[Reduction]:
        """The allreduces, in order."""
        return [s for s in walk(self.steps) if isinstance(s, Reduction)]

    def temporaries(self) -> list[Version]:
        """Versions that are never materialised."""
        return [self.versions.all[v] for g in self.groups() for v in sorted(g.temporaries)]

    def task(self, index: int) -> IndexTask:
        """A task of the program."""
        return self.program.tasks[index]


def plan(program: Program, ranks: int, *, mode: str = "1", grid: tuple[int, ...] = (), max_halo: int = 16) -> Plan:
    """Plan a program for a number of ranks; nothing is run.

    The way of the data: values -> versions -> alignment -> needs -> groups with overlap -> transfers and allreduces
    between.
    """
    from .schedule import Schedule
    from .values import without_repeats

    repeated = 0
    if mode == "1":
        program, repeated = without_repeats(program)
    versions = number_versions(program)
    alignment = align(program, ranks, grid)
    placed = tuple(_place(t, program, versions, alignment, ranks, max_halo) for t in range(len(program.tasks)))
    schedule = Schedule(program, versions, placed, alignment, mode, max_halo)
    return Plan(program, versions, alignment, tuple(schedule.placed.values()), schedule.steps(), mode, repeated)


def _place(index: int, program: Program, versions: Versions, alignment: Alignment, ranks: int, max_halo: int) -> Placed:
    task, partition = program.tasks[index], alignment.tasks[index]
    matrix = next((a for a in task.reads() if a.store.pattern is not None), None)

    def wants(access: Access) -> Need:
        home = alignment.stores[access.store.id]
        if matrix is not None and access is not matrix:
            return product_need(access, home, matrix, partition)
        return need(access, home, partition, max_halo)

    # One rank has everything.
    needs = tuple(wants(i) if isinstance(i, Access) and ranks > 1 else Local() for i in task.inputs)
    write = versions.writes[index]
    return Placed(index, task, partition, versions.reads[index], needs, write, versions.all[write].previous)


def widths(transfer: Transfer) -> tuple[tuple[int, int], ...]:
    """How far a halo reaches below and above the own block along each grid dimension, in anchor indices."""
    return tuple(
        (max(0, *(-s[g] for s in transfer.shifts)), max(0, *(s[g] for s in transfer.shifts)))
        for g in range(len(transfer.shifts[0]))
    )
