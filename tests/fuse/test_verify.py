"""Plans that are damaged are refused by the check that is there for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planning import planned

from diffuse_trace.errors import ProgramError
from diffuse_trace.fuse import Exchange, Group, Plan, Reduction
from diffuse_trace.fuse.communication import Local
from diffuse_trace.fuse.verify import CHECKS, verify_plan
from diffuse_trace.ir import REPLICATED, Partition, Split

TEXT = """\
store %0 float64[64] live input []
store %1 float64[64]
store %2 float64[64]
store %3 float64[]
store %4 float64[64] live
write %1 = exp[64](%0)  # a.py:1
write %2 = log[64](%1)  # a.py:2
reduce(sum) %3 = sum[64](%2)  # a.py:3
write %0[1:63] = add[62](%0[0:62], %2[2:64])  # a.py:4
write %4 = divide[64](%2, %0[::-1], %3[None])  # a.py:5
"""


LOOP = """\
store %0 float64[64] live input []
store %1 int64[] input []
store %2 bool[]
store %3 float64[64] live
store %4 float64[64]
write %2 = less[](%1, %1)
write %4 = add[64](%3, %3)  # a.py:2
loop [0, 1, 2] while %2 carries (%0 %3 %4)
"""
LAST = 4  # the version that a trip leaves


def steps(plan: Plan, **changed: Any) -> Plan:
    """The plan with one kind of step changed: a function of the step, or None to leave it out."""
    kinds = {"groups": Group, "exchanges": Exchange, "reductions": Reduction}
    result: list[Any] = []
    for step in plan.steps:
        for name, change in changed.items():
            if isinstance(step, kinds[name]):
                step = change(step)
        result += [] if step is None else [step]
    return replace(plan, steps=tuple(result))


def aligned(plan: Plan, id: int, partition: Partition) -> Plan:
    """The plan with a store that lies elsewhere."""
    return replace(plan, alignment=replace(plan.alignment, stores={**plan.alignment.stores, id: partition}))


def placed(plan: Plan, t: int, **changed: Any) -> Plan:
    """The plan with a task that is placed in another way."""
    return replace(plan, placed=tuple(replace(p, **changed) if n == t else p for n, p in enumerate(plan.placed)))


def apart(plan: Plan) -> Plan:
    """The plan of a loop whose result lies elsewhere, with tasks and reads that know it."""
    stores = {**plan.alignment.stores, 4: REPLICATED}
    moved = replace(plan, alignment=replace(plan.alignment, stores=stores))
    return replace(
        moved, placed=tuple(replace(t, partition=REPLICATED) if t.write == LAST else t for t in moved.placed)
    )


def _moves_out(exchange: Exchange) -> Exchange | None:
    kept = tuple(t for t in exchange.transfers if t.view is None)
    return replace(exchange, transfers=kept) if kept else None


def _shifts_out(exchange: Exchange) -> Exchange | None:
    kept = tuple(t for t in exchange.transfers if t.view is not None)
    return replace(exchange, transfers=kept) if kept else None


DAMAGE = {
    "every_task_once": [
        lambda p: steps(p, groups=lambda g: replace(g, tasks=g.tasks * 2)),
        lambda p: steps(p, groups=lambda g: None),
        lambda p: steps(p, groups=lambda g: replace(g, tasks=g.tasks[::-1])),
    ],
    "every_element_has_an_owner": [
        lambda p: aligned(p, 1, Partition((Split(0, 4, 62),))),
        lambda p: placed(p, 1, partition=Partition((Split(0, 4, 64, 1),))),
    ],
    "writes_stay_at_home": [
        lambda p: aligned(p, 1, Partition((Split(0, 4, 99),))),
    ],
    "versions_are_made_before_they_are_used": [
        lambda p: replace(p, steps=p.steps[::-1]),
        lambda p: steps(p, reductions=lambda r: None),
        lambda p: steps(p, reductions=lambda r: replace(r, items=r.items * 2)),
    ],
    "handed_versions_lie_alike": [
        lambda p: apart(planned(LOOP)),
    ],
    "needs_are_met": [
        lambda p: steps(p, exchanges=_moves_out),
        lambda p: steps(p, exchanges=_shifts_out),
        lambda p: steps(p, exchanges=lambda e: None),
        lambda p: placed(p, 3, needs=(Local(), Local())),
    ],
    "temporaries_stay_inside": [
        lambda p: steps(p, groups=lambda g: replace(g, temporaries=frozenset(p.placed[t].write for t in g.tasks))),
        lambda p: steps(p, groups=lambda g: replace(g, temporaries=frozenset({p.versions.entry[0]}))),
    ],
    "constraints_hold": [lambda p: replace(p, mode="0")],
}


def test_every_check_has_an_example() -> None:
    assert set(DAMAGE) == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize(("check", "number"), [(c, n) for c, all in DAMAGE.items() for n in range(len(all))])
def test_damaged_plans_are_refused(check: str, number: int) -> None:
    plan = planned(TEXT)
    with pytest.raises(ProgramError, match=check) as error:
        verify_plan(DAMAGE[check][number](plan))
    if check == "needs_are_met":
        assert "(a.py:" in str(error.value)


def test_the_paper_s_plans_obey_the_paper_s_constraints() -> None:
    text = """\
store %0 float64[64] live input []
store %1 float64[62]
write %1 = add[62](%0[0:62], %0[2:64])
write %0[1:63] = copy[62](%1)
"""
    verify_plan(planned(text))
    with pytest.raises(ProgramError, match="constraints_hold: anti_dependence: %0 is read by add across pieces"):
        verify_plan(replace(planned(text), mode="paper"))
