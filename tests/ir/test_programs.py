"""Programs: their checks, their canonical form and their keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import programs, rich_programs

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir import (
    REPLICATED,
    Access,
    IndexTask,
    Operand,
    Partition,
    Pinned,
    Privilege,
    Program,
    Split,
    Store,
    View,
)
from diffuse_trace.ir.text import loads
from diffuse_trace.ir.verify import CHECKS, verify


def renamed(program: Program, ids: dict[int, int]) -> Program:
    """The program with other store ids."""

    def store(s: Store) -> Store:
        return replace(s, id=ids[s.id])

    def access(a: Any) -> Any:
        return replace(a, store=store(a.store)) if isinstance(a, Access) else a

    return replace(
        program,
        tasks=tuple(
            replace(t, inputs=tuple(map(access, t.inputs)), output=access(t.output), params=t.params)
            for t in program.tasks
        ),
        inputs=tuple((store(s), p) for s, p in program.inputs),
        live=frozenset(ids[i] for i in program.live),
    )


@settings(max_examples=80, deadline=None)
@given(st.data(), st.one_of(programs(ranks=3), rich_programs(ranks=3)))
def test_identities_are_not_in_the_key(data: st.DataObject, program: Program) -> None:
    ids = sorted({s.id for s, _ in program.inputs} | set(program.stores()) | program.live)
    other = renamed(program, dict(zip(ids, data.draw(st.permutations(range(100, 100 + len(ids)))), strict=True)))
    assert other.key()[0] == program.key()[0]
    assert hash(other.key()[0]) == hash(program.key()[0])
    one, numbers = program.canonical()
    assert other.canonical()[0] == one
    assert numbers == program.key()[1]
    assert one.canonical()[0] == one
    assert list(one.stores()) == list(range(len(one.stores())))


def _changed(data: st.DataObject, program: Program) -> Program:
    tasks = list(program.tasks)
    t = data.draw(st.integers(0, len(tasks) - 1))
    task = tasks[t]
    match data.draw(st.sampled_from(["live", "order", "drop", "operand", "input", "params", "privilege"])):
        case "live":
            return program.with_live(program.live ^ {data.draw(st.sampled_from(sorted(program.stores())))})
        case "order":
            return replace(program, tasks=tuple(data.draw(st.permutations(tasks))))
        case "drop":
            return replace(program, tasks=tuple(tasks[:t] + tasks[t + 1 :]))
        case "input":
            return replace(program, inputs=tuple((s, REPLICATED) for s, _ in program.inputs))
        case "operand":
            tasks[t] = replace(task, inputs=(*task.inputs, Operand(0)))
        case "params":
            value = data.draw(st.sampled_from([0, False, 0.0, -0.0]))
            tasks[t] = replace(task, params=(*task.params, ("z", value)))
        case "privilege" if task.output.privilege is Privilege.WRITE:
            tasks[t] = replace(task, output=replace(task.output, privilege=Privilege.READ_WRITE))
    return replace(program, tasks=tuple(tasks))


@settings(max_examples=120, deadline=None)
@given(st.data(), st.one_of(programs(ranks=2), rich_programs(ranks=2)))
def test_a_key_differs_where_the_canonical_form_does(data: st.DataObject, program: Program) -> None:
    one, other = _changed(data, program), _changed(data, program)
    assert (other.key()[0] == one.key()[0]) == (other.canonical()[0] == one.canonical()[0])


def filled(value: Any) -> IndexTask:
    """A task with a static parameter."""
    whole = Access(Store(0, (3,), np.dtype(float)), View.identity((3,)), Privilege.WRITE)
    return IndexTask("fill", (3,), (), whole, (("value", value),))


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ((1, 2), (1.0, 2))])
def test_equal_parameters_of_other_kinds_are_other_programs(one: Any, other: Any) -> None:
    a, b = (Program((filled(value),), (), frozenset()) for value in (one, other))
    assert a != b and a.key()[0] != b.key()[0]
    assert a == Program((filled(one),), (), frozenset())


def test_nan_is_the_same_parameter_every_time() -> None:
    assert filled(float("nan")) == filled(np.float64("nan")) == filled(float("inf") - float("inf"))
    assert hash(filled(float("nan"))) == hash(filled(float("nan")))
    assert filled((float("nan"), 1)) == filled((float("nan"), 1))
    assert type(filled(np.float32(2)).param("value")) is float


def test_a_line_is_no_part_of_a_program() -> None:
    one, other = (loads(f"store %0 float64[3]\nwrite %0 = fill[3]()  # {line}") for line in ("a.py:1", "b.py:2"))
    assert one == other and one.key() == other.key()


# --- the verifier --------------------------------------------------------------------------------

REFUSED = {
    "stores_are_declared_once": ["store %0 float64[3] input []\nwrite %0 = fill[3]()"],  # changed below
    "reads_have_data": [
        "store %0 float64[3]\nstore %1 float64[3]\nwrite %1 = copy[3](%0)  # a.py:7",
        "store %0 bool[]\nbranch [0, 0, 0] on %0  # b.py:7",
        "store %0 bool[]\nstore %1 float64[3]\nwrite %0 = f[]()\nloop [0, 1, 1] while %0 carries (%1 %1 %1)  # b.py:7",
        "store %0 bool[]\nstore %1 float64[3]\nstore %2 float64[3]\nwrite %0 = f[]()\nwrite %1 = f[3]()\n"
        "write %2 = copy[3](%1)  # a.py:7\nloop [0, 1, 2] while %0\n",
    ],
    "operands_exist": ["store %0 float64[3]\nwrite %0 = fill[3]($0)  # a.py:7"],
    "inputs_only_read": ["store %0 float64[3] input []\nwrite %0 = copy[3](read_write %0)  # a.py:7"],
    "updates_read_what_they_keep": [
        "store %0 float64[3] input []\nread_write %0 = copy[3]()  # a.py:7",
        "store %0 float64[3] input []\nread_write %0[0:2] = copy[2](%0[1:3])  # a.py:7",
    ],
    "live_stores_exist": ["store %0 float64[3]\nlive %7\nwrite %0 = fill[3]()"],
    "partitions_fit": [
        "store %0 float64[8] input [split(0, 2, 8)]\nstore %1 float64[8] input [split(0, 3, 8)]\nwrite %0 = f[8](%1)",
        "store %0 float64[8] input [split(1, 2, 8)]\nwrite %0 = copy[8](%0)",
        "store %0 float64[8] input [pinned(2, 8, 8)]\nwrite %0 = copy[8](%0)",
        "store %0 float64[8] input [split(0, 2, 6)]\nwrite %0 = copy[8](%0)",
        "store %0 float64[8] input [split(0, 2, 8, 1, 1)]\nwrite %0 = copy[8](%0)",
    ],
    "reductions_are_whole": [
        "store %0 float64[3]\nreduce(sum) %0[0:2] = sum[2]()  # a.py:7",
        "store %0 float64[3]\nreduce(most) %0 = sum[3]()  # a.py:7",
    ],
    "regions_nest": [
        "store %0 bool[] input []\nwrite %0 = fill[]()\nloop [0, 1, 3] while %0",
        "store %0 bool[] input []\nwrite %0 = f[]()\nwrite %0 = f[]()\n"
        "loop [0, 1, 2] while %0\nloop [1, 2, 2] while %0",
        "store %0 bool[] input []\nwrite %0 = f[]()\nloop [0, 0, 1] while %0 in 0:1",
    ],
    "loops_carry_what_they_change": [
        "store %0 bool[] input []\nstore %1 float64[3] input []\nwrite %0 = f[]()\nwrite %1 = f[3]()\n"
        "loop [0, 1, 2] while %0 carries (%0 %0 %0)",
        "store %0 bool[] input []\nstore %1 float64[3] input []\nwrite %1 = f[3]()\nbranch [0, 1, 1] on %0",
    ],
    "reductions_make_their_stores": [
        "store %0 float64[] input []\nreduce(sum) %0[None] = sum[2]()  # a.py:7",
        "store %0 float64[]\nwrite %0 = fill[]()\nreduce(sum) %0[None] = sum[2]()  # a.py:7",
    ],
}


def test_every_check_has_an_example() -> None:
    assert set(REFUSED) == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize(("check", "text"), [(c, t) for c, texts in REFUSED.items() for t in texts])
def test_the_verifier_names_its_check_the_task_and_the_line(check: str, text: str) -> None:
    program = loads(text)
    if check == "stores_are_declared_once":
        program = replace(program, inputs=((Store(0, (4,), np.dtype(float)), REPLICATED),))
    with pytest.raises(ProgramError, match=check) as error:
        verify(program)
    if "# a.py:7" in text:
        assert program.tasks[-1].op in str(error.value) and "(a.py:7)" in str(error.value)


def test_an_input_is_named_once() -> None:
    program = loads("store %0 float64[3] input []\nwrite %0 = copy[3](%0)")
    with pytest.raises(ProgramError, match="stores_are_declared_once"):
        verify(replace(program, inputs=program.inputs * 2))


def test_a_partial_write_is_data() -> None:
    verify(loads("store %0 float64[3]\nstore %1 float64[3]\nwrite %0[0:1] = fill[1]()\nwrite %1 = copy[3](%0)"))


def test_partitions_of_other_kinds_are_accepted() -> None:
    store = Store(0, (4,), np.dtype(float))
    for dims in ((), (Pinned(3, 9, 8),), (Split(0, 3, 9, 1, 2),)):
        verify(Program((), ((store, Partition(dims)),), frozenset({0})))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda s, v: Access(s, View.identity((4, 1))), "does not fit store"),
        (lambda s, v: Access(s, v, Privilege.REDUCE), "a reduction operator goes with REDUCE"),
        (lambda s, v: Access(s, v, Privilege.READ, "sum"), "a reduction operator goes with REDUCE"),
        (lambda s, v: IndexTask("f", (4,), (), Access(s, v)), "an output that it only reads"),
        (lambda s, v: IndexTask("f", (5,), (), Access(s, v, Privilege.WRITE)), "accesses %0 over"),
        (
            lambda s, v: IndexTask("f", (2, 4), (), Access(s, v.broadcast((2, 4)), Privilege.WRITE)),
            "writes one element from many points",
        ),
    ],
)
def test_accesses_and_tasks_check_themselves(make: Callable[[Store, View], Any], says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        make(Store(0, (4,), np.dtype(float)), View.identity((4,)))
