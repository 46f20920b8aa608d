"""Plans: of the right shape for known programs, and scale-free."""

from __future__ import annotations

import re
import subprocess
import sys
from unittest import mock

import pytest
from planning import planned, program_of, shape_of

from diffuse_trace.fuse import groups, plan
from diffuse_trace.fuse.constraints import launch_domain
from diffuse_trace.fuse.memory import exchange_bytes, temporary_bytes

HILLSLOPE = """\
operands float64
store %0 float64[100, 100] live input []
store %1 float64[98, 98]
store %2 float64[98, 98]
store %3 float64[98, 98]
store %4 float64[] live
write %1 = add[98, 98](%0[0:98, 1:99], %0[2:100, 1:99])
write %2 = add[98, 98](%1, %0[1:99, 0:98])
write %3 = multiply[98, 98](%2, $0)
write %0[1:99, 1:99] = add[98, 98](%0[1:99, 1:99], %3)
reduce(max) %4 = max[98, 98](%3)
"""


def test_hillslope_is_one_group_with_one_exchange() -> None:
    made = planned(HILLSLOPE)
    assert shape_of(made) == (1, 1, 1, 3)
    (exchange,) = made.exchanges()
    (transfer,) = exchange.transfers
    assert transfer.shifts == ((-1, 0), (0, -1), (1, 0))
    assert exchange_bytes(made) == [(2 * 50 + 50) * 8]
    assert temporary_bytes(made) == 3 * 98 * 98 * 8


def test_one_rank_needs_no_communication() -> None:
    assert shape_of(planned(HILLSLOPE, ranks=1)) == (1, 0, 0, 3)


def test_unfused_has_a_group_for_each_task() -> None:
    made = planned(HILLSLOPE, mode="0")
    assert len(made.groups()) == 5
    assert not made.temporaries()


def test_the_paper_s_rules_end_the_group_before_the_update() -> None:
    made = planned(HILLSLOPE, mode="paper")
    assert len(made.groups()) > 1
    assert "overwritten" in made.groups()[0].ended


def test_two_stencils_share_an_exchange() -> None:
    made = planned(
        """\
store %0 float64[64] input []
store %1 float64[64] input []
store %2 float64[62] live
store %3 float64[62] live
write %2 = add[62](%0[0:62], %0[2:64])
write %3 = add[62](%1[0:62], %1[2:64])
"""
    )
    assert shape_of(made) == (1, 1, 0, 0)
    assert len(made.exchanges()[0].transfers) == 2


def test_a_halo_is_sent_once_for_all_readers() -> None:
    made = planned(
        """\
store %0 float64[64] input []
store %1 float64[62] live
store %2 float64[62] live
write %1 = add[62](%0[0:62], %0[2:64])
write %2 = subtract[62](%0[0:62], %0[2:64])
"""
    )
    assert shape_of(made) == (1, 1, 0, 0)
    assert len(made.exchanges()[0].transfers) == 1


def test_conjugate_gradients_wait_for_each_product() -> None:
    made = planned(
        """\
store %0 float64[64] input []
store %1 float64[64] live input []
store %2 float64[64]
store %3 float64[] live
store %4 float64[64]
write %2 = multiply[64](%0, %1)
reduce(sum) %3 = sum[64](%2)
write %4 = multiply[64](%0, %3[None])
write %1 = add[64](%1, %4)
"""
    )
    assert shape_of(made) == (2, 0, 1, 2)
    assert "complete only after an allreduce" in made.groups()[0].ended


def test_a_chain_of_elementwise_tasks_is_one_group() -> None:
    rows = "\n".join(f"store %{n} float64[1000]" for n in range(1, 10))
    tasks = "\n".join(f"write %{n} = exp[1000](%{n - 1})" for n in range(1, 11))
    made = planned(f"store %0 float64[1000] input []\n{rows}\nstore %10 float64[1000] live\n{tasks}\n")
    assert shape_of(made) == (1, 0, 0, 9)


def test_black_and_scholes_is_one_group() -> None:
    made = planned(
        """\
operands float64, float64
store %0 float64[1000] input []
store %1 float64[1000] input []
store %2 float64[1000]
store %3 float64[1000]
store %4 float64[1000]
store %5 float64[1000]
store %6 float64[1000] live
store %7 float64[1000] live
write %2 = divide[1000](%0, %1)
write %3 = log[1000](%2)
write %4 = multiply[1000](%3, $0)
write %5 = erf[1000](%4)
write %6 = multiply[1000](%5, %0)
write %7 = subtract[1000](%6, $1)
"""
    )
    assert shape_of(made) == (1, 0, 0, 4)
    assert made.groups()[0].ended == ""


JACOBI = """\
store %0 float64[66, 66] live input []
store %1 float64[64, 64]
store %2 float64[64, 64]
store %3 float64[64, 64]
write %1 = add[64, 64](%0[0:64, 1:65], %0[2:66, 1:65])
write %2 = add[64, 64](%0[1:65, 0:64], %0[1:65, 2:66])
write %3 = add[64, 64](%1, %2)
write %0[1:65, 1:65] = multiply[64, 64](%3, %3)
"""


def test_jacobi_in_place_is_one_group() -> None:
    assert shape_of(planned(JACOBI)) == (1, 1, 0, 3)


def test_two_sweeps_are_a_group_and_an_exchange_each() -> None:
    text = JACOBI + "".join(line for line in JACOBI.splitlines(keepends=True) if line.startswith("write"))
    made = planned(text)
    assert shape_of(made) == (2, 2, 0, 6)
    assert [len(g.tasks) for g in made.groups()] == [4, 4]
    assert "%0 is written by multiply and needed by add" in made.groups()[0].ended


