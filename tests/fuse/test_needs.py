"""What reads need from other ranks, and the constraints that follow, against single elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import planned
from simulation import slices
from strategies import fitting_views, placed_inputs, shapes

from diffuse_trace.fuse.communication import Halo, Local, Move, need
from diffuse_trace.fuse.constraints import (
    PAPER,
    RENAMED,
    Placed,
    anti_dependence,
    launch_domain,
    reduction,
    true_dependence,
)
from diffuse_trace.ir import REPLICATED, Access, Partition, Pinned, Split, Spread, Store, View, canonical


def held(partition: Partition, shape: tuple[int, ...], rank: int, shift: tuple[int, ...]) -> np.ndarray:
    """Which elements a rank has when its block is shifted by so many anchor indices."""
    result = np.zeros(shape, bool)
    coordinates = partition.coordinates(rank)
    if partition.holds(coordinates):
        region = [slice(0, n) for n in shape]
        for d, c, s in zip(partition.dims, coordinates, shift, strict=True):
            if isinstance(d, Split):
                low, high = d.preimage(d.bound(c) + s, d.bound(c + 1) + s)
                region[d.axis] = slice(max(low, 0), max(min(high, shape[d.axis]), 0))
        result[tuple(region)] = True
    return result


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from([2, 3, 4, 6]), st.sampled_from([0, 1, 3, 99]))
def test_needs_are_what_single_elements_need(data: st.DataObject, ranks: int, max_halo: int) -> None:
    stored = data.draw(shapes(most=7))
    shape = data.draw(shapes(most=4)) if data.draw(st.booleans()) else stored
    view = data.draw(fitting_views(stored, shape))
    assert view is not None
    store = data.draw(placed_inputs(stored, ranks))
    task = store.pull(view) if data.draw(st.integers(0, 3)) == 0 else data.draw(placed_inputs(shape, ranks))
    if data.draw(st.booleans()) and not store.replicated:
        # As the planner meets it: the same view one or two elements beside.
        cut = View.identity(stored)
        for axis, (n, m) in enumerate(zip(stored, shape, strict=False)):
            cut = cut.sliced(axis, data.draw(st.integers(0, max(0, n - m))), 1, min(n, m))
        task = store.pull(cut) if len(stored) == len(shape) and cut.shape == shape else task
    access = Access(Store(0, stored, np.dtype(float)), view)
    what = need(access, store, task, max_halo)
    if isinstance(what, Move):
        assert what.reason
        return
    shift = what.shifts if isinstance(what, Halo) else (0,) * len(store.dims)
    assert max(map(abs, shift), default=0) <= max_halo
    for rank in range(ranks):
        own = slices(task, shape, rank)
        if own is not None:
            here = held(store, stored, rank, shift)
            assert view.of(here)[own].all()


CASES = [
    (Local, (), (), ()),
    (Local, (Split(0, 4, 64),), (Split(0, 4, 64),), (0,)),
    (Halo, (Split(0, 4, 64),), (Split(0, 4, 64, 1),), (0,)),
    (Move, (Split(0, 4, 64),), (Split(0, 4, 64, 40),), (0,)),  # further than the widest halo
    (Move, (Split(0, 4, 64),), (Split(0, 4, 62),), (0,)),  # other blocks
    (Move, (Split(0, 4, 64),), (Spread(4),), (0,)),
    (Move, (Split(0, 4, 64),), (), (0,)),
    (Local, (Spread(4),), (Split(0, 4, 64),), (0,)),
    (Move, (Pinned(4, 64, 9),), (Pinned(4, 64, 10),), (0,)),
    (Local, (Pinned(4, 64, 9),), (Pinned(4, 64, 9),), (0,)),
]


@pytest.mark.parametrize(("kind", "store", "task", "_"), CASES)
def test_the_kinds_of_needs(kind: type, store: tuple, task: tuple, _: object) -> None:
    access = Access(Store(0, (24,), np.dtype(float)), View.identity((24,)))
    assert isinstance(need(access, Partition(store), Partition(task), 16), kind)


# --- constraints ---------------------------------------------------------------------------------


def pair(text: str, ranks: int = 4, **options: object) -> tuple[Placed, Placed]:
    """The two tasks of a program."""
    first, second = planned(text, ranks, **options).placed
    return first, second


FUSIBLE = """\
store %0 float64[64] input []
store %1 float64[64]
store %2 float64[64] live
write %1 = exp[64](%0)
write %2 = log[64](%1)
"""
DOMAINS = """\
store %0 float64[64, 64] input []
store %1 float64[64] input []
store %2 float64[64, 64] live
store %3 float64[64] live
write %2 = exp[64, 64](%0)
write %3 = exp[64](%1)
"""
TRUE = """\
store %0 float64[64] input []
store %1 float64[64] live
store %2 float64[64] live
write %1 = exp[64](%0)
write %2[1:64] = log[63](%1[0:63])
"""
ANTI = """\
store %0 float64[64] live input []
store %1 float64[62] live
write %1 = add[62](%0[0:62], %0[2:64])
write %0[1:63] = copy[62](%1)
"""
REDUCTION = """\
store %0 float64[64] input []
store %1 float64[]
store %2 float64[64] live
reduce(sum) %1 = sum[64](%0)
write %2 = divide[64](%0, %1[None])
"""
UPDATED = """\
store %0 float64[64, 2] input []
store %1 float64[2] live
reduce(sum) %1[None, :] = sum[64, 2](%0)
write %1[0] = fill[]()
"""


@pytest.mark.parametrize(
    ("text", "constraint", "says"),
    [
        (DOMAINS, launch_domain, "launch domains differ: (2, 2) and (4,)"),
        (TRUE, true_dependence, "%1 is written by exp and needed by log: (-1,) elements away"),
        (ANTI, anti_dependence, "%0 is read by add across pieces and overwritten by copy"),
        (REDUCTION, reduction, "%1 is reduced into by sum: complete only after an allreduce"),
        (UPDATED, reduction, "%1 is reduced into by sum: complete only after an allreduce"),
    ],
)
def test_each_constraint_refuses_its_example(text: str, constraint: object, says: str) -> None:
    first, second = pair(text)
    refused = {c: c(first, second) for c in PAPER}
    assert refused.pop(constraint) == says  # type: ignore[call-overload]
    assert not any(refused.values())
    # On one rank nothing is on another.
    alone = [c(*pair(text, 1)) for c in RENAMED]
    assert constraint is launch_domain or not any(alone)


def test_tasks_on_the_same_points_may_be_fused() -> None:
    assert not any(c(*pair(FUSIBLE)) for c in PAPER)


def test_a_replicated_task_runs_at_every_point() -> None:
    first, second = pair(FUSIBLE)
    both = Placed(0, first.task, REPLICATED, first.reads, first.needs, first.write)
    assert launch_domain(both, second) is launch_domain(second, both) is None


def test_scans_are_combined_along_their_axis_only() -> None:
    text = """\
store %0 float64[64, 64] input []
store %1 float64[64, 64] live
write %1 = cumsum[64, 64](%0, operator='sum', scan={})
"""
    (down,) = planned(text.format(0)).placed
    (across,) = planned(text.format(1)).placed
    assert down.partition == canonical((64, 64), 4)
    assert (down.combined, across.combined) == ((0,), (1,))
    assert planned(text.format(0), 1).placed[0].combined == ()


def test_any_reader_of_a_group_may_refuse_the_update() -> None:
    text = """\
store %0 float64[64] live input []
store %1 float64[64] live input []
store %2 float64[62]
write %1 = exp[64](%1)
write %2 = add[62](%0[0:62], %0[2:64])
write %0 = copy[64](%1)
"""
    made = planned(text, mode="paper")
    assert [len(g.tasks) for g in made.groups()] == [2, 1]
    assert made.groups()[0].ended == "%0 is read by add across pieces and overwritten by copy"


def test_a_reduction_of_one_rank_s_points_is_for_all() -> None:
    first, _ = pair(REDUCTION)
    pinned = Placed(0, first.task, Partition((Pinned(4, 64, 9),)), first.reads, first.needs, first.write)
    assert pinned.combined == (0,)
