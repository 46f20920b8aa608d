"""Overlap: temporaries that a rank computes a little beyond its own block, so that nothing has to be exchanged.

A stencil of a stencil needs its neighbours' elements of a temporary.  Instead of storing and exchanging it, each rank
computes those elements too, from inputs whose halos are as much wider: one exchange of the inputs stands for one of
each temporary, and all stencils run as one group.  (Overlapped tiling: Krishnamoorthy et al., PLDI 2007; in halo
exchanges known as communication avoiding.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir import Access, Partition, Split, Spread
from .communication import Halo, Halos, Local, Need, Overlap, shifts_of
from .constraints import Placed
from .groups import Draft, form_groups
from .versions import Versions

Shift = tuple[int, ...]


def overlapped(
    tasks: Sequence[Placed], live: frozenset[int], homes: Mapping[int, Partition], max_halo: int, versions: Versions
) -> tuple[list[Placed], list[Draft]]:
    """The tasks of a stretch with needs that overlap as far as possible, and their groups.

    Args:
        tasks: in program order.
        live: versions that are used outside the stretch.
        homes: the partition of each store, by its id.
        max_halo: the widest halo, in anchor indices.
        versions: all versions.
    """
    wide = _candidates(tasks, live, homes)
    while True:
        changed, reach = _widen(tasks, wide, homes) if wide else (list(tasks), {})
        far = {t.write for t in changed if t.write in reach and _farthest(t, reach[t.write]) > max_halo}
        wide -= far
        if far:
            continue
        drafts = form_groups(changed, versions, "1", live)
        home = {t.write: n for n, draft in enumerate(drafts) for t in draft.tasks}
        # What is computed twice must be made and used in one group.
        apart = {v for t in changed for v in t.reads if v in reach and home[v] != home[t.write]}
        wide -= apart
        if not apart:
            return changed, drafts


def _candidates(tasks: Sequence[Placed], live: frozenset[int], homes: Mapping[int, Partition]) -> set[int]:
    """Versions that may be computed beyond the own block, all of whose users are in the stretch; none if no halo of
    any is read."""
    made = {t.write for t in tasks}
    halos = {v for t in tasks for v, need in zip(t.reads, t.needs, strict=True) if isinstance(need, Halo)}
    if not made & halos - live:
        return set()
    wide = {t.write for t in tasks if t.write not in live and _elementwise(t, homes)}
    for t in tasks:
        if t.previous is not None:
            wide.discard(t.previous)
        for version, need in zip(t.reads, t.needs, strict=True):
            if not isinstance(need, Local | Halo):
                wide.discard(version)
    return wide


def _elementwise(t: Placed, homes: Mapping[int, Partition]) -> bool:
    """Whether a task makes all of a new store, each element from those of its inputs at one place."""
    output, dims = t.task.output, t.partition.dims
    if t.previous is not None or t.task.reduces or t.scan is not None or t.partition.replicated:
        return False
    if not output.view.is_identity(output.store.shape) or homes[output.store.id] != t.partition:
        return False
    if not all(isinstance(d, Spread) or (isinstance(d, Split) and abs(d.step) == 1) for d in dims):
        return False
    for access, need in zip(t.task.inputs, t.needs, strict=True):
        if isinstance(access, Access):
            here = homes[access.store.id].pull(access.view)
            alike = here.replicated or [d.parts for d in here.dims] == [d.parts for d in dims]
            if not alike or not isinstance(need, Local | Halo):
                return False
    return True


def _widen(
    tasks: Sequence[Placed], wide: set[int], homes: Mapping[int, Partition]
) -> tuple[list[Placed], dict[int, set[Shift]]]:
    """The tasks with other needs, and how far beyond the own block each version is computed: shifts that are not 0."""
    reach: dict[int, set[Shift]] = {}
    changed: list[Placed] = []
    for t in reversed(tasks):
        zero = (0,) * len(t.partition.dims)
        extents = {zero, *reach.get(t.write, ())}
        needs: list[Need] = []
        for access, version, need in zip(t.task.inputs, t.reads, t.needs, strict=True):
            if not isinstance(access, Access) or not isinstance(need, Local | Halo):
                needs.append(need)
                continue
            if extents == {zero} and (isinstance(need, Local) or version not in wide):
                needs.append(need)  # as ever
                continue
            here = homes[access.store.id].pull(access.view)
            around = extents if len(extents) > 1 else {(0,) * len(here.dims)}
            shifts = sorted({s for e in around if any(s := _shifted(here, need, e))})
            if version in wide:
                reach.setdefault(version, set()).update(shifts)
                needs.append(Overlap(need.shifts) if isinstance(need, Halo) else Local())
            elif not shifts:
                needs.append(Local())
            else:
                needs.append(Halo(shifts[0]) if len(shifts) == 1 else Halos(tuple(shifts)))
        changed.append(replace(t, needs=tuple(needs)))
    return changed[::-1], {v: shifts for v, shifts in reach.items() if shifts}


def _shifted(here: Partition, need: Need, extent: Shift) -> Shift:
    """Where elements lie that a point reads which is ``extent`` beyond the own block, in the dimensions of ``here``."""
    if here.replicated:
        return ()
    base = need.shifts if isinstance(need, Halo) else (0,) * len(here.dims)
    return tuple(
        s + e if isinstance(d, Split) and d.parts > 1 else 0 for s, e, d in zip(base, extent, here.dims, strict=True)
    )


def _farthest(t: Placed, extents: set[Shift]) -> int:
    """How far from the own block a task is computed, or reads what others hold."""
    shifts = [*extents, *(s for need in t.needs for s in shifts_of(need))]
    return max(abs(x) for shift in shifts for x in shift)
