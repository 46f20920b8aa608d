"""Traces: a function's recorded operations for one signature, compiled, and their replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.tree_util as tree
import numpy as np

from . import config
from .guards import Guards
from .ir import Partition, Program, View
from .ir.rolling import repeats
from .recording import Array, Window
from .runtime import execute
from .runtime.execute import Compiled
from .runtime.stores import Data, LogicalStore

#: Tasks of one program; a trace with more is cut at the trips of its loops, so that each is compiled once.
LONGEST = 1000


@tree.register_static
@dataclass(frozen=True)
class Static:
    """A static argument: a part of the structure of the arguments instead of a leaf."""

    value: Any


@dataclass(frozen=True, slots=True)
class ArrayLeaf:
    """What a signature says about an array argument; ``alias`` is the first argument that views the same store."""

    shape: tuple[int, ...]
    dtype: np.dtype
    view: View
    weak: type | None
    partition: Partition
    alias: int

    def matches(self, leaf: Any, leaves: Sequence[Any]) -> bool:
        """Whether another argument is like this one.  Identity is tried first: this is on the path of every call."""
        if not isinstance(leaf, Array):
            return False
        store = leaf.store
        data = store.data
        return (
            (leaf.view is self.view or leaf.view == self.view)
            and store.ir.shape == self.shape
            and store.ir.dtype == self.dtype
            and leaf.weak is self.weak
            and data is not None
            and (data.partition is self.partition or data.partition == self.partition)
            and store is leaves[self.alias].store
        )


@dataclass(frozen=True, slots=True)
class ScalarLeaf:
    """A scalar argument, given at each call."""

    kind: type

    def matches(self, leaf: Any, leaves: Sequence[Any]) -> bool:
        """Whether another argument is a scalar of the same type."""
        return type(leaf) is self.kind


@dataclass(frozen=True, slots=True)
class ConstantLeaf:
    """An argument that is part of the signature: a flag, a string, a function."""

    value: Any

    def matches(self, leaf: Any, leaves: Sequence[Any]) -> bool:
        """Whether another argument is the same; of an object whose contents may change, the same object."""
        if leaf is self.value:
            return True
        if type(leaf) is not type(self.value) or hasattr(leaf, "__diffuse_version__"):
            return False
        return bool(leaf == self.value)


def describe(index: int, leaves: Sequence[Any]) -> ArrayLeaf | ScalarLeaf | ConstantLeaf:
    """What a signature says about one argument."""
    leaf = leaves[index]
    if isinstance(leaf, Array):
        assert leaf.store.data is not None
        alias = next(k for k, other in enumerate(leaves) if isinstance(other, Array) and other.store is leaf.store)
        return ArrayLeaf(leaf.store.shape, leaf.store.dtype, leaf.view, leaf.weak, leaf.store.data.partition, alias)
    if is_operand(leaf):
        return ScalarLeaf(type(leaf))
    return ConstantLeaf(leaf)


def is_operand(leaf: Any) -> bool:
    """Whether an argument is a scalar whose value may change from call to call.  Python's bools are flags, so not."""
    return isinstance(leaf, int | float | complex | np.generic) and not isinstance(leaf, bool)


@dataclass(slots=True)
class Result:
    """A leaf of what the function returned: an argument itself, a view of a store, or a constant."""

    argument: int = -1
    store: int = -1
    array: Array | None = None
    constant: Any = None


@dataclass(slots=True)
class Chunk:
    """A compiled program of a trace.  Stores are named by the ids that they had when it was recorded."""

    compiled: Compiled
    inputs: list[tuple[int, int]]  # (canonical id, store id)
    results: dict[int, int]  # canonical id -> store id
    operands: list[tuple[int, Any]]  # (argument or -1, literal)


