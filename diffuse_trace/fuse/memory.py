"""What a plan saves, sends and needs, in bytes: predicted from the plan, before anything runs."""

from __future__ import annotations

import math

from ..ir import Partition, Split
from .plan import Exchange, Group, Plan, Reduction, Transfer, widths


def temporary_bytes(plan: Plan) -> int:
    """Bytes of all ranks that temporaries would take and do not, since they are never materialised."""
    return sum(v.store.nbytes for v in plan.temporaries())


def exchange_bytes(plan: Plan) -> list[int]:
    """Bytes that a rank receives at each exchange, at most; constant in the number of ranks for a halo."""
    return [sum(transfer_bytes(plan, t) for t in e.transfers) for e in plan.exchanges()]


def transfer_bytes(plan: Plan, transfer: Transfer) -> int:
    """Bytes that a rank receives for one transfer, at most."""
    store = plan.versions.all[transfer.version].store
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
    return math.prod(largest_block(store.shape, plan.alignment.stores[store.id])) * store.dtype.itemsize


def peak_bytes(plan: Plan) -> int:
    """Bytes that a rank holds at the worst point: stores, materialised temporaries, moved views and one spare per
    result."""
    alive = {v: block_bytes(plan, v) for v in plan.versions.entry.values()}
    final = {v for s, v in plan.versions.final.items() if s in plan.program.live}
    last: dict[int, int] = {}
    for n, step in enumerate(plan.steps):
        if isinstance(step, Group):
            for t in step.tasks:
                placed = plan.placed[t]
                previous = plan.versions.all[placed.write].previous
                for v in (*placed.reads, previous):
                    if v is not None and v >= 0:
                        last[v] = n
        elif isinstance(step, Reduction):
            last.update((item.version, n) for item in step.items)
    peak = sum(alive.values())
    for n, step in enumerate(plan.steps):
        moved = 0
        if isinstance(step, Exchange):
            moved = sum(transfer_bytes(plan, t) for t in step.transfers if t.view is not None)
        if isinstance(step, Group):
            for t in step.tasks:
                version = plan.placed[t].write
                if version not in step.temporaries:
                    alive[version] = block_bytes(plan, version)
        peak = max(peak, sum(alive.values()) + moved)
        for v in [v for v in alive if v not in final and last.get(v, -1) <= n]:
            del alive[v]
    return peak
