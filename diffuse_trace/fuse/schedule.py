"""Schedules: the steps of a plan, stretch by stretch, with the transfers and allreduces at the points between groups.

A stretch is a run of tasks without a region between them.  What a region needs from other ranks and does not change is
exchanged once, before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir import Access, Block, Loop, Program
from .alignment import Alignment
from .communication import Gather, Move, crosses, shifts_of
from .constraints import Placed
from .groups import Draft, form_groups
from .overlap import overlapped
from .plan import Choose, Exchange, Group, Partial, Reduction, Repeat, Step, Transfer
from .versions import Versions


@dataclass
class _Stretch:
    """The groups of a stretch, and the transfers before each phase, by what they bring."""

    number: int
    path: tuple[tuple[int, int], ...]  # the regions that it lies in, and in which part of each
    tasks: list[int]
    drafts: list[Draft] = field(default_factory=list)
    points: dict[int, dict[object, Transfer]] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)


Tree = list["_Stretch | tuple[int, Tree, Tree]"]


class Schedule:
    """Forms the groups of each stretch and places what has to be communicated."""

    def __init__(
        self,
        program: Program,
        versions: Versions,
        placed: Sequence[Placed],
        alignment: Alignment,
        mode: str,
        max_halo: int,
    ) -> None:
        self.program, self.versions, self.alignment = program, versions, alignment
        self.placed = dict(enumerate(placed))
        self.early = mode == "1"
        self.stretches: list[_Stretch] = []
        self.handed = {v: r for r, handed in enumerate(versions.handed) for v in handed.made}
        self.parts: dict[tuple[int, int], _Stretch] = {}  # the first stretch of each part of a region
        self.after: dict[int, _Stretch] = {}  # the stretch after each region
        self.tree = self._stretch(program.block(), ())
        self.users: dict[int, set[int]] = {}  # version -> the tasks that use it
        self.used = self._uses()
        self.made: dict[int, tuple[_Stretch, int]] = {}  # version -> its stretch and phase
        for stretch in self.stretches:
            here = [placed[t] for t in stretch.tasks]
            live = frozenset(t.write for t in here if not self.used.get(t.write, set()) <= {stretch.number})
            if mode == "1":
                here, stretch.drafts = overlapped(here, live, alignment.stores, max_halo, versions)
                self.placed.update((t.index, t) for t in here)
            else:
                stretch.drafts = form_groups(here, versions, mode, live)
            for draft in stretch.drafts:
                self.made.update((t.write, (stretch, draft.phase)) for t in draft.tasks)
        self.crossing: set[int] = set()
        where: dict[object, tuple[_Stretch, int]] = {}
        for stretch in self.stretches:
            for draft in stretch.drafts:
                for t in draft.tasks:
                    self._transfers(t, stretch, draft.phase, where)

    def steps(self) -> tuple[Step, ...]:
        """The steps, those of regions inside the region's own."""
        return self._steps(self.tree)

    def _stretch(self, block: Block, path: tuple[tuple[int, int], ...]) -> Tree:
        tree: Tree = []
        before: int | None = None
        for part in block.stretches():
            if isinstance(part, list):
                made = _Stretch(len(self.stretches), path, part)
                self.stretches.append(made)
                if before is not None:
                    self.after[before] = made
                elif path:
                    self.parts[path[-1]] = made
                tree.append(made)
            else:
                before, first, second = part
                one = self._stretch(first, (*path, (before, 0)))
                tree.append((before, one, self._stretch(second, (*path, (before, 1)))))
        return tree

    def _uses(self) -> dict[int, set[int]]:
        """The stretches in which each version is used; -1 stands for regions and for what comes afterwards."""
        used: dict[int, set[int]] = {}
        for store, v in self.versions.final.items():
            if store in self.program.live:
                used.setdefault(v, set()).add(-1)
        for handed in self.versions.handed:
            for v in (handed.predicate, *handed.first, *handed.second):
                used.setdefault(v, set()).add(-1)
        for stretch in self.stretches:
            for t in stretch.tasks:
                for version in (*self.placed[t].reads, self.placed[t].previous):
                    if version is not None and version >= 0:
                        used.setdefault(version, set()).add(stretch.number)
                        self.users.setdefault(version, set()).add(t)
        return used

    def _home(self, version: int, user: _Stretch) -> tuple[_Stretch, int]:
        """The first point at which a version can be exchanged for a task of ``user``."""
        if version in self.made:
            stretch, phase = self.made[version]
            return stretch, phase + 1
        region = self.handed.get(version)
        if region is None:
            return self.stretches[0], 0
        # Of what a loop carries, each trip has another value: once in each part that needs it, and once after it.
        inside = [part for r, part in user.path if r == region]
        return (self.parts[region, inside[0]] if inside else self.after[region]), 0

    def _transfers(self, t: Placed, user: _Stretch, phase: int, where: dict[object, tuple[_Stretch, int]]) -> None:
        for access, version, what in zip(t.task.inputs, t.reads, t.needs, strict=True):
            if not crosses(what):
                continue
            assert isinstance(access, Access)
            self.crossing.add(version)
            moved: object = None
            if isinstance(what, Move):
                moved = access.view, t.partition
            elif isinstance(what, Gather):
                moved = access.view, what.pattern
            stretch, point = self._home(version, user)
            if not self.early and stretch is user:
                point = phase
            stretch, point = where.setdefault((version, moved, stretch.number), (stretch, point))
            stretch.lines.setdefault(point, t.task.line)
            source = self.alignment.stores[access.store.id]
            known = stretch.points.setdefault(point, {})
            if isinstance(what, Move):
                known[version, moved] = Transfer(version, source, (), access.view, t.partition)
            elif isinstance(what, Gather):
                known[version, moved] = Transfer(version, source, (), access.view, None, what.pattern)
            else:
                shifts = known[version, None].shifts if (version, None) in known else ()
                known[version, None] = Transfer(version, source, tuple(sorted({*shifts, *shifts_of(what)})))

    def _steps(self, tree: Tree) -> tuple[Step, ...]:
        steps: list[Step] = []
        for part in tree:
            if isinstance(part, _Stretch):
                for phase in sorted({*part.points, *(d.phase for d in part.drafts)}):
                    steps += self._phase(part, phase)
                continue
            region, one, other = part
            kind = Repeat if isinstance(self.program.regions[region], Loop) else Choose
            steps.append(kind(region, self._steps(one), self._steps(other)))
        return tuple(steps)

    def _phase(self, stretch: _Stretch, phase: int) -> list[Step]:
        steps: list[Step] = []
        if phase in stretch.points:
            steps.append(Exchange(tuple(stretch.points[phase].values()), stretch.lines[phase]))
        items: list[Partial] = []
        line = ""
        for draft in stretch.drafts:
            if draft.phase != phase:
                continue
            own = {t.index for t in draft.tasks}
            temporaries = frozenset(t.write for t in draft.tasks if not t.combined and self._inside(t.write, own))
            steps.append(Group(tuple(t.index for t in draft.tasks), temporaries, draft.ended))
            for t in draft.tasks:
                if t.combined:
                    operator = t.task.output.reduction or str(t.task.param("operator"))
                    items.append(Partial(t.write, operator, t.partition.grid, t.combined, t.scan))
                    line = line or t.task.line
        if items:
            steps.append(Reduction(tuple(items), line))
        return steps

    def _inside(self, version: int, tasks: set[int]) -> bool:
        """Whether only these tasks use a version, on the rank that makes it."""
        if version in self.crossing or -1 in self.used.get(version, set()):
            return False
        return self.users.get(version, set()) <= tasks
