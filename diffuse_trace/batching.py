"""Batches: calls of a jitted function with its own results, put off and run as one loop.

    for k in range(1000):
        u = step(u, 0.2)        # nothing looks at u in between

Once such calls have taken as long as it takes to compile a loop, further ones are only noted.  When anything else is
done, or there are enough, they run as one executable: what the calls hand on stays in place, and Python is left once
for all.  What decides is the same on every rank.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import config, recording, trips
from .ir.rolling import repeated
from .recording import Array
from .runtime import execute
from .runtime.execute import Compiled
from .runtime.stores import Data, LogicalStore
from .traces import ArrayLeaf, Trace

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Repeat:
    """A compiled loop of calls, whose second operand is how many; ``after`` names what it leaves of each pair."""

    compiled: Compiled
    inputs: list[tuple[int, int]]  # (id in the loop, store id of the trace)
    results: dict[int, int]  # id in the loop -> store id of the trace
    operands: list[tuple[int, Any]]


def patience(trace: Trace) -> float:
    """After how many calls it is worth while to put off further ones; infinite where they cannot be."""
    arrays = [leaf for leaf in trace.leaves if isinstance(leaf, ArrayLeaf)]
    if len(trace.chunks) != 1 or len(trace.arguments) != len(arrays):
        return math.inf
    changed = set(trace.chunks[0].results.values()) & set(trace.arguments)
    kinds = {(leaf.shape, leaf.dtype) for leaf in arrays}
    if not changed and not any(kind in kinds for kind in trace.returned.values()):
        return math.inf
    return trips.patience(_seconds(trace))


def _seconds(trace: Trace) -> float:
    """An estimate of the time of a call."""
    program = trace.chunks[0].compiled.program
    touched = {s.id for s, _ in program.inputs} | program.live
    return trips.seconds(s for s in program.stores().values() if s.id in touched)


class Batch:
    """Calls that have been put off; `run` makes up for them."""

    def __init__(self, owner: Any, trace: Trace, treedef: Any, leaves: Sequence[Any]) -> None:
        self.owner, self.trace, self.treedef = owner, trace, treedef
        self.limit = max(2, min(int(trips.SPAN / _seconds(trace)), config.get("batch")))
        self.pairs: Pairs | None = None
        self.scalars = [None if isinstance(leaf, Array) else leaf for leaf in leaves]
        self.views = [leaf.view if isinstance(leaf, Array) else None for leaf in leaves]
        #: By leaf: the store that each call is given.  Those that are handed on are not held: their end is noticed.
        self.given: dict[int, Any] = {leaf: weakref.ref(leaves[leaf].store) for leaf in trace.arguments.values()}
        self.fixed: list[LogicalStore] = []  # what every call is given, held so that it stays what it is
        self.owners = {id: self.given[leaf] for id, leaf in trace.arguments.items()}
        self.data: dict[int, Data] = {id: leaves[leaf].store.data for id, leaf in trace.arguments.items()}
        self.made: list[dict[int, weakref.ref[LogicalStore]]] = []

    def continues(self, owner: Any, treedef: Any, leaves: Sequence[Any]) -> bool:
        """Whether a call has the results of the last one, and all else as it was."""
        trace = self.trace
        if owner is not self.owner or treedef != self.treedef or not trace.current():
            return False
        if not trace.guards.hold():
            return False
        pairs: list[tuple[int, int]] = []
        fixed: list[LogicalStore] = []
        last = self.made[-1]
        for id, n in trace.arguments.items():
            leaf = leaves[n]
            if not isinstance(leaf, Array):
                return False
            store = leaf.store
            if store is self.given[n]():
                if leaf.view is not self.views[n] and leaf.view != self.views[n]:
                    return False
                fixed.append(store)
                continue
            found = next((r for r, ref in last.items() if ref() is store), None)
            if found is None or not leaf.view.is_identity(store.shape) or not self._fits(found, leaf, n):
                return False
            pairs.append((id, found))
        for n, value in enumerate(self.scalars):
            if value is not None and leaves[n] is not value and not _alike(leaves[n], value):
                return False
        if self.pairs is None:
            self.pairs, self.fixed = tuple(pairs), fixed
        return self.pairs == tuple(pairs)

    def _fits(self, result: int, leaf: Array, n: int) -> bool:
        known = self.trace.leaves[n]
        if not isinstance(known, ArrayLeaf):
            return False
        if self.pairs is not None:
            return leaf.weak is known.weak
        chunk = self.trace.chunks[0]
        partition = next((p for id, _, p, *_ in chunk.compiled.replay.final if chunk.results[id] == result), None)
        same = (leaf.shape, leaf.dtype, leaf.view) == (known.shape, known.dtype, known.view)
        return same and leaf.weak is known.weak and partition == known.partition

    def add(self, leaves: Sequence[Any]) -> Any:
        """Note a call; its results have no values yet."""
        trace = self.trace
        if not self.made:
            recording.pending = self.run
        made = {id: LogicalStore(shape, dtype) for id, (shape, dtype) in trace.returned.items()}
        self.made.append({id: weakref.ref(store) for id, store in made.items()})
        holders = {id: leaves[leaf].store for id, leaf in trace.arguments.items()} | made
        holders |= {id: store for id, (store, _) in trace.captured.items()}
        for id, _ in self.pairs or ():
            self.given[trace.arguments[id]] = _nothing
        result = trace.finish(leaves, holders)
        if len(self.made) >= self.limit:
            recording.settle()
        return result

    def run(self) -> None:
        """Make all calls: those whose results nobody has any more as one loop, the others one by one."""
        count = len(self.made)
        if count == 1:
            self.trace.disappointed()
        # Whether something refers to what a call has made.
        kept = [any(ref() is not None for ref in made.values()) for made in self.made]
        try:
            k = 0
            while k < count:
                stop = k
                while stop < count - 1 and not kept[stop]:
                    stop += 1
                held = any(self.owners[id]() is not None for id, _ in self.pairs or ())
                loop = self._repeat() if stop - k >= 2 and not held else None
                # Loops may take two trips at once (`lower/regions.py`): an odd one would end in another buffer.
                if loop is None or (stop - k) % 2:
                    self._once(k)
                    k += 1
                else:
                    self._loop(loop, stop - k)
                    k = stop
        except BaseException as error:
            for made in self.made:
                for ref in made.values():
                    store = ref()
                    if store is not None and store.data is None:
                        store.error = str(error) or type(error).__name__
            raise

    def _inputs(self, wanted: Sequence[tuple[int, int]]) -> dict[int, Data]:
        captured = self.trace.captured
        return {id: captured[s][0].data if s in captured else self.data[s] for id, s in wanted}  # type: ignore[misc]

    def _take(self, id: int, data: Data) -> None:
        """An argument or a captured array has new data."""
        if id in self.trace.captured:
            self.trace.captured[id][0].data = data
            return
        self.data[id] = data
        store = self.owners[id]()
        if store is not None:
            store.data = data

    def _once(self, k: int) -> None:
        trace, chunk = self.trace, self.trace.chunks[0]
        operands = [self.scalars[leaf] if leaf >= 0 else literal for leaf, literal in chunk.operands]
        results = {chunk.results[id]: d for id, d in chunk.compiled.run(self._inputs(chunk.inputs), operands).items()}
        for id, data in results.items():
            if id in trace.arguments or id in trace.captured:
                self._take(id, data)
            elif id in self.made[k]:
                store = self.made[k][id]()
                if store is not None:
                    store.data = data
        for id, result in self.pairs or ():
            self.data[id], self.owners[id] = results[result], self.made[k][result]

    def _loop(self, loop: Repeat, trips: int) -> None:
        operands = [self.scalars[leaf] if leaf >= 0 else literal for leaf, literal in loop.operands]
        operands[1] = trips
        results = loop.compiled.run(self._inputs(loop.inputs), operands)
        for id, data in results.items():
            self._take(loop.results[id], data)
        for id, _ in self.pairs or ():
            self.owners[id] = _nothing

    def _repeat(self) -> Repeat | None:
        """The compiled loop for these pairs."""
        trace = self.trace
        pairs = self.pairs or ()
        if pairs not in trace.repeats:
            trace.repeats[pairs] = self._compile(pairs) if trace.current() else None
        return trace.repeats[pairs]

    def _compile(self, pairs: Pairs) -> Repeat | None:
        chunk = self.trace.chunks[0]
        named = {store: id for id, store in (*chunk.inputs, *chunk.results.items())}
        handed = [(named[a], named[b]) for a, b in pairs]
        made = repeated(chunk.compiled.program, handed, 2, recording.new_store)
        if made is None:
            return None
        rolled, after = made
        where = dict(chunk.inputs)
        inputs = self._inputs([(id, s) for id, s in chunk.inputs if id in {x.id for x, _ in rolled.program.inputs}])
        compiled, number = execute.compile(rolled.program, inputs, self.trace.name)
        meaning = {number[id]: where[id] for id in inputs}
        meaning |= {number[id]: pair[0] for id, pair in zip(after, pairs, strict=True)}
        operands = [(-1, o) if isinstance(o, int) else chunk.operands[o.index] for o in rolled.operands]
        return Repeat(
            compiled,
            [(number[id], where[id]) for id in inputs],
            {id: meaning[id] for id, *_ in compiled.replay.final},
            operands,
        )


def _nothing() -> None:
    """A reference to what there is no more."""


def _alike(value: Any, other: Any) -> bool:
    """Whether code cannot tell two scalars apart."""
    return type(value) is type(other) and repr(value) == repr(other)
