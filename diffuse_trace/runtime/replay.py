"""Replays: an executable run on the data of its stores, with as little Python as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..lower.executable import Executable
from ..lower.transport import Spent, Transport
from .buffers import pool, worthwhile
from .stores import Data

#: Called after each segment with the replay, the segment's number, what it has spent and what the steps within regions.
Observer = Callable[["Replay", int, Spent, list[Spent]], None]

#: Sets of operands of one dtype that are kept on the device: the trips of a loop come with theirs again and again.
_KEPT = 64


class Replay:
    """Runs an executable; keeps the arrays of operands that have not changed since the last run."""

    def __init__(self, executable: Executable, transport: Transport) -> None:
        self.executable, self.transport = executable, transport
        self._operands: list[Any] = [None] * len(executable.operands)
        self._last: list[Any] | None = None
        self._given: list[dict[bytes, Any]] = [{} for _ in executable.operands]
        self._active: dict[tuple[frozenset[tuple[int, ...]], ...], Any] = {}
        self._token: Any = transport.token()
        pool.expect(aval for segment in executable.segments for aval in segment.spares)
        plan = executable.plan
        stores = plan.program.stores()
        layouts = executable.geometry.layouts
        #: Of each changed store: id, slot, partition, margin, valid shifts, whether only its ghosts are new, reusable.
        self.final = [
            (
                store,
                slot,
                plan.alignment.stores[store],
                layouts[store].margin,
                executable.valid[store],
                executable.unchanged(store),
                worthwhile(layouts[store].shape, stores[store].dtype),
            )
            for store, slot in executable.final
        ]
        self.observer: Observer | None = None
        self.check: Callable[[int, list[Any]], None] | None = None  # looks at what a segment leaves in the slots
        self.calls = 0
        self.plan_seconds = 0.0  # to plan and lower it
        self.compile_seconds = 0.0  # where it is observed

    def run(self, inputs: Mapping[int, Data], operands: list[Any]) -> dict[int, Data]:
        """Run once; ``inputs`` by store id.  Returns the data of the live stores that have changed.

        Inputs that are not live, or have changed, lose their buffers.
        """
        executable = self.executable
        observer = self.observer
        values: list[Any] = [None] * executable.slots
        for store, slot in executable.entry:
            values[slot] = inputs[store].buffer
        scalars = self._scalars(operands) if executable.operands else ()
        active = self._flags(inputs)
        for number, segment in enumerate(executable.segments):
            arguments = [values[s] for s in segment.donated]
            for aval in segment.spares:
                arguments.append(pool.take(aval))
            for s in segment.inputs:
                arguments.append(values[s])
            arguments += [*scalars, active]
            if segment.communicates:
                arguments.append(self._token)
            if segment.clocks is not None:
                arguments.append(segment.clocks.marks.address)
            results = segment.call(*arguments) if observer is None else self._observed(number, arguments, observer)
            if segment.communicates:
                self._token = results[-1]
                self.transport.check()
            for s, result in zip(segment.outputs, results, strict=False):
                values[s] = result
            if self.check is not None:
                self.check(number, values)
            del arguments, results
            for s in segment.dead:
                pool.give(values[s])
                values[s] = None
        self.calls += 1
        for store in executable.consumed:
            inputs[store].buffer = None
        return {
            store: Data(values[slot], partition, margin, valid | inputs[store].valid if unchanged else valid, reusable)
            for store, slot, partition, margin, valid, unchanged, reusable in self.final
        }

    def _observed(self, number: int, arguments: list[Any], observer: Observer) -> Any:
        """Run a segment, compiled beforehand, and tell what it has spent."""
        segment = self.executable.segments[number]
        clocks = segment.clocks
        if not self.calls:
            start = time.perf_counter()
            segment.call = segment.call.lower(*arguments).compile()
            self.compile_seconds += time.perf_counter() - start
        if clocks is not None:
            clocks.marks.begin()
        start, waited = time.perf_counter(), self.transport.waited()
        results = segment.call(*arguments)
        spent = Spent(1, time.perf_counter() - start, self.transport.waited() - waited)
        observer(self, number, spent, clocks.marks.spent() if clocks is not None else [])
        return results

    def _scalars(self, operands: list[Any]) -> list[Any]:
        # Equal to the last ones: so are their bits, unless there are zeros, which have signs.
        if operands == self._last and 0 not in operands:
            return self._operands
        for n, (dtype, indices) in enumerate(self.executable.operands):
            vector = np.array([operands[i] for i in indices], dtype)
            known, given = self._given[n], vector.tobytes()
            if given not in known:
                if len(known) == _KEPT:
                    del known[next(iter(known))]
                known[given] = jnp.asarray(vector)
            self._operands[n] = known[given]
        self._last = operands
        return self._operands

    def _flags(self, inputs: Mapping[int, Data]) -> Any:
        halos = self.executable.halos
        valid = tuple([inputs[store].valid for store, _ in halos])
        active = self._active.get(valid)
        if active is None:
            needed = [not shifts <= v for (_, shifts), v in zip(halos, valid, strict=True)]
            active = self._active[valid] = jnp.asarray(np.array([*needed, False], np.int32))
        return active
