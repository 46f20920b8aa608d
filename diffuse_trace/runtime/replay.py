"""Replays: an executable run on the data of its stores, with as little Python as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..lower.executable import Executable
from ..lower.transport import Transport
from .buffers import pool, worthwhile
from .stores import Data

#: Called after each segment with the replay, the segment's number and its seconds.
Observer = Callable[["Replay", int, float], None]

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
        self.first_seconds = 0.0  # of the first run: compilation, as good as all of it

    def run(self, inputs: Mapping[int, Data], operands: list[Any]) -> dict[int, Data]:
        """Run once; ``inputs`` by store id.  Returns the data of the live stores that have changed.

        Inputs that are not live, or have changed, lose their buffers.
        """
        executable = self.executable
        observer = self.observer
        began = time.perf_counter() if not self.calls else 0.0
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
            start = time.perf_counter() if observer is not None else 0.0
            if segment.communicates:
                results = segment.call(*arguments, *scalars, active, self._token)
                self._token = results[-1]
                self.transport.check()
            else:
                results = segment.call(*arguments, *scalars, active)
            if observer is not None and self.calls:
                observer(self, number, time.perf_counter() - start)
            for s, result in zip(segment.outputs, results, strict=False):
                values[s] = result
            if self.check is not None:
                self.check(number, values)
            del arguments, results
            for s in segment.dead:
                pool.give(values[s])
                values[s] = None
        if not self.calls:
            self.first_seconds = time.perf_counter() - began
        self.calls += 1
        for store in executable.consumed:
            inputs[store].buffer = None
        return {
            store: Data(values[slot], partition, margin, valid | inputs[store].valid if unchanged else valid, reusable)
            for store, slot, partition, margin, valid, unchanged, reusable in self.final
        }

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