@dataclass
class Trace:
    """One recorded signature of a function, and what to run for it."""

    name: str
    treedef: Any
    leaves: list[ArrayLeaf | ScalarLeaf | ConstantLeaf]
    guards: Guards
    arguments: dict[int, int]  # store id -> the argument that held it
    chunks: list[Chunk] = field(default_factory=list)
    captured: dict[int, tuple[LogicalStore, Partition]] = field(default_factory=dict)
    returned: dict[int, tuple[tuple[int, ...], np.dtype]] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    result_tree: Any = None
    settings: tuple[Any, ...] = field(default_factory=config.code_key)
    calls: int = 0
    patience: float = -1.0  # calls before further ones are put off (`batching.py`); negative: not known yet
    repeats: dict[Any, Any] = field(default_factory=dict)  # loops of calls, by what is handed from one to the next

    def disappointed(self) -> None:
        """A call was put off and no other followed: wait longer before the next try."""
        self.patience = 4 * max(self.patience, self.calls)

    def current(self) -> bool:
        """Whether the settings that change code are those that it was made with."""
        settings = config.code_key()
        return self.settings is settings or self.settings == settings

    def matches(self, treedef: Any, leaves: Sequence[Any]) -> bool:
        """Whether a call has this signature."""
        if not self.current():
            return False
        if treedef != self.treedef or not self.guards.hold():
            return False
        stores = set()
        for known, leaf in zip(self.leaves, leaves, strict=True):
            if not known.matches(leaf, leaves):
                return False
            if type(known) is ArrayLeaf:
                stores.add(leaf.store)
        if len(stores) != len(self.arguments):
            return False
        return all(s.data is not None and s.data.partition == p for s, p in self.captured.values())

    def compile(
        self, window: Window, program: Program, inputs: Mapping[int, Data], operands: list[tuple[int, Any]]
    ) -> Compiled:
        """Compile a program of the window and append it; ``operands`` as those of a `Chunk`."""
        compiled, number = execute.compile(program, inputs, window.tracing)
        back = {new: old for old, new in number.items()}
        made = {id for chunk in self.chunks for id in chunk.results.values()}
        for store, partition in program.inputs:
            if store.id not in self.arguments and store.id not in made:
                held = window.stores[store.id]()
                assert held is not None
                self.captured[store.id] = (held, partition)
        self.chunks.append(
            Chunk(
                compiled,
                [(s.id, back[s.id]) for s, _ in compiled.program.inputs],
                {id: back[id] for id, _ in compiled.replay.executable.final},
                operands,
            )
        )
        return compiled

    def replay(self, leaves: Sequence[Any]) -> Any:
        """Run the compiled programs on the arguments of a call."""
        holders = {id: leaves[leaf].store for id, leaf in self.arguments.items()}
        if self.captured:
            holders.update((id, store) for id, (store, _) in self.captured.items())
        data = {id: store.data for id, store in holders.items()}
        for chunk in self.chunks:
            if execute.watchers:
                for watcher in execute.watchers:
                    watcher.looked_up(chunk.compiled.replay, self.name, "")
            inputs = {id: data[store] for id, store in chunk.inputs}
            operands = [leaves[leaf] if leaf >= 0 else literal for leaf, literal in chunk.operands]
            for id, result in chunk.compiled.run(inputs, operands).items():
                store = chunk.results[id]
                data[store] = result
                if store in holders:
                    holders[store].data = result
        for id, (shape, dtype) in self.returned.items():
            holders[id] = LogicalStore(shape, dtype, data[id])
        return self.finish(leaves, holders)

    def finish(self, leaves: Sequence[Any], holders: Mapping[int, LogicalStore]) -> Any:
        """The function's result, given the stores by the ids they had when it was recorded."""
        results = []
        for r in self.results:
            if r.argument >= 0:
                results.append(leaves[r.argument])
            elif r.array is not None:
                results.append(type(r.array)(holders[r.store], r.array.view, r.array.weak))
            else:
                results.append(r.constant)
        return tree.tree_unflatten(self.result_tree, results)


def loops(sites: Sequence[int]) -> list[int]:
    """Where to cut a long trace: the lengths of its parts, equal for the trips of a loop.

    >>> loops([1, 2, 3, 2, 3, 2, 3, 4])
    [1, 2, 2, 2, 1]
    """
    parts: list[int] = []
    n = 0
    while n < len(sites):
        period, trips = repeats(sites, n, LONGEST)
        if trips > 1:
            parts += [period] * trips
            n += period * trips
            continue
        start = n
        while n < len(sites) and n - start < LONGEST and (n == start or repeats(sites, n, LONGEST)[1] < 2):
            n += 1
        parts.append(n - start)
    return parts
