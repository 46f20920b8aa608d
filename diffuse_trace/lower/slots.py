"""Buffer assignment: which result of a segment is built in which donated buffer.

A result in fresh pages costs many times the kernel that makes it.  So each large one is built in a slot: the buffer
of an input that dies in the segment, once that is over, or a spare that the runtime keeps.  An update that reads its
store only where it writes, or writes little of it, happens in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .communicate import Combine, Communicate
from .compute import Compute
from .regions import Iterate
from .state import Key, Step

if TYPE_CHECKING:
    from .executable import _Builder

#: Results of fewer bytes are not worth a donated buffer: the allocator keeps small pieces at hand.
SMALL = 32768

Aval = tuple[tuple[int, ...], np.dtype]


@dataclass(eq=False)
class Slot:
    """A donated buffer: what it holds ``first`` (None: a spare) and now."""

    aval: Aval
    first: Key | None
    key: Key | None
    changed: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return math.prod(self.aval[0]) * self.aval[1].itemsize


class Slots:
    """The slots of some steps, in which they are told to build their results.

    ``dying`` are inputs that may be used up (those which are ``wanted`` afterwards are not).  ``only`` are the results
    that are built in slots, if not all large ones are: within a loop others need none, since the memory that the
    executable has for itself serves all trips.
    """

    def __init__(
        self,
        builder: _Builder,
        steps: Sequence[Step],
        dying: Sequence[Key],
        wanted: set[Key],
        only: set[Key] | None = None,
    ) -> None:
        self.builder, self.only = builder, only
        self.all: list[Slot] = []
        self.last: dict[Key, float] = dict.fromkeys(wanted, math.inf)
        updated = {k for s in steps if isinstance(s, Communicate) for k in s.updates}
        for key in dying:
            # The ghosts of an input are filled in place, so it is a slot even if it lives on.
            if (key not in wanted and self._large(key)) or key in updated:
                self.all.append(Slot(builder.aval(key), key, key, key in updated))
        events = [(step, root) for step in steps for root in (step.roots if isinstance(step, Compute) else [None])]
        for n, (step, root) in enumerate(events):
            needed = step.reads(root) if isinstance(step, Compute) and root is not None else step.uses
            made = [Key(root)] if root is not None else step.makes
            for key in (*needed, *made):
                self.last[key] = max(self.last.get(key, -1), n)
        self.readers: dict[Key, list[tuple[Compute, int]]] = {}
        for n, (step, root) in enumerate(events):
            if isinstance(step, Compute) and root is not None:
                self._build(step, root, n)
                for key in step.reads(root):
                    self.readers.setdefault(key, []).append((step, root))
            elif isinstance(step, Communicate):
                step.slots = {s.key: k for k, s in enumerate(self.all) if s.key in step.updates}  # type: ignore[misc]
            elif isinstance(step, Iterate):
                self._carry(step, n)
            elif isinstance(step, Combine):
                for slot in self.all:
                    if slot.key in step.updates:
                        slot.key = None  # the whole result is another array
        self.kept = [s for s in self.all if s.changed]

    def number(self, slot: Slot) -> int:
        """The place of a slot in the traced function's list."""
        return self.all.index(slot)

    def _large(self, key: Key) -> bool:
        if self.builder.sparse(key):
            return False  # never written, and no array
        shape, dtype = self.builder.aval(key)
        # What a loop carries is updated in its place however small it is; single values are not.
        return math.prod(shape) * dtype.itemsize >= SMALL if self.only is None else math.prod(shape) > 1

    def _build(self, step: Compute, root: int, now: int) -> None:
        key = Key(root)
        placed = step.plan.placed[step.producer[root]]
        beyond = placed.index in step.beyond  # more than the buffers of its store hold
        if step.strip and root in step.stored:
            return  # a strip of it is all there ever is
        if placed.combined or beyond or not self._large(key) or (self.only is not None and key not in self.only):
            return
        previous = step.plan.versions.all[root].previous
        chosen, in_place = None, False
        if step.strip:
            now -= step.roots.index(root)  # strips of all roots are made in turn
        for slot in self.all:
            if slot.key is None or slot.aval != self.builder.aval(key) or self.last.get(slot.key, -1) > now:
                continue
            old = previous is not None and slot.key == Key(previous)
            over = self.last.get(slot.key, -1) < now
            if old and (step.slight(root) or step.pointwise(root, slot.key.version)):
                chosen, in_place = slot, True
                break
            if chosen is None and (over or (not step.strip and not old and step.pointwise(root, slot.key.version))):
                chosen = slot
        if chosen is None:
            chosen = next((s for s in self.all if s.key is None and s.aval == self.builder.aval(key)), None)
        if chosen is None:
            chosen = Slot(self.builder.aval(key), None, None)
            self.all.append(chosen)
        if chosen.key is not None:
            for reader, result in self.readers.get(chosen.key, ()):
                reader.before.add(result)
        chosen.key, chosen.changed = key, True
        step.slots[root] = (self.number(chosen), in_place)

    def _carry(self, step: Iterate, now: int) -> None:
        """Give a loop the slots of what dies as it begins: what it carries ends up there."""
        step.assign(self.builder)
        for first, made in zip(step.first, step.made, strict=True):
            for slot in self.all:
                if slot.key == first and self.last.get(first, -1) <= now and slot.aval == self.builder.aval(made):
                    slot.key, slot.changed = made, True
                    step.outer[made] = self.number(slot)
                    break
