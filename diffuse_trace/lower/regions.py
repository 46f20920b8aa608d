"""Regions: loops and branches inside one executable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax import lax

from ..fuse.plan import Plan
from ..ir import Loop
from .blocks import Piece, fit
from .communicate import Communicate
from .compute import Compute
from .geometry import Geometry
from .state import Key, State, Step

if TYPE_CHECKING:
    from .executable import _Builder
    from .slots import Slots


class _Region(Step):
    """The steps of two parts, what the region needs from outside and what it makes."""

    def __init__(
        self, plan: Plan, geometry: Geometry, number: int, one: Sequence[Step], other: Sequence[Step], inside: set[Key]
    ) -> None:
        self.plan, self.geometry, self.one, self.other = plan, geometry, list(one), list(other)
        self.region = plan.program.regions[number]
        handed = plan.versions.handed[number]
        self.predicate = Key(handed.predicate)
        self.first, self.second, self.made = (
            tuple(Key(v) for v in versions) for versions in (handed.first, handed.second, handed.made)
        )
        self.makes = self.made
        needed: dict[Key, None] = {}
        for part in (self.one, self.other):
            there = set(inside)
            if part is self.other and isinstance(self.region, Loop):
                there |= {k for step in self.one for k in step.makes}
            for step in part:
                needed.update((k, None) for k in (*step.uses, *step.updates) if k not in there)
                there.update(step.makes)
        self._made_inside = {k for step in (*self.one, *self.other) for k in step.makes}
        needed.update((k, None) for k in (self.predicate, *self.first, *self.second) if k not in self._made_inside)
        for key in inside:
            needed.pop(key, None)
        self.uses = tuple(needed)
        self.communicates = any(step.communicates for step in (*self.one, *self.other))

    def _fitted(self, piece: Piece, key: Key) -> Any:
        """A piece over the buffer of what is handed on."""
        return fit(piece, self._buffer(key))

    def _buffer(self, key: Key) -> Any:
        return self.geometry.of(self.plan.versions.all[key.version].store).buffer


class Iterate(_Region):
    """A loop: a `while_loop` that carries the values in their buffers, spare ones, and the token.

    A trip that leaves a value in another buffer than it found it in (an update that reads its neighbours' old values)
    would make XLA copy.  Where the number of trips is known beforehand two are taken at once, after which
    everything is where it was.
    """

    name = "loop"

    def __init__(
        self, plan: Plan, geometry: Geometry, number: int, condition: Sequence[Step], body: Sequence[Step]
    ) -> None:
        made = {Key(v) for v in plan.versions.handed[number].made}
        super().__init__(plan, geometry, number, condition, body, made)
        self.slots: Slots | None = None
        self.outer: dict[Key, int] = {}  # of what is carried: the slot outside that it ends up in

    def assign(self, builder: _Builder) -> None:
        """Choose the buffers that the body builds its results in."""
        from .slots import Slots

        exchanged = {k for step in self.other if isinstance(step, Communicate) for k in step.updates}
        only = {*self.second, *exchanged}
        roots = {Key(v) for step in self.other if isinstance(step, Compute) for v in step.roots}
        pending = list(only)
        while pending:  # what is updated in place until it is what is carried
            previous = self.plan.versions.all[pending.pop().version].previous
            if previous is not None and Key(previous) in roots - only:
                only.add(Key(previous))
                pending.append(Key(previous))
        self.slots = Slots(builder, self.other, self.made, set(self.second), only)

    def run(self, state: State) -> None:
        """Trace the loop."""
        assert self.slots is not None
        slots = self.slots.all
        home = {s.first: n for n, s in enumerate(slots) if s.first is not None}
        ends = {s.key: n for n, s in enumerate(slots) if s.key is not None}
        loose = [key for key in self.made if key not in home]
        back = dict(zip(self.made, self.second, strict=True))

        def enter(carry: tuple[Any, ...]) -> State:
            buffers, values, token = carry
            inner = state.inside(list(buffers), token)
            for key, number in home.items():
                inner.pieces[key] = Piece(buffers[number], self._buffer(key))
            for key, value in zip(loose, values, strict=True):
                inner.pieces[key] = Piece(value, self._buffer(key))
            return inner

        def leave(inner: State) -> tuple[Any, ...]:
            buffers: list[Any] = [None] * len(slots)
            taken = set()
            for key, number in home.items():
                last = back[key]
                if last in ends and ends[last] not in taken:
                    taken.add(ends[last])
                    buffers[number] = inner.slots[ends[last]]
                else:
                    buffers[number] = self._fitted(inner.pieces[last], key)
            rest = [inner.slots[n] for n in range(len(slots)) if n not in taken]
            for number, slot in enumerate(slots):
                if buffers[number] is None:
                    place = next(k for k, a in enumerate(rest) if a.shape == slot.aval[0] and a.dtype == slot.aval[1])
                    buffers[number] = rest.pop(place)
            values = tuple(self._fitted(inner.pieces[back[key]], key) for key in loose)
            return tuple(buffers), values, inner.token

        def holds(carry: tuple[Any, ...]) -> Any:
            inner = enter(carry)
            for step in self.one:
                step.run(inner)
            return self._fitted(inner.pieces[self.predicate], self.predicate)

        def trip(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            inner = enter(carry)
            inner.passed(self)
            for step in self.other:
                step.run(inner)
                inner.passed(step)
            return leave(inner)

        entering = dict(zip(self.made, self.first, strict=True))
        buffers = tuple(
            self._fitted(state.pieces[entering[s.first]], s.first)
            if s.first is not None
            else lax.full(s.aval[0], 0, s.aval[1])
            for s in slots
        )
        values = tuple(self._fitted(state.pieces[entering[key]], key) for key in loose)
        carry = (buffers, values, state.token)
        moved = any(ends.get(back[key]) != number for key, number in home.items())
        if moved and isinstance(self.region, Loop) and self.region.counter is not None:
            carry = lax.while_loop(lambda c: self._two_more(enter(c)), lambda c: trip(trip(c)), carry)
        carry = lax.while_loop(holds, trip, carry)
        after = enter(carry)
        state.token = after.token
        for key in self.made:
            state.pieces[key] = after.pieces[key]
            if key in self.outer:
                state.slots[self.outer[key]] = after.pieces[key].array

    def _two_more(self, inner: State) -> Any:
        """Whether at least two trips are left."""
        region = self.region
        assert isinstance(region, Loop) and region.counter is not None and region.bound is not None
        keys = {self.plan.versions.all[k.version].store.id: k for k in inner.pieces if k.view is None}
        keys |= {c.inside.id: k for c, k in zip(region.carried, self.made, strict=True)}
        counter, bound = (inner.pieces[keys[s.id]].array for s in (region.counter, region.bound))
        return counter + 1 < bound


class Decide(_Region):
    """A branch: one of two parts, whichever the predicate says."""

    name = "branch"

    def __init__(
        self, plan: Plan, geometry: Geometry, number: int, first: Sequence[Step], second: Sequence[Step]
    ) -> None:
        super().__init__(plan, geometry, number, first, second, set())

    def run(self, state: State) -> None:
        """Trace both arms."""

        def arm(steps: Sequence[Step], results: Sequence[Key]) -> Any:
            def run(token: Any) -> tuple[Any, ...]:
                inner = state.inside([], token)
                for step in steps:
                    step.run(inner)
                    inner.passed(step)
                values = zip(results, self.made, strict=True)
                return tuple(self._fitted(inner.pieces[key], made) for key, made in values), inner.token

            return run

        predicate = self._fitted(state.pieces[self.predicate], self.predicate)
        values, state.token = jax.lax.cond(
            predicate, arm(self.one, self.first), arm(self.other, self.second), state.token
        )
        for key, value in zip(self.made, values, strict=True):
            state.pieces[key] = Piece(value, self._buffer(key))
