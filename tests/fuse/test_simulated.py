"""Plans of random programs, carried out on simulated ranks, give what the program gives without any plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import program_of
from simulation import GRIDS, check
from strategies import rich_programs


@settings(max_examples=250, deadline=None)
@given(st.data(), st.sampled_from(GRIDS), st.sampled_from(["1", "1", "paper", "0"]), st.sampled_from([0, 1, 16]))
def test_plans_give_what_their_programs_give(
    data: st.DataObject, where: tuple[int, tuple[int, ...]], mode: str, max_halo: int
) -> None:
    ranks, grid = where
    check(data.draw(rich_programs(ranks=ranks, grid=grid)), ranks, mode, grid, max_halo)


# Programs whose plans were wrong once.
LARGER = """\
operands float64
store %0 float64[4] live input []
store %1 float64[10] live
write %1 = fill[10]($0)
write %0 = add[4](%1[3:7])
"""
ALIGNED = """\
store %0 float64[8] live input []
store %1 float64[6, 8] input []
store %2 float64[8]
reduce(sum) %2[None, :] = add[6, 8](%1)
write %0 = add[8](%0, %2)
"""
UPDATED = """\
store %0 float64[2] input []
store %1 float64[2] live
write %1 = cumsum[2](%0[0], operator='sum', scan=0)
write %1[0] = fill[]()
"""
REDUCED = """\
store %0 float64[8, 2] input []
store %1 float64[2] live
reduce(sum) %1[None, :] = add[8, 2](%0)
write %1[0] = fill[]()
"""
#: %1 is computed beyond the own block.
BEYOND = """\
store %0 float64[3] input []
store %1 float64[2]
store %2 float64[1] live
write %0[0:1] = add[1](%0[0], %0[0])
write %1 = add[2](%0[1::-1], %0[1::-1])
write %2 = add[1](%0[0:1], %1[0:1])
"""


@pytest.mark.parametrize("mode", ["1", "paper", "0"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("text", [LARGER, ALIGNED, UPDATED, REDUCED, BEYOND])
def test_programs_that_were_wrong_once(text: str, ranks: int, mode: str) -> None:
    check(program_of(text, ranks), ranks, mode)
