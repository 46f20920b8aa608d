"""Programs as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from strategies import programs

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir.text import dumps, loads
from diffuse_trace.ir.verify import verify

HILLSLOPE = """\
operands float64
store %0 float64[100, 100] live input [split(0, 2, 100), split(1, 2, 100)]
store %1 float64[98, 98]
store %2 float64[]
write %1 = add[98, 98](%0[0:98, 1:99], $0)  # model.py:12
write %0[1:99, 1:99] = copy[98, 98](%1)
reduce(sum) %2 = sum[98, 98](%1, dtype='float64')
"""


@settings(max_examples=200, deadline=None)
@given(programs(ranks=4))
def test_a_program_is_rebuilt_from_its_text(program) -> None:
    verify(program)
    again = loads(dumps(program))
    assert again == program
    assert [t.line for t in again.tasks] == [t.line for t in program.tasks]


def test_the_text_is_what_the_documentation_shows() -> None:
    program = loads(HILLSLOPE)
    assert dumps(program) == HILLSLOPE
    assert str(program) == HILLSLOPE
    assert program.tasks[0].line == "model.py:12"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("store %0 float99[3]", "line 1: there is no dtype 'float99'"),
        ("store %0 float64[3]\nstore %0 float64[3]", "line 2: store %0 is declared twice"),
        ("write %0 = fill[3]($0)", "line 1: store %0 is not declared"),
        ("store %0 float64[3]\nwrite %0[0:4] = fill[4]($0)", "line 2: view"),
        ("store %0 float64[3]\nwrite %0 = fill[3($0)", "line 2: expected"),
        ("store %0 float64[3] input [cut(0, 2, 3)]", "line 1: expected split, pinned or spread, found 'cut'"),
        ("compute %0", "line 1: expected a store, a task or operands, found 'compute'"),
    ],
)
def test_errors_name_the_line(text: str, says: str) -> None:
    with pytest.raises(ProgramError) as error:
        loads(text)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("store %0 float64[3]\nstore %1 float64[3]\nwrite %1 = copy[3](%0)", "reads_have_data"),
        ("store %0 float64[3]\nwrite %0 = fill[3]($0)", "operands_exist"),
        ("operands float64\nstore %0 float64[3]\nlive %7\nwrite %0 = fill[3]($0)", "live_stores_exist"),
        (
            "store %0 float64[8] input [split(0, 2, 8)]\nstore %1 float64[8] input [split(0, 3, 8)]\n"
            "write %0 = copy[8](%1)",
            "partitions_fit",
        ),
        ("store %0 float64[8] input [split(1, 2, 8)]\nwrite %0 = copy[8](%0)", "partitions_fit"),
    ],
)
def test_the_verifier_names_its_check(text: str, check: str) -> None:
    with pytest.raises(ProgramError, match=check):
        verify(loads(text))
