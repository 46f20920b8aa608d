"""Temporaries that are computed beyond the own block instead of exchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planning import planned

from diffuse_trace.errors import ProgramError
from diffuse_trace.fuse.communication import Halo, Halos, Local, Overlap
from diffuse_trace.fuse.plan import Group
from diffuse_trace.fuse.verify import verify_plan

# A stencil of a stencil: %1 = %0[1:] + %0[:-1], %2 = %1[1:] - %1[:-1], and an update with it.
STENCILS = """\
store %0 float64[64] live input []
store %1 float64[63]
store %2 float64[62]
write %1 = add[63](%0[1:64], %0[0:63])  # a.py:1
write %2 = subtract[62](%1[1:63], %1[0:62])  # a.py:2
write %0[1:63] = add[62](%0[1:63], %2)  # a.py:3
"""


def test_a_stencil_of_a_stencil_is_one_group_and_one_exchange() -> None:
    plan = planned(STENCILS)
    assert (len(plan.groups()), len(plan.exchanges())) == (1, 1)
    assert {v.store.id for v in plan.temporaries()} == {1, 2}
    (transfer,) = plan.exchanges()[0].transfers
    assert set(transfer.shifts) == {(-1,), (1,)}
    # %2[i] lies where %0[i + 1] does: it needs %1[i] one element below, %1[i + 1] at home.
    assert any(isinstance(need, Overlap) for need in plan.placed[1].needs)
    assert isinstance(plan.placed[0].needs[0], Halo | Halos)


def test_without_fusion_and_under_the_paper_s_rules_it_is_exchanged() -> None:
    for mode in ("0", "paper"):
        plan = planned(STENCILS, mode=mode)
        assert len(plan.exchanges()) == 2
        assert not any(isinstance(need, Overlap) for placed in plan.placed for need in placed.needs)


def test_what_lives_on_is_exchanged() -> None:
    plan = planned(STENCILS.replace("store %1 float64[63]", "store %1 float64[63] live"))
    assert len(plan.exchanges()) == 2 and len(plan.groups()) == 2


def test_what_is_needed_on_both_sides_of_an_allreduce_is_exchanged() -> None:
    plan = planned(
        """\
store %0 float64[64] live input []
store %1 float64[63]
store %2 float64[62]
store %3 float64[]
store %4 float64[62] live
write %1 = add[63](%0[1:64], %0[0:63])
write %2 = subtract[62](%1[1:63], %1[0:62])
reduce(sum) %3 = sum[62](%2)
write %4 = multiply[62](%1[0:62], %3)
"""
    )
    assert 1 not in {v.store.id for v in plan.temporaries()}


def test_no_halo_grows_beyond_its_limit() -> None:
    tasks = "".join(
        f"write %{k} = add[{64 - k}](%{k - 1}[1:{65 - k}], %{k - 1}[0:{64 - k}])  # a.py:{k}\n" for k in range(1, 7)
    )
    stores = "".join(f"store %{k} float64[{64 - k}]{' live' * (k == 6)}\n" for k in range(1, 7))
    text = f"store %0 float64[64] live input []\n{stores}{tasks}"
    assert len(planned(text).exchanges()) == 1
    limited = planned(text, max_halo=2)
    assert len(limited.exchanges()) > 1
    for exchange in limited.exchanges():
        assert all(abs(s) <= 2 for t in exchange.transfers for shift in t.shifts for s in shift)


def test_corners_come_with_two_axes() -> None:
    plan = planned(
        """\
store %0 float64[8, 8] live input []
store %1 float64[8, 7]
store %2 float64[7, 7] live
write %1 = add[8, 7](%0[:, 1:8], %0[:, 0:7])
write %2 = add[7, 7](%1[1:8, :], %1[0:7, :])
"""
    )
    (exchange,) = plan.exchanges()
    shifts = {s for t in exchange.transfers for s in t.shifts}
    assert any(a and b for a, b in shifts), shifts


def test_notes_that_are_wrong_are_found() -> None:
    plan = planned(STENCILS)

    def with_needs(t, needs):
        return replace(plan, placed=tuple(replace(p, needs=needs) if n == t else p for n, p in enumerate(plan.placed)))

    for damaged in (
        with_needs(0, (Local(), Local())),  # the inputs of what is computed beyond its block
        with_needs(1, (Halo((1,)), Halo((-1,)))),  # no halo of a temporary is exchanged
        replace(
            plan, steps=tuple(replace(s, temporaries=frozenset()) if isinstance(s, Group) else s for s in plan.steps)
        ),
    ):
        with pytest.raises(ProgramError, match="needs_are_met"):
            verify_plan(damaged)
