"""Trips of loops in undecorated code.

    for k in range(1000):
        u[1:-1] += 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])

A window runs each trip when the next one is over.  Once trips have taken as long as it takes to compile a loop, further
ones are kept, and run as one loop of the program (`ir/rolling.py`) when a value is needed or there are enough.  What
decides is the same on every rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from . import config
from .ir import Store
from .ir.rolling import FEWEST_TASKS, FEWEST_TRIPS, Rolled
from .runtime import execute
from .runtime.ranks import world

#: What is assumed of all machines, since a measurement would differ between ranks: bytes a second, seconds a call, and
#: seconds to compile a loop.
_BANDWIDTH, _CALL, COMPILE = 5e9, 3e-5, 0.5
#: What is put off takes about so many seconds, so that Ctrl-C is heeded.
SPAN = 0.5
#: Tasks of all trips that are kept.
_MOST_TASKS = 2048


def seconds(stores: Iterable[Store]) -> float:
    """An estimate of the time of a program that reads or writes these stores."""
    total = sum(s.pattern.nbytes if s.pattern else math.prod(s.shape) * s.dtype.itemsize for s in stores)
    return total / world().size / _BANDWIDTH + _CALL


def patience(each: float) -> float:
    """How often what takes so many seconds is run before a loop is compiled for it."""
    return min(max(COMPILE / each, 16), 5000)


@dataclass
class Loop:
    """A loop that comes round at a place: how often it has, after how often its trips are kept, and how many at once.

    They are few at first, and more as they prove to be a loop: those that do not are run one by one.
    """

    rounds: int
    patience: float
    now: int
    most: int

    @staticmethod
    def of(stores: Iterable[Store], tasks: int) -> Loop:
        """A loop whose trips have so many tasks, and read or write these stores."""
        each = seconds(stores)
        first = max(8, 2 * FEWEST_TASKS // tasks)
        return Loop(0, patience(each), first, max(first, int(SPAN / each)))

    def keeps(self, trips: int, tasks: int) -> bool:
        """Whether one more trip is kept, where there are some with so many tasks already; called each time round."""
        self.rounds += 1
        if self.rounds <= self.patience or execute.watchers or config.get("check"):
            return False
        return trips < min(self.now, config.get("batch")) and tasks < _MOST_TASKS

    def ran(self, trips: int, before: int, rolled: Rolled | None) -> bool:
        """Whether kept trips, of so many tasks before they were rolled, are run as a loop."""
        if rolled is not None and 2 * len(rolled.program.tasks) < before:
            self.now = min(2 * self.now, self.most)
            return True
        if trips > FEWEST_TRIPS and before >= 2 * FEWEST_TASKS:
            self.patience = 4 * self.rounds  # wait longer before the next try
        return False
