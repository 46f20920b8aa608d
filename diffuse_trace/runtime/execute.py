"""Running programs: look up the plan, or make it, and replay it on this rank's data."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .. import config
from ..fuse import plan as make_plan
from ..fuse.memo import Memo, Origin
from ..fuse.verify import verify_plan
from ..ir import Partition, Program, Spread, Store, View, canonical
from ..ir.text import dumps
from ..ir.verify import verify
from ..lower.blocks import Piece, fit
from ..lower.executable import build
from ..lower.geometry import Geometry, layout, margin_for, required_margins
from ..lower.transport import Transport
from . import device
from .buffers import worthwhile
from .finite import checker
from .ranks import world
from .replay import Replay
from .stores import Data, LogicalStore

GRAINS = {"0": "task", "1": "plan", "paper": "plan"}


@dataclass
class Compiled:
    """A program that has been planned and lowered, with the margins its inputs must have."""

    program: Program
    replay: Replay
    margins: dict[int, tuple[int, ...]]

    def run(self, inputs: Mapping[int, Data], operands: list[Any]) -> dict[int, Data]:
        """Run it on the data of its inputs, by canonical store id."""
        for id, margin in self.margins.items():
            if inputs[id].margin != margin:
                conform(self.program.inputs, id, inputs[id], margin)
        return self.replay.run(inputs, operands)


#: Compiled programs are kept up to this number; each holds an executable.
PLANS = 1024

_memo: Memo[Compiled] = Memo(PLANS)


class Watcher(Protocol):
    """Is told of every plan that is looked up (profiling)."""

    def looked_up(self, replay: Replay, name: str, missed: str) -> None:
        """``name`` says where the program comes from, ``missed`` why it was not known; empty if it was."""


watchers: list[Watcher] = []


def transport() -> Transport:
    """Communication for one executable."""
    device.configure()
    from .mpi_ffi import transport as make

    return make()


def run(program: Program, inputs: Mapping[int, Data], operands: list[Any]) -> dict[int, Data]:
    """Run a program on the data of its inputs; returns the data of live stores that have changed, by store id."""
    compiled, number = compile(program, inputs)
    named = {new: inputs[old] for old, new in number.items() if old in inputs}
    results = compiled.run(named, operands)
    back = {new: old for old, new in number.items()}
    return {back[id]: data for id, data in results.items()}


def compile(program: Program, inputs: Mapping[int, Data], name: str = "") -> tuple[Compiled, dict[int, int]]:
    """The compiled form of a program and the canonical number of each of its stores.

    ``name`` says where it comes from, in profiles: by default its first line.
    """
    first = program.tasks[0].line
    key, number = program.key()
    margins = {number[s.id]: inputs[s.id].margin for s, _ in program.inputs}
    rest = tuple(sorted(margins.items())), world().size, config.code_key()
    compiled = _memo.get((key, *rest))
    reason = ""
    if compiled is None:
        origin = Origin(program.canonical()[0], *rest)
        reason = _memo.why(origin) if watchers else "new"
        compiled = _compile(origin.program, margins)
        _memo.put((key, *rest), origin, compiled)
        # Its inputs have the margins that it needs from now on.
        _memo.put((key, tuple(sorted(margins.items())), *rest[1:]), origin, compiled)
    for watcher in watchers:
        watcher.looked_up(compiled.replay, name or first, reason)
    return compiled, number


def _compile(program: Program, margins: dict[int, tuple[int, ...]]) -> Compiled:
    began = time.perf_counter()
    channel = transport()
    rank, ranks = channel.rank, channel.size
    mode = "0" if config.get("check") else config.get("fuse")
    if config.get("verify"):
        verify(program)
    planned = make_plan(program, ranks, mode=mode, grid=config.get("grid") or (), max_halo=config.get("max_halo"))
    if config.get("verify"):
        verify_plan(planned)
    needed = required_margins(planned)
    alike: dict[object, list[int]] = {}
    for store, partition in planned.program.inputs:
        alike.setdefault((store.shape, partition), []).append(store.id)
    for ids in alike.values():
        # One margin for all that lie alike: a program's results, which have it too, are often its next inputs.
        each = [margin for id in ids for margin in (margins[id], needed.get(id, margins[id]))]
        margins.update(dict.fromkeys(ids, tuple(map(max, zip(*each, strict=True)))))
    geometry = Geometry(planned, rank, ranks, margins, config.get("halo"))
    text = f"{ranks} {config.code_key()}\n{dumps(program)}"
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=5).digest(), "little") << 22
    grain = "step" if config.get("profile") and mode != "0" else GRAINS[mode]
    replay = Replay(build(planned, geometry, channel, digest, grain), channel)
    if config.get("check"):
        replay.check = checker(replay.executable)
    replay.plan_seconds = time.perf_counter() - began
    return Compiled(program, replay, margins)


def conform(stores: Sequence[tuple[Store, Partition]], id: int, data: Data, margin: tuple[int, ...]) -> None:
    """Give a store's buffer wider margins; its ghosts are invalid then."""
    store = next(s for s, _ in stores if s.id == id)
    rank = world().rank
    have = layout(store.shape, data.partition, data.margin, rank)
    want = layout(store.shape, data.partition, margin, rank)
    data.buffer = fit(Piece(data.buffer, have.buffer), want.buffer)
    data.margin, data.valid = margin, frozenset()


