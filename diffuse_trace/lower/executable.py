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

from ..fuse.plan import Plan
from .blocks import Piece, fit
from .communicate import Communicate
from .geometry import Geometry, Region, halos, shape_of
from .slots import SMALL, Aval, Slots
from .state import Clocks, Key, State, Step
from .steps import all_steps, steps_of
from .transport import Transport


@dataclass
class Segment:
    """One compiled function: ``call(*donated, *spares, *inputs, *operands, active[, token][, marks])``.

    Values are named by their slots.  The results are those of ``outputs``, in order; the token comes last where the
    segment communicates.  With ``clocks`` the address of their marks is an argument.  The buffers in ``dead`` hold
    nothing of use afterwards and have not been donated.
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
    clocks: Clocks | None = None


@dataclass
class Executable:
    """A lowered plan on one rank.

    ``entry`` and ``final`` hold (store id, slot): of each input, and of each live store that has changed;
    ``consumed`` the inputs whose buffers are used up.  ``halos`` says
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
    places: dict[Key, int]  # the slot of each value that outlives a segment

    def unchanged(self, store: int) -> bool:
        """Whether the store's elements are those it had on entry (only its ghosts are new)."""
        return self.plan.versions.final[store] == self.plan.versions.entry.get(store)


def build(plan: Plan, geometry: Geometry, transport: Transport, digest: int, grain: str) -> Executable:
    """Lower a plan for the rank of ``geometry``; compilation happens at the first call of each segment."""
    entry = dict(plan.versions.entry)
    entered = {version: store for store, version in entry.items()}
    skippable = [(t.version, frozenset(t.shifts)) for t in halos(plan) if t.version in entered]
    flags = {version: n for n, (version, _) in enumerate(skippable)}
    steps = steps_of(plan, geometry, flags, digest, grain)
    segments = [Segment("plan", steps)] if grain == "plan" else [Segment(s.name, [s]) for s in steps]
    for segment in segments if grain == "step" else ():
        numbers = {id(step): n for n, step in enumerate(all_steps(segment.steps))}
        segment.clocks = Clocks(transport.marks(len(numbers)), numbers) if len(numbers) > 1 else None

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

    carried = {v for handed in plan.versions.handed for v in handed.made}  # exchanged in trips, and changed after
    exchanged = {t.version: frozenset(t.shifts) for t in halos(plan) if t.version not in carried}
    changed = {s: v for v, s in final.items() if v not in entered or v in exchanged}
    return Executable(
        plan,
        geometry,
        segments,
        len(slots) + builder.extra,
        [(store, slots[Key(v)]) for store, v in entry.items()],
        [(store, slots[Key(v)]) for store, v in changed.items()],
        [store for store, v in entry.items() if v in exchanged or v not in final],
        [(entered[v], shifts) for v, shifts in skippable],
        {s: exchanged.get(v, frozenset()) for s, v in changed.items()},
        packed,
        slots,
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
        self.extra = 0

    def region(self, key: Key) -> Region:
        """The region of the buffer that holds a value between segments."""
        return self.targets[key] if key in self.targets else self.geometry.of(self.stores[key.version]).buffer

    def aval(self, key: Key) -> Aval:
        """Shape and dtype of that buffer."""
        return shape_of(self.region(key)), self.stores[key.version].dtype

    def sparse(self, key: Key) -> bool:
        """Whether a value is a sparse store's."""
        return self.stores[key.version].pattern is not None

    def _nbytes(self, key: Key) -> int:
        if self.sparse(key):
            return 0
        shape, dtype = self.aval(key)
        return math.prod(shape) * dtype.itemsize

    def finish(self, segment: Segment, held: dict[Key, None], wanted: set[Key], idle: list[Key]) -> None:
        """Choose the buffers of results, order the arguments and results, and make the function.

        ``held`` values exist before, ``wanted`` ones are needed after, ``idle`` ones were never of use.
        """
        segment.communicates = any(s.communicates for s in segment.steps)
        for step in all_steps(segment.steps):
            if isinstance(step, Communicate):
                self.targets.update(zip(step.moves, step.targets, strict=True))
                self.targets.update((key, ((0, n),)) for key, n in step.extents.items())
        used = dict.fromkeys(k for step in segment.steps for k in step.uses if k in held)
        changed = dict.fromkeys(k for step in segment.steps for k in (*step.makes, *step.updates))
        slots = Slots(self, segment.steps, [*idle, *used], wanted)
        donated = [s.first for s in slots.kept if s.first is not None]
        spares = [s for s in slots.kept if s.first is None]
        order = [s for s in slots.kept if s.first is not None] + spares
        inside = {s.key for s in order if s.key is not None}
        outside = [k for k in changed if k in wanted and k not in inside]
        inputs = [k for k in used if k not in donated]
        segment.donated = [self.slots[k] for k in donated]
        segment.spares = [s.aval for s in spares]
        segment.inputs = [self.slots[k] for k in inputs]
        # What a slot holds at the end is wanted, or nothing of use: then it goes under the name of what it held first.
        names = [s.key if s.key in wanted else None for s in order]
        segment.outputs = [self.slots[k] if k is not None else self._nameless() for k in names]
        nameless = [n for k, n, s in zip(names, segment.outputs, order, strict=True) if k is None and s.nbytes >= SMALL]
        segment.outputs += [self.slots[k] for k in outside]
        dying = [k for k in (*idle, *used) if k not in wanted and k not in donated and self._nbytes(k) >= SMALL]
        segment.dead = nameless + [self.slots[k] for k in dying]
        segment.call = self._function(
            segment, donated, [slots.number(s) for s in order], len(slots.all), inputs, outside
        )

    def _nameless(self) -> int:
        """A new slot of the environment, for a buffer that holds nothing of use."""
        self.extra += 1
        return len(self.slots) + self.extra - 1

    def _function(
        self, segment: Segment, donated: list[Key], order: list[int], slots: int, inputs: list[Key], outside: list[Key]
    ) -> Any:
        operands = sum(len(indices) for _, indices in self.packed)

        def run(*arguments: Any) -> tuple[Any, ...]:
            given = list(arguments)
            clocks = (segment.clocks, given.pop()) if segment.clocks is not None else None
            token = given.pop() if segment.communicates else None
            active = given.pop()
            scalars: list[Any] = [None] * operands
            vectors: list[Any] = [None] * operands
            for _, indices in reversed(self.packed):
                vector = given.pop()
                for place, index in enumerate(indices):
                    scalars[index], vectors[index] = vector[place], (vector, place)
            buffers: list[Any] = [None] * slots
            for number, array in zip(order, given, strict=False):
                buffers[number] = array
            named = [*zip(donated, given, strict=False), *zip(inputs, given[len(order) :], strict=True)]
            pieces = {key: Piece(array, self.region(key)) for key, array in named}
            state = State(pieces, buffers, scalars, self.transport, active, token, vectors=vectors, clocks=clocks)
            for step in segment.steps:
                step.run(state)
            # JAX would hand out one buffer under two names, and one of them may be donated later.
            seen = {id(a) for a in arguments}
            outputs = []
            for number, argument in zip(order, given, strict=False):
                array = state.slots[number]
                outputs.append(jnp.copy(array) if id(array) in seen and array is not argument else array)
                seen.add(id(array))
            for key in outside:
                array = fit(state.pieces[key], self.region(key))
                outputs.append(jnp.copy(array) if id(array) in seen else array)
                seen.add(id(array))
            return (*outputs, state.token) if segment.communicates else tuple(outputs)

        run.__name__ = run.__qualname__ = f"diffuse_{segment.name}"[:60]
        return jax.jit(run, donate_argnums=tuple(range(len(order))), keep_unused=True)