def test_reductions_that_are_ready_together_are_one_allreduce() -> None:
    made = planned(
        """\
store %0 float64[64] input []
store %1 float64[64] input []
store %2 float64[] live
store %3 float64[] live
reduce(sum) %2 = sum[64](%0)  # a.py:1
reduce(max) %3 = max[64](%1)  # a.py:2
"""
    )
    assert shape_of(made) == (1, 0, 1, 0)
    (allreduce,) = made.reductions()
    assert [(i.operator, i.dims) for i in allreduce.items] == [("sum", (0,)), ("max", (0,))]
    assert allreduce.line == "a.py:1"


def test_independent_tasks_move_so_that_an_allreduce_is_shared() -> None:
    text = """\
store %0 float64[64] input []
store %1 float64[64] input []
store %2 float64[]
store %3 float64[64] live
store %4 float64[]
store %5 float64[64] live
reduce(sum) %2 = sum[64](%0)
write %3 = divide[64](%0, %2[None])
reduce(sum) %4 = sum[64](%1)
write %5 = divide[64](%1, %4[None])
"""
    assert shape_of(planned(text)) == (2, 0, 1, 0)
    # In program order, as the paper has it, the second waits for the first.
    assert shape_of(planned(text, mode="paper")) == (3, 0, 2, 0)


def test_one_rank_has_no_reason_to_end_a_group_at_a_reduction() -> None:
    text = """\
store %0 float64[64] input []
store %1 float64[]
store %2 float64[64] live
reduce(sum) %1 = sum[64](%0)
write %2 = divide[64](%0, %1[None])
"""
    assert shape_of(planned(text)) == (2, 0, 1, 0)
    assert shape_of(planned(text, ranks=1)) == (1, 0, 0, 1)


def test_a_halo_that_later_groups_read_too_is_sent_once() -> None:
    made = planned(
        """\
store %0 float64[64] input []
store %1 float64[64]
store %2 float64[62] live
store %3 float64[64] live input []
write %1[1:63] = add[62](%0[0:62], %0[2:64])
write %2 = add[62](%1[1:63], %1[0:62], %0[2:64])
write %3[1:63] = add[62](%0[0:62], %0[2:64])
"""
    )
    sent = [t.version for e in made.exchanges() for t in e.transfers]
    assert len(sent) == len(set(sent)) == 2


def test_the_widest_halo_is_a_setting() -> None:
    text = """\
store %0 float64[64] live input []
store %1 float64[64] input []
write %0[0:60] = copy[60](%1[4:64])
"""
    assert planned(text).exchanges()[0].transfers[0].shifts == ((4,),)
    assert planned(text, max_halo=3).exchanges()[0].transfers[0].view is not None


def test_a_transposed_operand_is_laid_out_anew() -> None:
    made = planned(
        """\
store %0 float64[64, 64] live input []
store %1 float64[64, 64] input []
write %0 = add[64, 64](%0, %1[1@:, 0@:])  # a.py:3
"""
    )
    (exchange,) = made.exchanges()
    (transfer,) = exchange.transfers
    assert transfer.view is not None and exchange.line == "a.py:3"
    assert exchange_bytes(made) == [32 * 32 * 8]


@pytest.mark.parametrize("mode", ["1", "paper", "0"])
def test_plans_do_not_grow_with_the_ranks(mode: str) -> None:
    text = HILLSLOPE.replace("100", "65536").replace("98", "65534").replace("99", "65535")
    first, *others = (planned(text, ranks, mode=mode) for ranks in (4, 16, 256, 4096))
    for made in others:
        assert shape_of(made) == shape_of(first)
        # The same objects, of which only numbers differ.
        assert re.sub(r"\d+", "n", repr(made)) == re.sub(r"\d+", "n", repr(first))
    alone = planned(text, 1, mode=mode)
    assert len(alone.groups()) <= len(first.groups()) and not alone.exchanges() and not alone.reductions()


def chain(length: int) -> str:
    """A program of elementwise tasks that all fuse."""
    rows = "\n".join(f"store %{n} float64[1000]" for n in range(1, length + 1))
    tasks = "\n".join(f"write %{n} = exp[1000](%{n - 1})" for n in range(1, length + 1))
    return f"store %0 float64[1000] input []\n{rows}\n{tasks}\n"


@pytest.mark.parametrize("mode", ["1", "paper"])
def test_a_task_is_compared_with_few_tasks_of_its_group(mode: str) -> None:
    program = program_of(chain(100))
    counted = mock.Mock(side_effect=launch_domain)
    with mock.patch.multiple(groups, RENAMED=(counted,), PAPER=(counted,)):
        made = plan(program, 4, mode=mode)
    assert len(made.groups()) == 1
    assert counted.call_count <= 3 * 100


def test_planning_needs_neither_jax_nor_mpi() -> None:
    code = (
        "import sys\n"
        "for name in ('jax', 'jaxlib', 'mpi4py', 'numba'): sys.modules[name] = None\n"
        "import diffuse_trace.ir.text, diffuse_trace.ir.parse, diffuse_trace.ir.verify\n"
        "import diffuse_trace.fuse.explain, diffuse_trace.fuse.memo, diffuse_trace.fuse.verify\n"
        "from diffuse_trace.ir.text import loads\n"
        "program = loads('store %0 float64[4] input [split(0, 2, 4)]\\nwrite %0[1:4] = exp[3](%0[0:3])')\n"
        "made = diffuse_trace.fuse.plan(program, 2)\n"
        "diffuse_trace.fuse.verify.verify_plan(made)\n"
        "assert diffuse_trace.fuse.explain.explain(made)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
