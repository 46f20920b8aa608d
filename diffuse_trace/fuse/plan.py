"""Plans: what a program becomes: groups of tasks with exchanges and allreduces between them.

A plan is scale-free: it names partitions, never pieces, so it is as long for 4096 ranks as for one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import Access, IndexTask, Partition, Program, View
from .alignment import Alignment, align
from .communication import Halo, Local, Move, need
from .constraints import Placed
from .groups import Draft, form_groups
from .versions import Version, Versions, number_versions


@dataclass(frozen=True, slots=True)
class Transfer:
    """Elements of one version that ranks get from each other.

    A halo (``view`` is None) fills the margin of the version's own blocks, for each of the ``shifts`` (anchor indices
    along each grid dimension).  A move lays ``view`` of the version out over ``partition``.
    """

    version: int
    source: Partition
    shifts: tuple[tuple[int, ...], ...] = ()
    view: View | None = None
    partition: Partition | None = None


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


Step = Exchange | Reduction | Group


@dataclass(frozen=True)
class Plan:
    """A planned program, in canonical numbering; ``mode`` says by which rules its groups were formed."""

    program: Program
    versions: Versions
    alignment: Alignment
    placed: tuple[Placed, ...]
    steps: tuple[Step, ...]
    mode: str = "1"

    def groups(self) -> list[Group]:
        """The groups, in order."""
        return [s for s in self.steps if isinstance(s, Group)]

    def exchanges(self) -> list[Exchange]:
        """The exchanges, in order."""
        return [s for s in self.steps if isinstance(s, Exchange)]

    def reductions(self) -> list[Reduction]:
        """The allreduces, in order."""
        return [s for s in self.steps if isinstance(s, Reduction)]

    def temporaries(self) -> list[Version]:
        """Versions that are never materialised."""
        return [self.versions.all[v] for g in self.groups() for v in sorted(g.temporaries)]

    def task(self, index: int) -> IndexTask:
        """A task of the program."""
        return self.program.tasks[index]


def plan(program: Program, ranks: int, *, mode: str = "1", grid: tuple[int, ...] = (), max_halo: int = 16) -> Plan:
    """Plan a program for a number of ranks; nothing is run.

    The way of the data: versions -> alignment -> needs -> groups -> transfers and allreduces at the points between.
    """
    versions = number_versions(program)
    alignment = align(program, ranks, grid)
    placed = tuple(_place(t, program, versions, alignment, ranks, max_halo) for t in range(len(program.tasks)))
    live = frozenset(v for s, v in versions.final.items() if s in program.live)
    drafts = form_groups(placed, versions, mode, live)
    steps = _steps(program, versions, placed, drafts, alignment, early=mode == "1")
    return Plan(program, versions, alignment, placed, steps, mode)


def _place(index: int, program: Program, versions: Versions, alignment: Alignment, ranks: int, max_halo: int) -> Placed:
    task, partition = program.tasks[index], alignment.tasks[index]
    needs = tuple(
        need(i, alignment.stores[i.store.id], partition, max_halo)
        if isinstance(i, Access) and ranks > 1
        else Local()  # one rank has everything
        for i in task.inputs
    )
    write = versions.writes[index]
    return Placed(index, task, partition, versions.reads[index], needs, write, versions.all[write].previous)


def _steps(
    program: Program,
    versions: Versions,
    placed: Sequence[Placed],
    drafts: Sequence[Draft],
    alignment: Alignment,
    early: bool,
) -> tuple[Step, ...]:
    phase_of = {t.write: d.phase for d in drafts for t in d.tasks}
    at: dict[int, dict[object, Transfer]] = {}
    lines: dict[int, str] = {}
    where: dict[object, int] = {}
    crossing: set[int] = set()
    for draft in drafts:
        for t in draft.tasks:
            for access, version, what in zip(t.task.inputs, t.reads, t.needs, strict=True):
                if isinstance(what, Local):
                    continue
                assert isinstance(access, Access)
                crossing.add(version)
                key: object = version if isinstance(what, Halo) else (version, access.view, t.partition)
                point = draft.phase
                if early:
                    point = phase_of[version] + 1 if version in phase_of else 0
                point = where.setdefault(key, point)
                lines.setdefault(point, t.task.line)
                source = alignment.stores[access.store.id]
                known = at.setdefault(point, {})
                if isinstance(what, Move):
                    known[key] = Transfer(version, source, (), access.view, t.partition)
                else:
                    shifts = known[key].shifts if key in known else ()
                    known[key] = Transfer(version, source, tuple(sorted({*shifts, what.shifts})))

    final_live = {v for s, v in versions.final.items() if s in program.live}
    used_in: dict[int, set[int]] = {}
    for g, draft in enumerate(drafts):
        for t in draft.tasks:
            for used in (*t.reads, t.previous):
                if used is not None and used >= 0:
                    used_in.setdefault(used, set()).add(g)

    steps: list[Step] = []
    for phase, here in itertools.groupby(enumerate(drafts), lambda pair: pair[1].phase):
        if phase in at:
            steps.append(Exchange(tuple(at[phase].values()), lines[phase]))
        items = []
        line = ""
        for g, draft in here:
            temporaries = frozenset(
                t.write
                for t in draft.tasks
                if used_in.get(t.write, set()) <= {g}
                and t.write not in final_live
                and t.write not in crossing
                and not t.combined
            )
            steps.append(Group(tuple(t.index for t in draft.tasks), temporaries, draft.ended))
            for t in draft.tasks:
                if t.combined:
                    operator = t.task.output.reduction or str(t.task.param("operator"))
                    items.append(Partial(t.write, operator, t.partition.grid, t.combined, t.scan))
                    line = line or t.task.line
        if items:
            steps.append(Reduction(tuple(items), line))
    return tuple(steps)


def widths(transfer: Transfer) -> tuple[tuple[int, int], ...]:
    """How far a halo reaches below and above the own block along each grid dimension, in anchor indices."""
    return tuple(
        (max(0, *(-s[g] for s in transfer.shifts)), max(0, *(s[g] for s in transfer.shifts)))
        for g in range(len(transfer.shifts[0]))
    )
