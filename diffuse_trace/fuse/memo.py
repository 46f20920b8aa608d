"""The memo of plans: looked up by equality, bounded, and able to say why a plan was not known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from .. import config
from ..ir import Access, IndexTask, Program
from ..ir.text import format_partition, format_view

T = TypeVar("T")

#: The reason of a miss that resembles nothing known.
FIRST = "no program with these operations has been planned"


@dataclass(frozen=True)
class Origin:
    """What a plan was made for: the canonical program, its inputs' margins, the number of ranks and the settings."""

    program: Program
    margins: tuple[tuple[int, tuple[int, ...]], ...]
    ranks: int
    settings: tuple[Hashable, ...]


class Memo(Generic[T]):
    """The ``size`` most recently used values by key.

    Keys are what `Program.key` gives and all else that decides what is compiled; a hash alone never decides.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.hits = self.misses = 0
        # Each entry holds its key too: to move it by the known object is faster than by an equal one.
        self._values: OrderedDict[Hashable, tuple[Hashable, Origin, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> T | None:
        """The value of a key; None where it is not known."""
        found = self._values.get(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._values.move_to_end(found[0])
        return found[2]

    def put(self, key: Hashable, origin: Origin, value: T) -> None:
        """Keep a value; the least recently used one goes where there are too many."""
        self._values[key] = key, origin, value
        self._values.move_to_end(key)
        while len(self._values) > self.size:
            self._values.popitem(last=False)

    def why(self, origin: Origin) -> str:
        """Why a program is not known: how it differs from the most recent one with the same operations."""
        operations = [t.op for t in origin.program.tasks]
        for _, known, _ in reversed(self._values.values()):
            if [t.op for t in known.program.tasks] == operations:
                return difference(known, origin)
        return FIRST

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()


def difference(a: Origin, b: Origin) -> str:
    """The first part in which two keys differ, in words."""
    p, q = a.program, b.program
    if [t.op for t in p.tasks] != [t.op for t in q.tasks]:
        return "the operations differ"
    return _arrays(p, q) or _stores(p, q) or _accesses(p, q) or _surroundings(p, q) or _rest(a, b)


def _pairs(p: Program, q: Program) -> Iterator[tuple[str, IndexTask, IndexTask]]:
    """The tasks of two programs with the same operations, and words for where they are."""
    for n, (u, v) in enumerate(zip(p.tasks, q.tasks, strict=True)):
        yield f"task {n} ({v.op}, {v.line or 'no line'})", u, v


def _arrays(p: Program, q: Program) -> str:
    # First of all: where other arrays are the same one the numbers of all that follow differ.
    for where, u, v in _pairs(p, q):
        one, other = (*u.inputs, u.output), (*v.inputs, v.output)
        for i, j in zip(one, other, strict=False):
            if isinstance(i, Access) and isinstance(j, Access):
                if i.store.id != j.store.id:
                    return f"which arrays are the same one: {where} uses %{j.store.id} in place of %{i.store.id}"
            elif i != j:
                return f"{where} has another scalar or an array in its place"
        if len(one) != len(other):
            return f"the number of inputs of {where}"
    return ""


def _stores(p: Program, q: Program) -> str:
    theirs = q.stores()
    for id, s in p.stores().items():
        t = theirs[id]
        if s.shape != t.shape:
            return f"the shape of %{id}: {s.shape}, then {t.shape}"
        if s.dtype != t.dtype:
            return f"the dtype of %{id}: {s.dtype}, then {t.dtype}"
    return ""


def _accesses(p: Program, q: Program) -> str:
    for where, u, v in _pairs(p, q):
        for i, j in zip((*u.inputs, u.output), (*v.inputs, v.output), strict=True):
            if isinstance(i, Access) and isinstance(j, Access):
                if i.view != j.view:
                    return f"the view of %{i.store.id} in {where}: {format_view(i)}, then {format_view(j)}"
                if (i.privilege, i.reduction) != (j.privilege, j.reduction):
                    return f"the privilege on %{i.store.id} in {where}"
        if (u.params, u.spelled) != (v.params, v.spelled):
            return f"the parameters of {where}: {dict(u.params)}, then {dict(v.params)}"
        if u != v:
            return where
    return ""


def _surroundings(p: Program, q: Program) -> str:
    if p.inputs != q.inputs:
        for (s, one), (t, other) in zip(p.inputs, q.inputs, strict=False):
            if s.id != t.id:
                break
            if one != other:
                return f"the partition of %{s.id}: {format_partition(one)}, then {format_partition(other)}"
        return "which arrays have data before"
    if p.live != q.live:
        return f"which arrays live on: {sorted(p.live)}, then {sorted(q.live)}"
    if p.operands != q.operands:
        return f"the dtypes of scalars: {[str(d) for d in p.operands]}, then {[str(d) for d in q.operands]}"
    return ""


def _rest(a: Origin, b: Origin) -> str:
    if a.margins != b.margins:
        return "the ghost margins of the inputs"
    if a.ranks != b.ranks:
        return f"the number of ranks: {a.ranks}, then {b.ranks}"
    return _settings(a.settings, b.settings) if a.settings != b.settings else "nothing"


def _settings(a: tuple[Hashable, ...], b: tuple[Hashable, ...]) -> str:
    names = [name for name, setting in config.SETTINGS.items() if setting.changes_code]  # as config.code_key() has them
    if not len(a) == len(b) == len(names):
        return "the settings"
    changed = [f"{name}: {one!r}, then {other!r}" for name, one, other in zip(names, a, b, strict=True) if one != other]
    return f"the setting{'s'[: len(changed) > 1]} {', '.join(changed)}"
