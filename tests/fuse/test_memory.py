"""Bytes of plans, and plans in words."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from planning import planned
from strategies import placed_inputs, shapes

from diffuse_trace.fuse.explain import explain, size
from diffuse_trace.fuse.memory import exchange_bytes, largest_block, peak_bytes, temporary_bytes
from diffuse_trace.ir import canonical

MB = 1000 * 1000 * 8

UPDATE = """\
operands float64
store %0 float64[2000, 2000] live input []
store %1 float64[1998, 1998]
store %2 float64[1998, 1998]
store %3 float64[]
write %1 = add[1998, 1998](%0[0:1998, 1:1999], %0[2:2000, 1:1999])  # a.py:3
write %2 = multiply[1998, 1998](%1, $0)  # a.py:4
write %0[1:1999, 1:1999] = add[1998, 1998](%0[1:1999, 1:1999], %2)  # a.py:5
reduce(max) %3 = max[1998, 1998](%2)  # a.py:6
"""


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 3, 4, 6]))
def test_no_block_is_larger_than_the_largest(data: st.DataObject, ranks: int) -> None:
    shape = data.draw(shapes(most=9))
    partition = data.draw(placed_inputs(shape, ranks))
    blocks = [partition.block(shape, partition.coordinates(rank)) for rank in range(ranks)]
    for axis, most in enumerate(largest_block(shape, partition)):
        lengths = [block[axis][1] - block[axis][0] for block in blocks]
        assert max(lengths) <= most <= shape[axis]
        if partition == canonical(shape, ranks):
            assert max(lengths) == most


def test_a_temporary_is_saved_on_all_ranks() -> None:
    assert temporary_bytes(planned(UPDATE)) == 2 * 1998 * 1998 * 8
    assert temporary_bytes(planned(UPDATE, mode="0")) == 0


def test_a_halo_is_as_wide_as_its_shifts() -> None:
    # One row of 1000 elements above and one below, whatever the number of ranks.
    assert exchange_bytes(planned(UPDATE)) == [2 * 1000 * 8]
    line = """\
store %0 float64[65536] input []
store %1 float64[65534] live
write %1 = add[65534](%0[0:65534], %0[2:65536])
"""
    assert [exchange_bytes(planned(line, ranks)) for ranks in (2, 4, 4096)] == [[2 * 8]] * 3
    assert exchange_bytes(planned(UPDATE, ranks=1)) == []


def test_the_peak_holds_old_and_new() -> None:
    # %0 before and after; a quarter of each on a rank.
    assert abs(peak_bytes(planned(UPDATE)) - 2 * MB) < 100
    assert abs(peak_bytes(planned(UPDATE, ranks=1)) - 8 * MB) < 100
    # Without fusion both temporaries as well, and %1 is gone when %0 is written.
    assert abs(peak_bytes(planned(UPDATE, mode="0")) - 3 * MB) < 100_000


def test_the_peak_holds_moved_views_until_they_are_read() -> None:
    text = """\
store %0 float64[1000, 1000] live input []
store %1 float64[1000, 1000] live input []
write %0 = add[1000, 1000](%0, %1[1@:, 0@:])
"""
    # %0 twice, %1 and its transpose.
    assert peak_bytes(planned(text)) == 4 * MB / 4


def test_what_has_died_is_not_held() -> None:
    stores = "\n".join(f"store %{n} float64[1000, 1000]" for n in range(1, 9))
    tasks = "\n".join(f"write %{n} = exp[1000, 1000](%{n - 1})" for n in range(1, 9))
    text = f"store %0 float64[1000, 1000] input []\n{stores}\n{tasks}\n"
    assert peak_bytes(planned(text, ranks=1, mode="0")) < 2.1 * MB


def test_an_explanation_shows_all_there_is_to_know() -> None:
    text = explain(planned(UPDATE), 4)
    before, after = text.split("after fusion\n")
    assert "write %2 = multiply[1998, 1998](%1, $0)  # a.py:4" in before
    for line in (
        "exchange, 16 kB a rank, 64 kB together at most  # a.py:3",
        "halo of %0, shifts (-1, 0), (1, 0): 16 kB",
        "group 1, over [split(0, 2, 2000, 1, 1), split(1, 2, 2000, 1, 1)]",
        "write %2 = multiply[1998, 1998](%1, $0)  # a.py:4",
        "temporaries %1, %2: 16 MB saved on a rank",
        "allreduce  # a.py:6",
        "max of %3, 8 B",
        "tasks          4 in 1 group",
        "temporaries    2 never materialised, 64 MB on all ranks together",
        "exchanges      1, allreduces 1",
        "peak memory    16 MB on the rank with most",
    ):
        assert line in after, line
    assert "together" not in explain(planned(UPDATE)).split("temporaries    ")[0]


def test_an_explanation_says_why_groups_end() -> None:
    text = explain(planned(UPDATE, mode="paper"), 4)
    assert "ends here: %0 is read by add across pieces and overwritten by add" in text
    assert explain(planned(UPDATE, mode="0"), 4).count("ends here: fusion is off") == 4


def test_moves_and_scans_in_words() -> None:
    text = explain(
        planned(
            """\
store %0 float64[64, 64] live input []
store %1 float64[64, 64] input []
store %2 float64[64, 64]
write %2 = cumsum[64, 64](%1, operator='sum', scan=0)  # a.py:2
write %0 = add[64, 64](%0, %2[1@:, 0@:])  # a.py:3
"""
        )
    )
    assert "running sum along axis 0 of %2, 8 kB, over dimensions (1,) of the grid (2, 2)" in text
    # The running sum is computed where its transpose is added.
    assert "move all of %1 to [split(1, 2, 64), split(0, 2, 64)]: 8 kB" in text


@given(st.integers(0, 10**13))
def test_sizes_in_words(n: int) -> None:
    number, unit = size(n).split()
    assert math.isclose(float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit], n, rel_tol=0.5, abs_tol=0.5)
