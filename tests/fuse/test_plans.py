"""Plans: valid for random programs, of the right shape for known ones, and scale-free."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import programs

from diffuse_trace.fuse import Plan, plan
from diffuse_trace.fuse.explain import explain
from diffuse_trace.fuse.memory import exchange_bytes, peak_bytes, temporary_bytes
from diffuse_trace.fuse.verify import verify_plan
from diffuse_trace.ir import canonical
from diffuse_trace.ir.text import loads
from diffuse_trace.ir.verify import verify


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 3, 4, 7]), st.sampled_from(["1", "paper", "0"]))
def test_plans_of_random_programs_are_valid(data: st.DataObject, ranks: int, mode: str) -> None:
    program = data.draw(programs(ranks=ranks))
    verify(program)
    made = plan(program, ranks, mode=mode)
    verify_plan(made)
    assert peak_bytes(made) >= 0
    assert explain(made, ranks)


def planned(text: str, ranks: int = 4, **options: object) -> Plan:
    """The plan of a program whose inputs lie canonically on so many ranks."""
    program = loads(text.replace("input []", "input [split(0, 1, 1)]"))
    inputs = tuple((s, canonical(s.shape, ranks)) for s, _ in program.inputs)
    made = plan(replace(program, inputs=inputs), ranks, **options)  # type: ignore[arg-type]
    verify_plan(made)
    return made


def shape_of(made: Plan) -> tuple[int, int, int, int]:
    """Groups, exchanges, allreduces, temporaries."""
    return len(made.groups()), len(made.exchanges()), len(made.reductions()), len(made.temporaries())


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


@pytest.mark.parametrize("ranks", [16, 256, 4096])
def test_plans_do_not_grow_with_the_ranks(ranks: int) -> None:
    text = HILLSLOPE.replace("100", "65536").replace("98", "65534").replace("99", "65535")
    four, many = planned(text, 4), planned(text, ranks)
    assert shape_of(many) == shape_of(four)
    assert len(repr(many)) <= len(repr(four)) * 1.1


def test_planning_needs_neither_jax_nor_mpi() -> None:
    code = (
        "import sys\n"
        "for name in ('jax', 'jaxlib', 'mpi4py', 'numba'): sys.modules[name] = None\n"
        "import diffuse_trace, diffuse_trace.fuse.explain, diffuse_trace.fuse.verify, diffuse_trace.ir.verify\n"
        "from diffuse_trace.ir.text import loads\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
