"""Loops and branches in programs: their text, their nesting, their keys."""

from __future__ import annotations

import pytest

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir import Block, Loop, Pattern, Store
from diffuse_trace.ir.text import dumps, loads
from diffuse_trace.ir.verify import verify

NESTED = """\
operands int64
store %0 float64[9] live input []
store %1 int64[] input []
store %2 int64[]
store %3 int64[] live
store %4 bool[]
store %5 bool[]
store %6 float64[9]
store %7 float64[9]
store %8 float64[9]
store %9 int64[]
write %2 = fill[]($0)
write %4 = less[](%3, %2)
write %5 = less[](%3, %1)
write %6 = add[9](%0, %0)
write %7 = copy[9](%0)
write %0 = copy[9](%8)
write %9 = add[](%3, $0)
loop [1, 2, 7] while %4 carries (%0 %0 %0, %1 %3 %9) counts %3 < %2  # a.py:3
branch [3, 4, 5] on %5 leaves (%6 %7 %8) in 0:1  # a.py:4
"""


def test_a_program_with_regions_is_read_back_from_its_text() -> None:
    program = loads(NESTED)
    assert loads(dumps(program)) == program
    loop, branch = program.regions
    assert isinstance(loop, Loop) and loop.counter == Store(3, (), loop.counter.dtype) and loop.line == "a.py:3"
    assert (branch.parent, branch.arm) == (0, 1)
    verify(program)


def test_the_tree_of_regions() -> None:
    tree = loads(NESTED).block()
    assert tree.items[0] == 0
    number, condition, body = tree.items[1]  # type: ignore[misc]
    assert number == 0 and condition == Block((1,))
    assert body == Block((2, (1, Block((3,)), Block((4,))), 5, 6))


def test_canonical_forms_and_keys_see_regions() -> None:
    program = loads(NESTED)
    renamed = loads(NESTED.replace("%8", "%88").replace("%3", "%33"))
    assert program.canonical()[0] == renamed.canonical()[0]
    assert program.key()[0] == renamed.key()[0]
    for other in (
        NESTED.replace("branch [3, 4, 5]", "branch [3, 3, 5]"),
        NESTED.replace(" counts %3 < %2", ""),
        NESTED.replace("%1 %3 %9)", "%1 %3 %3)"),
        NESTED.replace("in 0:1", "in 0:0").replace("loop [1, 2, 7]", "loop [1, 5, 7]"),
    ):
        changed = loads(other)
        assert changed.key()[0] != program.key()[0]
        assert changed.canonical()[0] != program.canonical()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loop [2, 1, 3] while %0", "impossible region"),
        ("loop [0, 1] while %0", "three numbers"),
        ("loop [0, 0, 0] on %0", "expected 'while'"),
        ("branch [0, 0, 0] on %1", "predicate %1 is float64"),
        ("loop [0, 0, 0] while %0 carries (%1 %1 %2)", "stand for each other and differ"),
        ("branch [0, 0, 0] on %0 in 0", "expected ':'"),
    ],
)
def test_impossible_regions_are_refused_with_their_line(text: str, message: str) -> None:
    stores = "store %0 bool[] input []\nstore %1 float64[3] input []\nstore %2 float64[4] input []\n"
    with pytest.raises(ProgramError, match="line 4: ") as error:
        loads(stores + text)
    assert message in str(error.value)


def test_sparse_stores() -> None:
    text = """\
store %0 float64[6, 4] sparse(3) input [split(0, 2, 6)]
store %1 float64[4] input [split(0, 2, 4)]
store %2 float64[6] live
reduce(sum) %2[:, None] = sparse_product[6, 4](%0, %1[None, :])
"""
    program = loads(text)
    verify(program)
    assert loads(dumps(program)) == program
    assert program.inputs[0][0].pattern == Pattern(3)
    banded = loads(text.replace("sparse(3)", "sparse(3, 1, 2)"))
    assert banded.inputs[0][0].pattern == Pattern(3, (1, 2)) and banded.key()[0] != program.key()[0]
    with pytest.raises(ProgramError, match="line 1"):
        loads("store %0 float64[6] sparse(1)")
    with pytest.raises(ProgramError, match="two widths"):
        loads("store %0 float64[6, 6] sparse(1, 2)")
