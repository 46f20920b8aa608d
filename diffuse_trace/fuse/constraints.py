"""The paper's four constraints for two index tasks of one group (Yadav et al., ASPLOS 2025, section 4).

Fusing T1 and T2 (in program order) into one task is right when the point task T2[p] depends, of all the point tasks
of T1, at most on T1[p]: then nothing crosses pieces and no communication hides inside.  Each constraint is a pure
function of two placed tasks; it returns None when it holds, else the reason, as ``explain`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import IndexTask, Partition, Pinned, Split
from .communication import Halo, Halos, Local, Move, Need, crosses


@dataclass(frozen=True, slots=True)
class Placed:
    """A task with its partition, the versions it reads and writes and what each read needs.

    ``previous`` is the version whose elements remain where the task writes only a part of its store.
    """

    index: int
    task: IndexTask
    partition: Partition
    reads: tuple[int, ...]
    needs: tuple[Need, ...]
    write: int
    previous: int | None = None

    @property
    def launch(self) -> tuple[int, ...]:
        """The launch domain: coordinates along the grid dimensions that have more than one."""
        return tuple(n for n in self.partition.grid if n > 1)

    @property
    def scan(self) -> int | None:
        """The axis of a running sum or product; None for all other tasks."""
        axis = self.task.param("scan")
        return axis if isinstance(axis, int) else None

    @property
    def combined(self) -> tuple[int, ...]:
        """Grid dimensions over which the partial results of a reduction or a scan are combined."""
        dims = self.partition.dims
        if self.scan is not None:
            along = [isinstance(d, Split) and d.axis == self.scan for d in dims]
            return tuple(g for g, d in enumerate(dims) if d.parts > 1 and along[g])
        if not self.task.reduces:
            return ()
        kept = {a.source for a in self.task.output.view.axes}
        return tuple(
            g
            for g, d in enumerate(dims)
            if d.parts > 1 and (isinstance(d, Pinned) or (isinstance(d, Split) and d.axis not in kept))
        )


def launch_domain(first: Placed, second: Placed) -> str | None:
    """Both have the same launch domain; a replicated task runs at every point of any.

    >>> c = a + b        # a, b of shape (n, m) over a 2 x 2 grid
    >>> z = 2 * x        # x of shape (k,) over a grid of 4: another launch domain
    """
    if first.partition.replicated or second.partition.replicated or first.launch == second.launch:
        return None
    return f"launch domains differ: {first.partition.grid} and {second.partition.grid}"


def true_dependence(first: Placed, second: Placed) -> str | None:
    """What the first writes and the second reads lies, for each point, where that point wrote it.

    >>> b = 2 * a                 # piece p writes its block of b
    >>> c[1:] = b[:-1]            # piece p reads b one element to the left: of its neighbour too
    """
    for version, need in zip(second.reads, second.needs, strict=True):
        if version == first.write and crosses(need):
            what = _what(need)
            return f"%{first.task.output.store.id} is written by {first.task.op} and needed by {second.task.op}: {what}"
    return None


def _what(need: Need) -> str:
    match need:
        case Halo() | Halos():
            return f"{need.shifts} elements away"
        case Move():
            return need.reason
        case _:
            return "elements of other pieces that a sparse matrix names"


def anti_dependence(first: Placed, second: Placed) -> str | None:
    """What the first reads and the second writes is accessed through the same partition.

    Only under ``fuse=paper``: with versions the second writes a new value and the first keeps the old one.

    >>> t = u[:-2] + u[2:]        # piece p reads its neighbours' elements of u
    >>> u[1:-1] = t               # and they are overwritten
    """
    for access, need in zip(first.task.inputs, first.needs, strict=True):
        store = getattr(access, "store", None)
        if store is not None and store.id == second.task.output.store.id and not isinstance(need, Local):
            return f"%{store.id} is read by {first.task.op} across pieces and overwritten by {second.task.op}"
    return None


def reduction(first: Placed, second: Placed) -> str | None:
    """What the first reduces into is complete only after it, so the second may neither read nor update it.

    >>> s = a.sum()               # every piece contributes to s
    >>> b = a / s                 # and needs all contributions
    """
    if first.combined and first.write in (*second.reads, second.previous):
        return f"%{first.task.output.store.id} is reduced into by {first.task.op}: complete only after an allreduce"
    return None


PAPER = (launch_domain, true_dependence, anti_dependence, reduction)
RENAMED = (launch_domain, true_dependence, reduction)
