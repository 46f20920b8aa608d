"""Looking for the first task that makes a value that is not finite (``DIFFUSE_CHECK=finite``).

Every task is run by itself then, and what it has written is looked at before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import NotFiniteError
from ..ir import Loop, View
from ..lower.compute import Compute
from ..lower.executable import Executable
from ..lower.geometry import shape_of
from ..lower.regions import Iterate
from .ranks import world

#: Looks at what a segment (by number) has left in the slots.
Check = Callable[[int, Sequence[Any]], None]


def checker(executable: Executable) -> Check:
    """A check of the results of the segments of an executable.  It raises `NotFiniteError`."""
    plan, geometry = executable.plan, executable.geometry
    stores = {v.id: v.store for v in plan.versions.all}

    def look(array: Any, what: str, line: str, lows: Sequence[int]) -> None:
        bad = ~np.isfinite(np.asarray(array))
        if bad.any():
            first = tuple(int(i) + low for i, low in zip(np.argwhere(bad)[0], lows, strict=True))
            count = int(bad.sum())
            values = "a value that is" if count == 1 else f"{count} values that are"
            raise NotFiniteError(f"{line}: {what} made {values} not finite, on rank {world().rank} at index {first}")

    def check(number: int, values: Sequence[Any]) -> None:
        for step in executable.segments[number].steps:
            for key in step.makes:
                slot = executable.places.get(key)
                store = stores[key.version]
                if slot is None or values[slot] is None or store.dtype.kind not in "fc" or key.view is not None:
                    continue
                held = geometry.of(store)
                if isinstance(step, Compute):
                    task = plan.task(step.tasks[0])
                    if task.reduces:
                        continue  # complete only after the allreduce
                    partition = plan.placed[step.tasks[0]].partition
                    own = geometry.block(task, partition)
                    here = partition.holds(partition.coordinates(geometry.rank))
                    if not here or any(low >= high for low, high in own):
                        continue
                    axes = tuple(
                        type(a)(
                            a.source, a.offset + (0 if a.source is None else a.step * own[a.source][0]) - low, a.step
                        )
                        for a, (low, _) in zip(task.output.view.axes, held.buffer, strict=True)
                    )
                    written = View(shape_of(own), axes).of(np.asarray(values[slot]))
                    look(written, task.op, task.line, [low for low, _ in own])
                elif isinstance(step, Iterate):
                    assert isinstance(step.region, Loop)
                    block = np.asarray(values[slot])[held.own()]
                    look(block, "a task in this loop", step.region.line, [low for low, _ in held.block])

    return check
