"""Executables: the steps of a plan, cut into segments that are compiled as one function each.

Normally there is one segment.  With the grain "step" each group and each exchange is one (so that they can be
timed), with "task" each task (fusion off): one path for all three.

A result in fresh pages costs many times the kernel that makes it, so each large result of a segment is written into
a dead buffer of its shape and dtype: an input that dies here, or a spare that the runtime keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..fuse.communication import Local
from ..fuse.plan import Plan
from ..ir import Access
from .blocks import Piece, fit
from .geometry import Geometry, Region, halos, shape_of
from .steps import Communicate, Compute, Key, State, Step, steps_of
from .transport import Transport

#: Results of fewer bytes are not worth a donated buffer: the allocator keeps small pieces at hand.
SMALL = 16384

Aval = tuple[tuple[int, ...], np.dtype]


@dataclass
class Segment:
    """One compiled function: ``call(*donated, *spares, *inputs, *operands, active[, token])``.

    Values are named by their slots.  The results are those of ``outputs``, in order; the token comes last where the segment
    communicates.  The buffers in ``dead`` hold nothing of use afterwards and have not been donated.
    """

    name: str
    steps: list[Step]
    donated: list[int] = field(default_factory=list)
    spares: list[Aval] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    call: Any = None
    communicates: bool = False  # whether other ranks take part


@dataclass
class Executable:
    """A lowered plan on one rank.

    ``entry`` and ``final`` hold (store id, slot): of each input, and of each live store that has changed; ``consumed`` the
    inputs whose buffers are used up.  ``halos`` says
    which exchanges of inputs may be left out: (store id, its shifts), in the order of the ``active`` vector.  ``valid``
    are the shifts for which a changed store's ghosts are valid afterwards.
    """

    plan: Plan
    geometry: Geometry
    segments: list[Segment]
    slots: int
    entry: list[tuple[int, int]]
    final: list[tuple[int, int]]
    consumed: list[int]
    halos: list[tuple[int, frozenset[tuple[int, ...]]]]
    valid: dict[int, frozenset[tuple[int, ...]]]
    operands: list[tuple[np.dtype, list[int]]]

    def unchanged(self, store: int) -> bool:
        """Whether the store's elements are those it had on entry (only its ghosts are new)."""
        return self.plan.versions.final[store] == self.plan.versions.entry.get(store)


def build(plan: Plan, geometry: Geometry, transport: Transport, digest: int, grain: str) -> Executable:
    """Lower a plan for the rank of ``geometry``; compilation happens at the first call of each segment."""
    entry = {store: version for store, version in plan.versions.entry.items()}
    entered = {version: store for store, version in entry.items()}
    skippable = [(t.version, frozenset(t.shifts)) for t in halos(plan) if t.version in entered]
    flags = {version: n for n, (version, _) in enumerate(skippable)}
    steps = steps_of(plan, geometry, flags, digest, grain)
    segments = [Segment("plan", steps)] if grain == "plan" else [Segment(s.name, [s]) for s in steps]

    final = {plan.versions.final[s]: s for s in plan.program.live if s in plan.versions.final}
    slots: dict[Key, int] = {Key(version): n for n, version in enumerate(entry.values())}
    for step in steps:
        for key in step.makes:
            slots.setdefault(key, len(slots))
    last: dict[Key, int] = {}
    for n, segment in enumerate(segments):
        for step in segment.steps:
            last.update(dict.fromkeys((*step.uses, *step.makes), n))
    kept = {Key(v) for v in final}
    packed = _pack(plan.program.operands)
    builder = _Builder(plan, geometry, transport, slots, packed)
    idle = [k for k in (Key(v) for v in entry.values()) if k not in last and k not in kept]
    held = dict.fromkeys(Key(v) for v in entry.values())
    for n, segment in enumerate(segments):
        builder.finish(segment, held, {k for k, m in last.items() if m > n} | kept, idle if n == 0 else [])
        for step in segment.steps:
            held.update(dict.fromkeys(step.makes))

    exchanged = {t.version: frozenset(t.shifts) for t in halos(plan)}
    changed = {s: v for v, s in final.items() if v not in entered or v in exchanged}
    return Executable(
        plan,
        geometry,
        segments,
        len(slots),
        [(store, slots[Key(v)]) for store, v in entry.items()],
        [(store, slots[Key(v)]) for store, v in changed.items()],
        [store for store, v in entry.items() if v in exchanged or v not in final],
        [(entered[v], shifts) for v, shifts in skippable],
        {s: exchanged.get(v, frozenset()) for s, v in changed.items()},
        packed,
    )


def _pack(dtypes: Sequence[np.dtype]) -> list[tuple[np.dtype, list[int]]]:
    """Operands travel in one array for each dtype: (dtype, their indices)."""
    packed: dict[np.dtype, list[int]] = {}
    for index, dtype in enumerate(dtypes):
        packed.setdefault(dtype, []).append(index)
    return list(packed.items())


