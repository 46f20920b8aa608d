"""What a program computes twice is computed once."""

from __future__ import annotations

from planning import planned, program_of

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace.fuse.values import without_repeats
from diffuse_trace.ir.text import dumps

HEAD = """\
store %0 float64[8] live input []
store %1 float64[8]
store %2 float64[8]
store %3 float64[8]
store %4 float64[8] live
"""


def left_out(tasks: str, head: str = HEAD) -> int:
    """How many tasks of a program are repeats; the plan without them is verified."""
    text = head + "".join(f"{line}\n" for line in tasks.splitlines())
    assert planned(text).repeated == without_repeats(program_of(text))[1]
    assert planned(text, mode="0").repeated == planned(text, mode="paper").repeated == 0
    return planned(text).repeated


def test_the_same_operation_on_the_same_values() -> None:
    text = HEAD + (
        "write %1 = exp[8](%0)  # a.py:1\n"
        "write %2 = exp[8](%0)  # a.py:2\n"
        "write %3 = add[8](%2, %2)\n"
        "write %4 = add[8](%1, %3)\n"
    )
    program, left = without_repeats(program_of(text))
    assert left == 1
    assert [t.op for t in program.tasks] == ["exp", "add", "add"]
    assert "add[8](%1, %1)" in dumps(program) and "%2" not in dumps(program)


def test_chains_are_followed() -> None:
    head = HEAD + "store %5 float64[8]\n"
    tasks = """write %1 = exp[8](%0)
write %2 = sqrt[8](%1)
write %3 = exp[8](%0)
write %5 = sqrt[8](%3)
write %4 = add[8](%2, %5)"""
    assert left_out(tasks, head) == 2


def test_a_store_that_is_written_twice_stays() -> None:
    tasks = """write %1 = exp[8](%0)
write %2 = exp[8](%0)
write %2[0:4] = sqrt[4](%0[0:4])
write %4 = add[8](%1, %2)"""
    assert left_out(tasks) == 0


def test_what_has_changed_in_between_is_another_value() -> None:
    tasks = """write %1 = exp[8](%0)
write %0[0:4] = add[4](%0[0:4], %0[4:8])
write %2 = exp[8](%0)
write %4 = add[8](%1, %2)"""
    assert left_out(tasks) == 0


def test_other_views_parameters_and_scalars_are_other_values() -> None:
    head = HEAD.replace("store %1 float64[8]", "store %1 float64[4]").replace("%2 float64[8]", "%2 float64[4]")
    head = head.replace("%4 float64[8]", "%4 float64[4]")
    assert left_out("write %1 = exp[4](%0[0:4])\nwrite %2 = exp[4](%0[4:8])\nwrite %4 = add[4](%1, %2)", head) == 0
    assert left_out("write %1 = exp[4](%0[0:4])\nwrite %2 = exp[4](%0[0:4])\nwrite %4 = add[4](%1, %2)", head) == 1
    head = "operands float64, float64\n" + HEAD
    for one, other, count in (
        ("exp[8](%0)", "exp2[8](%0)", 0),
        ("add[8](%0, $0)", "add[8](%0, $1)", 0),
        ("add[8](%0, $0)", "add[8](%0, $0)", 1),
        ("clip[8](%0, $0, low=0)", "clip[8](%0, $0, low=0.0)", 0),
    ):
        assert left_out(f"write %1 = {one}\nwrite %2 = {other}\nwrite %4 = add[8](%1, %2)", head) == count


def test_what_only_a_repeat_has_used_is_no_input_any_more() -> None:
    head = HEAD.replace("store %2 float64[8]", "store %2 float64[8] input []")
    text = head + "write %1 = exp[8](%0)\nwrite %2 = exp[8](%0)\nwrite %4 = add[8](%1, %2)\n"
    program, left = without_repeats(program_of(text))
    assert left == 1 and [store.id for store, _ in program.inputs] == [0]


def test_what_lives_on_is_kept_and_serves_others() -> None:
    tasks = "write %4 = exp[8](%0)\nwrite %1 = exp[8](%0)\nwrite %0 = add[8](%1, %0)"
    assert left_out(tasks) == 1
    assert left_out("write %1 = exp[8](%0)\nwrite %4 = exp[8](%0)\nwrite %0 = add[8](%1, %0)") == 0


def test_signs_are_carried_through_products() -> None:
    head = HEAD + "store %5 float64[8]\nstore %6 float64[8]\n"
    # |x| and x * x do not know the sign of x, and nothing reads -x then; x * -x is another value, the negative one.
    both = "write %1 = negative[8](%0)\n{}\n{}\nwrite %4 = add[8](%2, %3)"
    assert left_out(both.format("write %2 = multiply[8](%0, %0)", "write %3 = multiply[8](%1, %1)"), head) == 2
    assert left_out(both.format("write %2 = absolute[8](%0)", "write %3 = absolute[8](%1)"), head) == 2
    assert left_out(both.format("write %2 = multiply[8](%0, %0)", "write %3 = multiply[8](%0, %1)"), head) == 0
    assert left_out(both.format("write %2 = exp[8](%0)", "write %3 = exp[8](%1)"), head) == 0
    # Two signs that differ for the same reason: x * -x and -x * x are one value.
    assert left_out(both.format("write %2 = divide[8](%0, %1)", "write %3 = divide[8](%1, %0)"), head) == 1
    integers = head.replace("float64", "int64")
    tasks = "write %1 = negative[8](%0)\nwrite %2 = multiply[8](%1, %1)\nwrite %3 = multiply[8](%0, %0)\n"
    assert left_out(tasks + "write %4 = add[8](%2, %3)", integers) == 0


LOOP = """\
store %0 float64[8] live input []
store %1 float64[8]
store %2 float64[8]
store %3 bool[] input []
store %4 float64[8]
write %1 = exp[8](%0)
write %2 = exp[8](%0)
write %0 = add[8](%0, %2)
write %4 = exp[8](%0)
write %0 = add[8](%4, %1)
loop [2, 2, 5] while %3 carries (%0 %0 %0)
"""


def test_what_a_loop_changes_is_another_value_in_each_trip() -> None:
    program, left = without_repeats(program_of(LOOP))
    assert left == 1  # before the loop
    assert (program.regions[0].start, program.regions[0].stop) == (1, 4)
    assert sum(t.op == "exp" for t in program.tasks) == 2


def test_prices_and_their_mirror_images() -> None:
    def both(x, y):
        def weight(z):
            return np.exp(-0.5 * z * z) / (1 + 0.25 * np.abs(z))

        return weight(x) * y, weight(-x) - y

    f = diffuse.jit(both)
    x, y = np.linspace(-3, 3, 50), np.ones(50)
    plan = f.program(x, y)
    assert len(plan.operands) == 3, "equal literals are one operand"
    assert without_repeats(plan)[1] == 8
    one, other = f(x, y)
    assert np.allclose(one, other + y)


def test_random_numbers_differ() -> None:
    def pair(n):
        rng = np.random.default_rng(1)
        return rng.random(10) + n, rng.random(10) + n

    for f in (pair, diffuse.jit(pair)):
        a, b = f(0.0)
        assert not np.allclose(a, b)
