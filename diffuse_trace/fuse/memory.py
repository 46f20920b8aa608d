"""What a plan saves, sends and needs, in bytes: predicted from the plan, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..ir import Access, Partition, Split
from .communication import Gather, Move
from .plan import Choose, Exchange, Group, Plan, Reduction, Repeat, Step, Transfer, walk, widths


def temporary_bytes(plan: Plan) -> int:
    """Bytes of all ranks that temporaries would take and do not, since they are never materialised."""
    return sum(v.store.nbytes for v in plan.temporaries())


def exchange_bytes(plan: Plan) -> list[int]:
    """Bytes that a rank receives at each exchange, at most; constant in the number of ranks for a halo."""
    return [sum(transfer_bytes(plan, t) for t in e.transfers) for e in plan.exchanges()]


def transfer_bytes(plan: Plan, transfer: Transfer) -> int:
    """Bytes that a rank receives for one transfer, at most."""
    store = plan.versions.all[transfer.version].store
    if transfer.pattern is not None:
        return transfer.pattern.ghosts * store.dtype.itemsize
    if transfer.view is not None:
        assert transfer.partition is not None
        used = [d for d in range(len(transfer.view.shape)) if d not in transfer.view.broadcast_axes()]
        block = largest_block(transfer.view.shape, transfer.partition)
        return math.prod(block[d] for d in used) * store.dtype.itemsize
    block = largest_block(store.shape, transfer.source)
    total = 0
    for g, (below, above) in enumerate(widths(transfer)):
        d = transfer.source.dims[g]
        if isinstance(d, Split) and d.parts > 1:
            face = math.prod(n for axis, n in enumerate(block) if axis != d.axis)
            total += face * -(-(below + above) // abs(d.step))
    return total * store.dtype.itemsize


def largest_block(shape: tuple[int, ...], partition: Partition) -> tuple[int, ...]:
    """Extents of the largest block that a rank holds."""
    block = list(shape)
    for d in partition.dims:
        if isinstance(d, Split):
            block[d.axis] = min(block[d.axis], -(-d.extent // d.parts // abs(d.step)) + (abs(d.step) > 1))
    return tuple(block)


def block_bytes(plan: Plan, version: int) -> int:
    """Bytes that one version takes on the rank with most of it."""
    store = plan.versions.all[version].store
    if store.pattern is not None:
        return store.nbytes
    return math.prod(largest_block(store.shape, plan.alignment.stores[store.id])) * store.dtype.itemsize


def peak_bytes(plan: Plan) -> int:
    """Bytes that a rank holds at the worst point: stores, materialised temporaries and views that were laid out anew.

    A store that is written counts twice there, since its old buffer is still needed: that one is the spare which the
    runtime keeps afterwards.  Ghost margins and what XLA takes inside a group are not counted.
    """
    alive: dict[object, int] = {v: block_bytes(plan, v) for v in plan.versions.entry.values()}
    final = {v for s, v in plan.versions.final.items() if s in plan.program.live}
    last = _last_uses(plan)
    peak = sum(alive.values())
    for n, step in enumerate(walk(plan.steps)):
        if isinstance(step, Exchange):
            alive.update({_moved(t): transfer_bytes(plan, t) for t in step.transfers if t.view is not None})
        elif isinstance(step, Group):
            made = (plan.placed[t].write for t in step.tasks)
            alive.update({v: block_bytes(plan, v) for v in made if v not in step.temporaries})
        elif isinstance(step, Repeat | Choose):
            alive.update({v: block_bytes(plan, v) for v in plan.versions.handed[step.region].made})
        peak = max(peak, sum(alive.values()))
        for key in [k for k in alive if k not in final and last.get(k, -1) <= n]:
            del alive[key]
    return peak


def _moved(transfer: Transfer) -> object:
    return transfer.version, transfer.view, transfer.partition or transfer.pattern


def _last_uses(plan: Plan) -> dict[object, int]:
    """For each version and each moved view the last step that uses it, counted as `walk` goes.

    What a loop needs it needs until its last trip, so what is used within a region counts as used at its end.
    """
    last: dict[object, int] = {}
    count = 0

    def visit(steps: Iterable[Step]) -> list[object]:
        nonlocal count
        used: list[object] = []
        for step in steps:
            here = count
            count += 1
            keys: list[object]
            if isinstance(step, Repeat | Choose):
                handed = plan.versions.handed[step.region]
                keys = [handed.predicate, *handed.first, *handed.second]
                parts = (step.condition, step.body) if isinstance(step, Repeat) else (step.first, step.second)
                for part in parts:
                    keys += visit(part)
                here = count - 1
            else:
                keys = _used(plan, step)
            last.update(dict.fromkeys(keys, here))
            used += keys
        return used

    visit(plan.steps)
    return last


def _used(plan: Plan, step: Exchange | Reduction | Group) -> list[object]:
    if isinstance(step, Exchange):
        return [t.version for t in step.transfers]
    if isinstance(step, Reduction):
        return [item.version for item in step.items]
    keys: list[object] = []
    for placed in (plan.placed[t] for t in step.tasks):
        for access, version, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
            if isinstance(access, Access):
                where = (
                    placed.partition if isinstance(need, Move) else need.pattern if isinstance(need, Gather) else None
                )
                keys.append(version if where is None else (version, access.view, where))
        if placed.previous is not None:
            keys.append(placed.previous)
    return keys
