"""Where the elements of a store or of a task lie on one rank: blocks, margins and regions.

All regions are half-open intervals of the store's (or the task's) own indices, one for each axis; they may
reach beyond the array, where buffers hold values that nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..fuse.plan import Plan, Transfer, widths
from ..ir import IndexTask, Partition, Split, Store, View

Region = tuple[tuple[int, int], ...]


def shape_of(region: Region) -> tuple[int, ...]:
    """Elements along each axis of a region."""
    return tuple(high - low for low, high in region)


def hull(one: Region, other: Region) -> Region:
    """The smallest region that holds both; an empty one counts for nothing."""
    if any(low >= high for low, high in one):
        return other
    if any(low >= high for low, high in other):
        return one
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


def starts_of(region: Region) -> tuple[int, ...]:
    """First index along each axis of a region."""
    return tuple(low for low, _ in region)


@dataclass(frozen=True, slots=True)
class Layout:
    """How one rank holds a store: its own block, and the buffer around it with ``margin`` ghost elements."""

    block: Region
    buffer: Region
    margin: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the local buffer, margins included."""
        return shape_of(self.buffer)

    def own(self) -> tuple[slice, ...]:
        """The slices of the buffer that hold the block."""
        return tuple(slice(b - f, e - f) for (b, e), (f, _) in zip(self.block, self.buffer, strict=True))


def margin_for(partition: Partition, ndim: int, width: int) -> tuple[int, ...]:
    """Ghost elements each axis needs for ``width`` anchor indices; none along axes that are not cut."""
    margin = [0] * ndim
    for d in partition.dims:
        if isinstance(d, Split) and d.parts > 1:
            margin[d.axis] = -(-width // abs(d.step))
    return tuple(margin)


def layout(shape: tuple[int, ...], partition: Partition, margin: tuple[int, ...], rank: int) -> Layout:
    """The layout of a store of ``shape`` on a rank."""
    coordinates = partition.coordinates(rank)
    block = partition.block(shape, coordinates)
    if not partition.holds(coordinates):
        return Layout(block, tuple((0, 0) for _ in shape), margin)
    buffer = [(0, n) for n in shape]
    for d, c in zip(partition.dims, coordinates, strict=True):
        if isinstance(d, Split):
            low, high = d.interval(c)
            m, n = margin[d.axis], shape[d.axis]
            low, high = max(low - m, -m), min(high + m, n + m)
            buffer[d.axis] = (low, max(low, high))
    return Layout(block, tuple(buffer), margin)


class Geometry:
    """All layouts of a plan on one rank.  ``width`` is the least ghost width of the stores that the plan makes.

    Stores of one shape that lie alike have one width: results then fit into each other's buffers.
    """

    def __init__(self, plan: Plan, rank: int, ranks: int, margins: dict[int, tuple[int, ...]], width: int) -> None:
        self.plan, self.rank, self.ranks = plan, rank, ranks
        stores = plan.program.stores()
        partitions = plan.alignment.stores
        widest: dict[object, int] = {}

        def kind(id: int) -> object:
            return stores[id].shape, partitions[id]

        def widen(id: int, by: int) -> None:
            widest[kind(id)] = max(widest.get(kind(id), width), by)

        for t in halos(plan):
            widen(plan.versions.all[t.version].store.id, max(max(w) for w in widths(t)))
        for store, partition in plan.program.inputs:
            given = margins.get(store.id, ())
            for d in partition.dims:
                if isinstance(d, Split) and given and store.id in stores:
                    widen(store.id, given[d.axis] * abs(d.step))
        self.layouts: dict[int, Layout] = {}
        for id, store in stores.items():
            around = widest.get(kind(id), width)
            margin = margins.get(id) or margin_for(partitions[id], len(store.shape), around)
            self.layouts[id] = layout(store.shape, partitions[id], margin, rank)

    def of(self, store: Store) -> Layout:
        """The layout of a store."""
        return self.layouts[store.id]

    def block(self, task: IndexTask, partition: Partition) -> Region:
        """The indices of a task's own points, over which it is computed on this rank."""
        return partition.block(task.shape, partition.coordinates(self.rank))


def halos(plan: Plan) -> list[Transfer]:
    """The halo transfers of a plan."""
    return [t for e in plan.exchanges() for t in e.transfers if t.view is None and t.pattern is None]


def required_margins(plan: Plan) -> dict[int, tuple[int, ...]]:
    """The margin that the plan needs around each input store, of which it exchanges the halo of any version."""
    needed: dict[int, tuple[int, ...]] = {}
    for t in halos(plan):
        store = plan.versions.all[t.version].store
        if store.id in plan.versions.entry:
            margin = margin_for(t.source, len(store.shape), max(max(w) for w in widths(t)))
            before = needed.get(store.id, margin)
            needed[store.id] = tuple(max(a, b) for a, b in zip(margin, before, strict=True))
    return needed


def domain_of(view: View, region: Region) -> Region:
    """A region of a view's domain with its broadcast axes reduced to one element."""
    broadcast = set(view.broadcast_axes())
    return tuple((0, 1) if d in broadcast else r for d, r in enumerate(region))