class _Builder:
    """Chooses the arguments and results of segments and makes their functions."""

    def __init__(
        self,
        plan: Plan,
        geometry: Geometry,
        transport: Transport,
        slots: dict[Key, int],
        packed: list[tuple[np.dtype, list[int]]],
    ) -> None:
        self.plan, self.geometry, self.transport = plan, geometry, transport
        self.slots, self.packed = slots, packed
        self.stores = {v.id: v.store for v in plan.versions.all}
        self.targets: dict[Key, Region] = {}

    def region(self, key: Key) -> Region:
        """The region of the buffer that holds a value between segments."""
        return self.targets[key] if key in self.targets else self.geometry.of(self.stores[key.version]).buffer

    def aval(self, key: Key) -> Aval:
        """Shape and dtype of that buffer."""
        return shape_of(self.region(key)), self.stores[key.version].dtype

    def _nbytes(self, key: Key) -> int:
        shape, dtype = self.aval(key)
        return math.prod(shape) * dtype.itemsize

    def finish(self, segment: Segment, held: dict[Key, None], wanted: set[Key], idle: list[Key]) -> None:
        """Choose donors, order the arguments and results, and make the function.

        ``held`` values exist before, ``wanted`` ones are needed after, ``idle`` ones were never of use.
        """
        segment.communicates = any(s.communicates for s in segment.steps)
        for step in segment.steps:
            if isinstance(step, Communicate):
                self.targets.update(zip(step.moves, step.targets, strict=True))
        used: dict[Key, None] = {}
        changed: dict[Key, None] = {}
        updated: set[Key] = set()
        for step in segment.steps:
            used.update((k, None) for k in step.uses if k in held)
            changed.update(dict.fromkeys(step.makes))
            if isinstance(step, Communicate):
                # The ghosts of an input are filled in place, so it is returned even if it is dead then.
                updated.update(k for k in step.updates if k in held)
            changed.update(dict.fromkeys(step.updates))
        outputs = [k for k in changed if k in wanted or k in updated]
        dying = [k for k in (*idle, *used) if k not in wanted and k not in updated]
        pairs: list[tuple[Key, Key]] = [(k, k) for k in outputs if k in updated]
        spares: list[Key] = []
        fresh: list[Key] = []
        for out in (k for k in outputs if k not in updated):
            shape, dtype = self.aval(out)
            fitting = [k for k in dying if self.aval(k) == (shape, dtype)]
            donor = next((k for k in fitting if k in idle), None)
            donor = donor or next((k for k in fitting if self._pointwise(segment, k, out)), None)
            if donor is not None:
                dying.remove(donor)
                pairs.append((donor, out))
            elif self._nbytes(out) >= SMALL:
                spares.append(out)
            else:
                fresh.append(out)
        donated = [k for k, _ in pairs]
        results = [*(k for _, k in pairs), *spares, *fresh]
        inputs = [k for k in used if k not in donated]
        segment.donated = [self.slots[k] for k in donated]
        segment.spares = [self.aval(k) for k in spares]
        segment.inputs = [self.slots[k] for k in inputs]
        segment.outputs = [self.slots[k] for k in results]
        # An updated input that nobody wants has become a result, which is then dead.
        dead = [*dying, *(k for k in results if k not in wanted)]
        segment.dead = [self.slots[k] for k in dead if self._nbytes(k) >= SMALL]
        segment.call = self._function(segment, donated, len(spares), inputs, results)

    def _pointwise(self, segment: Segment, donor: Key, out: Key) -> bool:
        """Whether the tasks read the donor where they write the result, so that the result may replace it."""
        written = self.plan.versions.all[out.version].producer
        if written is None or donor.view is not None or out.view is not None:
            return False
        target = self.plan.task(written).output
        same = self.stores[donor.version].id == target.store.id
        for step in segment.steps:
            if not isinstance(step, Compute):
                continue
            for t in step.tasks:
                placed = self.plan.placed[t]
                for access, version, need in zip(placed.task.inputs, placed.reads, placed.needs, strict=True):
                    if isinstance(access, Access) and version == donor.version:
                        in_place = access.view == target.view if same else access.view.is_identity(access.store.shape)
                        if not isinstance(need, Local) or not in_place:
                            return False
        return same or target.view.is_identity(target.store.shape)

    def _function(
        self, segment: Segment, donated: list[Key], spares: int, inputs: list[Key], results: list[Key]
    ) -> Any:
        operands = sum(len(indices) for _, indices in self.packed)

        def run(*arguments: Any) -> tuple[Any, ...]:
            given = list(arguments)
            token = given.pop() if segment.communicates else None
            active = given.pop()
            scalars: list[Any] = [None] * operands
            for _, indices in reversed(self.packed):
                vector = given.pop()
                for place, index in enumerate(indices):
                    scalars[index] = vector[place]
            arrays = dict(zip(donated, given, strict=False))
            arrays.update(zip(inputs, given[len(donated) + spares :], strict=True))
            pieces = {key: Piece(array, self.region(key)) for key, array in arrays.items()}
            state = State(pieces, scalars, self.transport, active, token)
            for step in segment.steps:
                step.run(state)
            seen = {id(a) for a in arguments}
            outputs = []
            for key in results:
                array = fit(state.pieces[key], self.region(key))
                if id(array) in seen and not (key in arrays and array is arrays[key]):
                    # JAX would hand out one buffer under two names, and one of them may be donated later.
                    array = jnp.copy(array)
                seen.add(id(array))
                outputs.append(array)
            return (*outputs, state.token) if segment.communicates else tuple(outputs)

        run.__name__ = run.__qualname__ = f"diffuse_{segment.name}"[:60]
        return jax.jit(run, donate_argnums=tuple(range(len(donated) + spares)), keep_unused=True)