def scatter(array: np.ndarray) -> Data:
    """The block of this rank of an array that every rank holds."""
    ranks = world()
    partition = canonical(array.shape, ranks.size, config.get("grid") or ())
    margin = margin_for(partition, array.ndim, config.get("halo"))
    held = layout(array.shape, partition, margin, ranks.rank)
    local = np.zeros(held.shape, array.dtype)
    local[held.own()] = array[tuple(slice(low, high) for low, high in held.block)]
    return Data(device.put(local), partition, margin, reusable=worthwhile(local.shape, local.dtype))


def local(store: LogicalStore, data: Data, view: View) -> tuple[np.ndarray, tuple[tuple[int, int], ...]]:
    """This rank's part of a view, and the interval of the view's indices that it covers."""
    rank = world().rank
    partition = data.partition.pull(view)
    coordinates = partition.coordinates(rank)
    region = partition.block(view.shape, coordinates)
    held = layout(store.shape, data.partition, data.margin, rank)
    if not partition.holds(coordinates) or any(low >= high for low, high in region):
        return np.zeros([high - low for low, high in region], store.dtype), region
    axes = tuple(
        type(a)(a.source, a.offset + (0 if a.source is None else a.step * region[a.source][0]) - low, a.step)
        for a, (low, _) in zip(view.axes, held.buffer, strict=True)
    )
    shape = tuple(high - low for low, high in region)
    return np.array(View(shape, axes).of(np.asarray(data.buffer))), region


def owned(store: LogicalStore, data: Data, view: View) -> tuple[np.ndarray, tuple[tuple[int, int], ...]]:
    """As `local`, but of copies only the first rank has any."""
    block, region = local(store, data, view)
    partition, rank = data.partition, world().rank
    here = partition.coordinates(rank)
    copied = any(isinstance(d, Spread) and c for d, c in zip(partition.dims, here, strict=True))
    if copied or (not partition.dims and rank):
        region = tuple((0, 0) for _ in region)
        block = np.zeros([0] * len(region), store.dtype) if region else np.zeros((0,), store.dtype)
    return block, region


def gather(store: LogicalStore, data: Data, view: View, where: str) -> np.ndarray:
    """All elements of a view, on every rank."""
    block, region = local(store, data, view)
    partition = data.partition.pull(view)
    if world().size == 1 or partition.replicated:
        return block
    from . import agree

    agree.agree(world(), _digest(f"gather {store.shape} {view}"), where)
    result = np.empty(view.shape, store.dtype)
    for rank, part in enumerate(agree.allgather_blocks(world(), block)):
        coordinates = partition.coordinates(rank)
        if not partition.holds(coordinates):
            continue
        region = partition.block(view.shape, coordinates)
        result[tuple(slice(low, high) for low, high in region)] = part
    return result


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")
