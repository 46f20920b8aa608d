"""Communicating: exchanges, allreduces and scans as operations on pieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import ProgramError
from ..fuse.plan import Exchange, Partial, Plan, Reduction, Transfer
from ..ir import Split
from .blocks import CACHED, Piece, fit, materialised, read
from .exchange import Messages, add_halo, add_lists, add_move
from .geometry import Geometry, Region, domain_of, shape_of
from .patterns import local
from .state import Key, State, Step
from .transport import ExchangeSpec


class Communicate(Step):
    """One exchange: halos in place, moved views into new arrays."""

    communicates = True

    def __init__(self, plan: Plan, geometry: Geometry, exchange: Exchange, flags: dict[int, int], digest: int) -> None:
        self.name = "exchange"
        self.geometry = geometry
        halos = [t for t in exchange.transfers if t.view is None]
        moves = [t for t in exchange.transfers if t.view is not None and t.pattern is None]
        self.gathers = [
            (t, Key(t.version, t.view, None, t.pattern), local(t.pattern))
            for t in exchange.transfers
            if t.pattern is not None
        ]
        stores = {v.id: v.store for v in plan.versions.all}
        halo_keys = [Key(t.version) for t in halos]
        move_keys = [Key(t.version, t.view, t.partition) for t in moves]
        sources = list(dict.fromkeys(Key(t.version) for t in moves if Key(t.version) not in halo_keys))
        gathered = [key for _, key, _ in self.gathers]
        self.uses = tuple(dict.fromkeys((*sources, *halo_keys, *(Key(t.version) for t, _, _ in self.gathers))))
        self.makes = (*move_keys, *gathered)
        self.updates = tuple(halo_keys)
        packed = [("packed", key) for key in gathered]  # what is sent of them, made by the executable
        order: list[object] = [*sources, *packed, *halo_keys, *move_keys, *gathered]
        number = {key: n for n, key in enumerate(order)}
        messages = Messages(geometry.rank)
        for t in halos:
            held = geometry.of(stores[t.version])
            add_halo(messages, t, stores[t.version].shape, held, number[Key(t.version)], flags.get(t.version, -1))
        self.targets = [self._target(t) for t in moves]
        for t, key, target in zip(moves, move_keys, self.targets, strict=True):
            held = geometry.of(stores[t.version])
            add_move(messages, t, geometry.ranks, held, target, (number[Key(t.version)], number[key]))
        for (_, key, lists), pack in zip(self.gathers, packed, strict=True):
            add_lists(messages, lists, (number[pack], number[key]))
        self.sources, self.halos, self.moves = sources, halo_keys, move_keys
        #: Of each gathered vector how many elements it has, ghosts included.
        self.extents = {key: self._own(t) + lists.ghosts for t, key, lists in self.gathers}
        self.slots: dict[Key, int] = {}  # of halos whose buffers are in slots
        self.buffers = {key: geometry.of(stores[key.version]) for key in (*sources, *halo_keys)}
        self.results = [
            jax.ShapeDtypeStruct(shape_of(target), stores[t.version].dtype)
            for t, target in zip(moves, self.targets, strict=True)
        ]
        self.results += [
            jax.ShapeDtypeStruct((lists.ghosts,), stores[key.version].dtype) for _, key, lists in self.gathers
        ]
        keys = (*sources, *gathered, *halo_keys, *move_keys, *gathered)
        dtypes = [stores[key.version].dtype for key in keys]
        self.spec = ExchangeSpec(
            messages.messages(messages.sends),
            messages.messages(messages.receives),
            tuple(messages.copies),
            tuple(d.itemsize for d in dtypes),
            digest,
            exchange.line,
        )
        self.line = exchange.line
        #: How many messages this rank sends, and the bytes that it receives.
        self.messages = len(self.spec.sends)
        self.received = sum(
            math.prod(box.shape) * self.spec.itemsizes[box.buffer] for m in self.spec.receives for box in m.boxes
        )
        sizes = [math.prod(self.buffers[key].shape) for key in sources]
        sizes += [lists.sent for _, _, lists in self.gathers]
        sizes += [math.prod(self.buffers[key].shape) for key in halo_keys]
        sizes += [math.prod(r.shape) for r in self.results]
        _check(self.spec, sizes)

    def _target(self, transfer: Transfer) -> Region:
        view, partition = transfer.view, transfer.partition
        assert view is not None and partition is not None
        block = partition.block(view.shape, partition.coordinates(self.geometry.rank))
        return domain_of(view, block) if all(low < high for low, high in block) else tuple((0, 0) for _ in block)

    def run(self, state: State) -> None:
        """Trace the exchange."""
        for key, held in self.buffers.items():
            state.pieces[key] = Piece(fit(state.pieces[key], held.buffer), held.buffer)
        for key in self.halos:
            # XLA asks for a copy of what a call changes, and does without later unless a loop before has taken it in.
            if state.pieces[key].array.nbytes >= CACHED:
                state.pieces[key] = materialised(state.pieces[key], state.active[-1])
        vectors = [self._vector(t, state) for t, _, _ in self.gathers]
        packed = [lists.pack(x) for x, (_, _, lists) in zip(vectors, self.gathers, strict=True)]
        updated, results, state.token = state.transport.exchange(
            self.spec,
            [*(state.pieces[k].array for k in self.sources), *packed],
            [state.pieces[k].array for k in self.halos],
            self.results,
            state.active,
            state.token,
        )
        for key, array in zip(self.halos, updated, strict=True):
            state.pieces[key] = Piece(array, self.buffers[key].buffer)
            if key in self.slots:
                state.slots[self.slots[key]] = array
        for key, array, target in zip(self.moves, results, self.targets, strict=False):
            state.pieces[key] = Piece(array, target)
        for (_, key, _), own, ghosts in zip(self.gathers, vectors, results[len(self.moves) :], strict=True):
            # Behind the rank's own elements; the region says only how many there are.
            x = jnp.concatenate([own, ghosts])
            state.pieces[key] = Piece(x, ((0, x.shape[0]),))

    def _block(self, transfer: Transfer) -> Region:
        """The rank's own elements of the vector that a transfer gathers, in the view's domain."""
        view = transfer.view
        assert view is not None
        source = transfer.source.pull(view)
        return domain_of(view, source.block(view.shape, source.coordinates(self.geometry.rank)))

    def _own(self, transfer: Transfer) -> int:
        return math.prod(shape_of(self._block(transfer)))

    def _vector(self, transfer: Transfer, state: State) -> Any:
        view = transfer.view
        assert view is not None
        return read(state.pieces[Key(transfer.version)], view, self._block(transfer)).ravel()


def _check(spec: ExchangeSpec, sizes: Sequence[int]) -> None:
    """Every box lies in its buffer: a message must never reach beyond, whatever mistake the plan holds."""
    boxes = [b for m in (*spec.sends, *spec.receives) for b in m.boxes] + [b for pair in spec.copies for b in pair]
    for box in boxes:
        if 0 in box.shape:
            continue
        ends = [s * (n - 1) for s, n in zip(box.strides, box.shape, strict=True)]
        low, high = box.offset + sum(min(e, 0) for e in ends), box.offset + sum(max(e, 0) for e in ends)
        if not 0 <= low <= high < sizes[box.buffer]:
            raise ProgramError(
                f"{spec.where}: a message reaches beyond its buffer: {box} of {sizes[box.buffer]} elements"
            )


class Combine(Step):
    """Partial results become whole ones: one allreduce for each operator and dtype, and one scan for each running
    sum."""

    communicates = True

    def __init__(self, plan: Plan, geometry: Geometry, reduction: Reduction, digest: int) -> None:
        self.name = "allreduce"
        self.line, self.digest = reduction.line, digest
        stores = {v.id: v.store for v in plan.versions.all}
        self.layouts = {item.version: geometry.of(stores[item.version]) for item in reduction.items}
        self.together: dict[tuple[str, np.dtype, tuple[int, ...]], list[int]] = {}
        self.scans: list[tuple[Partial, tuple[int, ...]]] = []
        for item in reduction.items:
            ranks = _along(geometry.rank, item.grid, item.dims)
            if item.axis is not None:
                partition = plan.alignment.stores[stores[item.version].id]
                backwards = any(isinstance(d, Split) and d.axis == item.axis and d.step < 0 for d in partition.dims)
                self.scans.append((item, ranks[::-1] if backwards else ranks))
            else:
                self.together.setdefault((item.operator, stores[item.version].dtype, ranks), []).append(item.version)
        self.uses = self.updates = tuple(Key(item.version) for item in reduction.items)

    def run(self, state: State) -> None:
        """Trace the allreduces, then the scans."""
        for n, ((op, _, ranks), versions) in enumerate(self.together.items()):
            buffers = [self.layouts[v].buffer for v in versions]
            partial = [fit(state.pieces[Key(v)], b).ravel() for v, b in zip(versions, buffers, strict=True)]
            packed = partial[0] if len(partial) == 1 else jnp.concatenate(partial)
            total, state.token = state.transport.allreduce(packed, op, ranks, self.digest + n, self.line, state.token)
            start = 0
            for version, buffer in zip(versions, buffers, strict=True):
                shape = shape_of(buffer)
                part = total[start : start + math.prod(shape)]
                start += math.prod(shape)
                state.pieces[Key(version)] = Piece(part.reshape(shape), buffer)
        for n, (item, ranks) in enumerate(self.scans, len(self.together)):
            self._scan(item, ranks, self.digest + n, state)

    def _scan(self, item: Partial, ranks: tuple[int, ...], digest: int, state: State) -> None:
        """Combine the block with what the ranks before it along the axis have in all."""
        layout, axis = self.layouts[item.version], item.axis
        assert axis is not None
        block = fit(state.pieces[Key(item.version)], layout.block)
        neutral = 0 if item.operator == "sum" else 1
        if block.shape[axis]:
            last = lax.slice_in_dim(block, block.shape[axis] - 1, block.shape[axis], axis=axis)
        else:
            last = jnp.full([1 if d == axis else n for d, n in enumerate(block.shape)], neutral, block.dtype)
        before, state.token = state.transport.exscan(last, item.operator, ranks, digest, self.line, state.token)
        whole = block + before if item.operator == "sum" else block * before
        state.pieces[Key(item.version)] = Piece(whole, layout.block)


def _along(rank: int, grid: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """The ranks of a grid (last dimension fastest) that differ from ``rank`` along ``dims`` only, in order."""
    here = np.unravel_index(rank, grid)
    choices = [range(n) if g in dims else (int(here[g]),) for g, n in enumerate(grid)]
    return tuple(int(np.ravel_multi_index(c, grid)) for c in itertools.product(*choices))
