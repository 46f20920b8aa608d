"""Programs as text and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import programs, rich_programs, shapes, views

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir import (
    Access,
    IndexTask,
    Operand,
    Partition,
    Pinned,
    Privilege,
    Program,
    Split,
    Spread,
    Store,
    View,
)
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

# Characters that mean something to the reader, or that end lines somewhere.
AWKWARD = st.text(st.sampled_from("ab'\"\\#%$=()[],:@ \n\r\t\x0b\x85\u2028é-0"), max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    AWKWARD,
)
PARAMETERS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
DTYPES = st.sampled_from(["float64", ">f4", "int8", "uint64", "bool", "complex64", "float16", "<U3", "M8[ns]"]).map(
    np.dtype
)


def rebuilt(program: Program) -> Program:
    """The program read from its text, user lines compared as well."""
    again = loads(dumps(program))
    assert again == program
    assert [t.line for t in again.tasks] == [t.line for t in program.tasks]
    assert [t.spelled for t in again.tasks] == [t.spelled for t in program.tasks]
    assert again.key() == program.key()
    return again


@settings(max_examples=100, deadline=None)
@given(st.one_of(programs(ranks=4), rich_programs(ranks=6)))
def test_a_program_is_rebuilt_from_its_text(program: Program) -> None:
    verify(program)
    rebuilt(program)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_view_is_rebuilt(data: st.DataObject) -> None:
    shape = data.draw(shapes(least=0, most=5))
    view = data.draw(views(shape)) if 0 not in shape else View.identity(shape)
    for axis in range(len(view.shape)):
        if data.draw(st.integers(0, 5)) == 0:
            view = view.sliced(
                axis, data.draw(st.integers(0, view.shape[axis])), data.draw(st.sampled_from([1, -2])), 0
            )
    source, made = Store(3, shape, np.dtype("f4")), Store(11, view.shape, np.dtype("f4"))
    task = IndexTask(
        "copy", view.shape, (Access(source, view),), Access(made, View.identity(view.shape), Privilege.WRITE)
    )
    rebuilt(Program((task,), ((source, Partition(())),), frozenset({11})))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(AWKWARD.filter(bool), PARAMETERS, max_size=3), AWKWARD, AWKWARD.filter(bool), DTYPES)
def test_any_parameter_line_and_name_is_rebuilt(params: dict[str, object], line: str, op: str, dtype: np.dtype) -> None:
    store = Store(0, (2,), dtype)
    whole = Access(store, View.identity((2,)), Privilege.WRITE)
    task = IndexTask(op, (2,), (Operand(0),), whole, tuple(sorted(params.items())), line)  # type: ignore[arg-type]
    rebuilt(Program((task,), (), frozenset(), (dtype,)))


@pytest.mark.parametrize(
    "dims",
    [
        (),
        (Split(1, 3, 10, -2, -3), Spread(2)),
        (Pinned(4, 9, 8), Split(0, 1, 5)),
        (Split(0, 2, 7, 6, -1), Pinned(1, 1, 0), Spread(1)),
    ],
)
def test_any_partition_is_rebuilt(dims: tuple[Split | Pinned | Spread, ...]) -> None:
    store = Store(5, (2, 3), np.dtype("i4"))
    rebuilt(Program((), ((store, Partition(dims)),), frozenset({5, 9})))


def test_a_privilege_and_its_operator_are_rebuilt() -> None:
    store, made = Store(0, (3, 4), np.dtype("f8")), Store(1, (4,), np.dtype("f8"))
    whole = View.identity((3, 4))
    update = IndexTask("choose", (3, 4), (Access(store, whole),), Access(store, whole, Privilege.READ_WRITE))
    fold = IndexTask(
        "max",
        (3, 4),
        (Access(store, whole),),
        Access(made, View((3, 4), (replace(whole.axes[1]),)), Privilege.REDUCE, "max"),
    )
    rebuilt(Program((update, fold), ((store, Partition(())),), frozenset({1})))


def test_the_text_is_what_the_documentation_shows() -> None:
    program = loads(HILLSLOPE)
    assert dumps(program) == HILLSLOPE
    assert str(program) == HILLSLOPE
    assert program.tasks[0].line == "model.py:12"


def test_views_may_be_written_as_in_numpy() -> None:
    text = "store %0 float64[5] input []\nstore %1 float64[{}]\nwrite %1 = copy[{}](%0[{}])"
    for key, written in {
        ":": ":",
        "::1": ":",
        "::-1": "4::-1",
        "::2": "0:5:2",
        "1:": "1:5",
        "3:0:-1": "3:0:-1",
    }.items():
        n = len(range(5)[slice(*(int(i) if i else None for i in key.split(":")))])
        (read,) = loads(text.format(n, n, key)).tasks[0].reads()
        assert read == next(loads(text.format(n, n, written)).tasks[0].reads())


def test_comments_and_empty_lines_are_passed_over() -> None:
    assert loads("\n# what follows is a program\n\n" + HILLSLOPE + "\n  # that was it\n") == loads(HILLSLOPE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("store %0 float99[3]", "line 1: there is no dtype 'float99'"),
        ("store %0 float64[3]\nstore %0 float64[3]", "line 2: store %0 is declared twice"),
        ("store %0 float64[3", "line 1: expected ']', found 'the end of the line'"),
        ("store 0 float64[3]", "line 1: expected '%', found '0'"),
        ("store %x float64[3]", "line 1: expected a whole number, found 'x'"),
        ("store %0 float64[-3]", "line 1: store %0 has a negative extent"),
        ("store %0 float64[3] lives", "line 1: unexpected 'lives'"),
        ("write %0 = fill[3]($0)", "line 1: store %0 is not declared"),
        ("store %0 float64[3]\nwrite %0[0:4] = fill[4]($0)", "line 2: view"),
        ("store %0 float64[3]\nwrite %0[0:2] = fill[3]($0)", "line 2: a slice of 2 elements"),
        ("store %0 float64[3]\nwrite %0[0:2, 1] = fill[2]($0)", "line 2: a store of 1 axes is indexed with 2"),
        ("store %0 float64[3]\nwrite %0 = fill[3($0)", "line 2: expected"),
        ("store %0 float64[3]\nwrite %0[::0] = fill[3]()", "line 2: expected a step other than 0"),
        ("store %0 float64[3]\nwrite %0 fill[3]($0)", "line 2: expected '=', found 'fill'"),
        ("store %0 float64[3]\nwrite %0 = fill[3]($0, k)", "line 2: expected '='"),
        ("store %0 float64[3]\nwrite %0 = fill[3](k=what)", "line 2: expected a value, found 'what'"),
        ("store %0 float64[3]\nwrite %0 = fill[3](", "line 2: expected"),
        ("store %0 float64[3]\nread %0 = fill[3]()", "line 2: fill has an output that it only reads"),
        ("store %0 float64[3]\nreduce %0 = sum[3]()", "line 2: expected '('"),
        ("store %0 float64[3] input [cut(0, 2, 3)]", "line 1: expected split, pinned or spread, found 'cut'"),
        ("store %0 float64[3] input [split(0, 2)]", "line 1:"),
        ("store %0 float64[3] input [split(0, 0, 3)]", "line 1: impossible"),
        ("store %0 float64[3] input [split(0, 2, 3), split(0, 2, 3)]", "line 1:"),
        ("compute %0", "line 1: expected a store, a task or operands, found 'compute'"),
        ("operands", "line 1: expected"),
        ("live 3", "line 1: expected '%', found '3'"),
        ("!", "line 1: expected"),
    ],
)
def test_errors_name_the_line(text: str, says: str) -> None:
    with pytest.raises(ProgramError) as error:
        loads(text)
    assert says in str(error.value)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_text_is_refused_with_its_line_or_read(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(HILLSLOPE) - 1))
    length = data.draw(st.integers(0, 6))
    text = HILLSLOPE[:at] + data.draw(AWKWARD) + HILLSLOPE[at + length :]
    try:
        loads(text)
    except ProgramError as error:
        assert str(error).startswith("line ")
