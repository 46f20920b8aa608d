"""Which temporaries of a group are stored: those that cost more to compute anew than to store and load.

Each loop computes what it needs from what is stored.  A temporary is evaluated once for each loop that needs it and
each offset at which that loop reads it, through however many others: stencils of stencils multiply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set

from ..fuse.plan import Plan
from ..ir import Access, View
from .kernels import kernel

#: What it costs to store an element and load it again, in additions, roughly.
STORING = 25
_MOST = 64  # offsets that are told apart
_LARGE = 16384  # elements of a store from which on a pass over it costs more than an update in place

Offset = tuple[object, ...]


def worth_storing(plan: Plan, tasks: Sequence[int], temporaries: Set[int]) -> tuple[list[int], Set[int]]:
    """The temporaries of a group to store, in program order, and those of them that no loop may recompute.

    These are what a kernel reads wherever it likes: a vector that a sparse matrix multiplies.  What a small update
    changes, as `p[0] = p[1]` does, is stored as well: the update is made in its place, without a loop over the rest.
    Others are chosen greedily: as long as one saves more than `STORING`, the one that saves most; then those go that
    no longer do.
    """
    group = _Group(plan, tasks)
    scattered = group.scattered & temporaries
    kept = scattered | (group.updated & temporaries)
    stored = set(kept)
    roots = [v for v in group.sources if v not in temporaries]

    def gains(stored: Set[int]) -> dict[int, int]:
        """What each other temporary would save if it were stored as well."""
        counts, costs = group.evaluations([*roots, *stored], stored), group.costs(roots, stored)
        return {v: (counts[v] - 1) * costs[v] - STORING for v in counts if v in temporaries and v not in stored}

    while more := {v: gain for v, gain in gains(stored).items() if gain > 0}:
        stored.add(max(more, key=more.__getitem__))
    # What was chosen first may be cheap to compute from what was chosen later.
    for v in sorted(stored - kept, key=list(group.sources).index, reverse=True):
        if gains(stored - {v}).get(v, 0) <= 0:
            stored.remove(v)
    return sorted(stored, key=list(group.sources).index), scattered


class _Group:
    """The versions that a group makes, each with those of the group that it is computed from and the views."""

    def __init__(self, plan: Plan, tasks: Sequence[int]) -> None:
        self.sources: dict[int, list[tuple[int, View]]] = {}
        self.cost: dict[int, int] = {}
        self.scattered: set[int] = set()
        self.updated: set[int] = set()
        for t in tasks:
            placed = plan.placed[t]
            made = {
                (version, access.view): None
                for access, version in zip(placed.task.inputs, placed.reads, strict=True)
                if isinstance(access, Access) and version in self.sources
            }
            if placed.previous in self.sources:
                made[placed.previous, View.identity(placed.task.output.store.shape)] = None
                store = placed.task.output.store
                if 2 * math.prod(placed.task.shape) < math.prod(store.shape) >= _LARGE:
                    self.updated.add(placed.previous)
            if kernel(placed.task.op).whole:
                self.scattered.update(version for version, _ in made)
            self.sources[placed.write] = list(made)
            self.cost[placed.write] = kernel(placed.task.op).cost

    def evaluations(self, roots: Sequence[int], stored: Set[int]) -> Mapping[int, int]:
        """How often each version is computed for each element, in the loops of all roots."""
        total: dict[int, int] = {}
        ends = {*roots, *stored}
        for root in roots:
            offsets: dict[int, set[Offset]] = {root: {()}}
            for version in reversed(self.sources):
                if version not in offsets:
                    continue
                if version != root:
                    total[version] = total.get(version, 0) + len(offsets[version])
                for source, view in self.sources[version]:
                    if source not in ends:
                        found = offsets.setdefault(source, set())
                        if len(found) < _MOST:
                            found.update(_moved(offset, view) for offset in offsets[version])
        return total

    def costs(self, roots: Sequence[int], stored: Set[int]) -> Mapping[int, int]:
        """What it costs to compute an element of each version from what is stored."""
        ends = {*roots, *stored}
        costs: dict[int, int] = {}
        for version, sources in self.sources.items():
            costs[version] = self.cost[version] + sum(costs[s] for s, _ in sources if s not in ends)
        return costs


def _moved(offset: Offset, view: View) -> Offset:
    """An offset and then a view: the sum of two shifts; other views stand for themselves."""
    if any(a.source != k or a.step != 1 for k, a in enumerate(view.axes)) or len(view.axes) != len(view.shape):
        return (*offset, view.axes)
    shift = tuple(a.offset for a in view.axes)
    if not any(shift):
        return offset
    if offset and len(offset) == 1 and isinstance(offset[0], tuple) and len(offset[0]) == len(shift):
        before = offset[0]
        if all(isinstance(x, int) for x in before):
            return (tuple(a + b for a, b in zip(before, shift, strict=True)),)
    return (shift,) if not offset else (*offset, shift)
