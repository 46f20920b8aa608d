"""Plans of loops and branches: their shape, and what they give on simulated ranks."""

from __future__ import annotations

import pytest
from planning import planned, program_of, shape_of
from simulation import GRIDS, check

from diffuse_trace.fuse import Exchange, Group
from diffuse_trace.fuse.explain import explain
from diffuse_trace.fuse.plan import Repeat

#: for k in range(3): u[1:-1] = u[:-2] + 2 u[2:] + c[2:], with k in %2 and 3 in %4
STENCIL = """\
operands float64
store %0 float64[12] live input []
store %1 float64[12] input []
store %2 float64[]
store %3 float64[] live
store %4 float64[]
store %5 bool[]
store %6 float64[10]
store %7 float64[]
write %2 = fill[]()
write %4 = copy[]($0)
write %5 = less[](%3, %4)
write %6 = add[10](%0[0:10], %0[2:12], %1[2:12])
write %0[1:11] = copy[10](%6)
write %7 = add[](%3, $0)
loop [2, 3, 6] while %5 carries (%0 %0 %0, %2 %3 %7)  # a.py:4
"""

#: A reduction decides, a branch updates, and another array takes its place from trip to trip.
BRANCH = """\
operands float64
store %0 float64[12] live input []
store %1 float64[12] live input []
store %2 float64[]
store %3 float64[] live
store %4 bool[]
store %5 float64[]
store %6 bool[]
store %7 float64[12]
store %8 float64[12]
store %9 float64[12] live
store %10 float64[12] live
store %11 float64[]
store %12 float64[12] live
write %2 = fill[]()
write %4 = less[](%3, $0)
reduce(max) %5[None] = max[12](%9)
write %6 = less[](%5, $0)
write %7 = copy[12](%9[::-1])
write %0[1:12] = copy[11](%9[0:11])
write %8 = add[12](%9, %0)
write %12 = add[12](%10, %9)
write %11 = add[](%3, $0)
loop [1, 2, 9] while %4 carries (%1 %9 %10, %2 %3 %11, %0 %0 %0)  # a.py:4
branch [4, 5, 7] on %6 leaves (%7 %8 %10, %0 %0 %0) in 0:1  # a.py:5
"""


def test_a_loop_exchanges_what_it_changes_in_each_trip_and_the_rest_once_before() -> None:
    plan = planned(STENCIL)
    kinds = [type(step) for step in plan.steps]
    assert kinds == [Exchange, Group, Repeat] or kinds == [Exchange, Group, Group, Repeat]
    before = plan.steps[0]
    assert isinstance(before, Exchange)
    assert [plan.versions.all[t.version].store.id for t in before.transfers] == [1]
    loop = plan.steps[-1]
    assert isinstance(loop, Repeat)
    (inside,) = [step for step in loop.body if isinstance(step, Exchange)]
    assert [(plan.versions.all[t.version].store.id, t.shifts) for t in inside.transfers] == [(0, ((-1,), (1,)))]
    groups = [step for step in loop.body if isinstance(step, Group)]
    assert len(groups) == 1 and len(groups[0].temporaries) == 1
    assert shape_of(plan)[1:3] == (2, 0)
    text = explain(plan)
    assert "loop, carrying" in text and "while %5" in text and "# a.py:4" in text


def test_what_one_rank_needs_is_nothing() -> None:
    plan = planned(STENCIL, 1)
    assert not plan.exchanges()


@pytest.mark.parametrize("text", [STENCIL, BRANCH])
@pytest.mark.parametrize("mode", ["1", "paper", "0"])
def test_regions_give_what_they_mean_on_simulated_ranks(text: str, mode: str) -> None:
    for ranks, grid in GRIDS:
        if not grid:
            check(program_of(text, ranks), ranks, mode)
            check(program_of(text, ranks), ranks, mode, max_halo=0)


def test_one_iteration_of_conjugate_gradients_exchanges_once_and_reduces_twice() -> None:
    plan = planned(
        """\
store %0 float64[64, 64] sparse(1, 8, 8) input [split(0, 4, 64)]
store %1 float64[64] live input []
store %2 float64[64] live input []
store %3 float64[64] live input []
store %4 float64[] input []
store %5 float64[64]
store %6 float64[]
store %7 float64[]
store %8 float64[64]
store %9 float64[64]
store %10 float64[]
store %11 float64[64]
reduce(sum) %5[:, None] = sparse_product[64, 64](%0, %3[None, :])
reduce(sum) %6[None] = contract[64](%3, %5)
write %7 = divide[](%4, %6)
write %8 = multiply[64](%7[None], %3)
write %1 = add[64](%1, %8)
write %9 = multiply[64](%7[None], %5)
write %2 = subtract[64](%2, %9)
reduce(sum) %10[None] = contract[64](%2, %2)
write %11 = multiply[64](%10[None], %3)
write %3 = add[64](%2, %11)
"""
    )
    assert shape_of(plan) == (3, 1, 2, 4)
    (exchange,) = plan.exchanges()
    assert exchange.transfers[0].shifts == ((-8,), (8,))
