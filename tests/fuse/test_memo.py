"""The memo of plans: what is known, what is forgotten, and why something is not known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import program_of
from strategies import rich_programs

from diffuse_trace import config
from diffuse_trace.fuse.memo import FIRST, Memo, Origin, difference
from diffuse_trace.ir import REPLICATED, Program

TEXT = """\
operands float64
store %0 float64[64] live input []
store %1 float64[64] live input []
store %2 float64[62]
write %2 = add[62](%0[0:62], %1[2:64])  # a.py:1
write %2 = clip[62](%2, $0, low=0)  # a.py:2
write %0[1:63] = copy[62](%2)  # a.py:3
"""


def origin(text: str = TEXT, **changed: Any) -> Origin:
    """What a plan of the text would be kept for."""
    with config.override():
        made = Origin(program_of(text).canonical()[0], ((0, (1,)), (1, (1,))), 4, config.code_key())
    return replace(made, **changed)


def test_what_was_put_is_found_by_an_equal_key() -> None:
    memo: Memo[str] = Memo(4)
    key = program_of(TEXT).key()[0]
    assert memo.get(key) is None
    memo.put(key, origin(), "plan")
    assert memo.get(program_of(TEXT.replace("a.py", "b.py")).key()[0]) == "plan"
    assert (memo.hits, memo.misses, len(memo)) == (1, 1, 1)


def test_equal_hashes_are_not_enough() -> None:
    class Alike(int):
        def __hash__(self) -> int:
            return 7

    memo: Memo[str] = Memo(4)
    memo.put(Alike(1), origin(), "one")
    assert memo.get(Alike(2)) is None and memo.get(Alike(1)) == "one"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 4))
def test_the_least_recently_used_is_forgotten(keys: list[int], size: int) -> None:
    memo: Memo[int] = Memo(size)
    recent: list[int] = []
    for key in keys:
        found = memo.get(key)
        assert found == (key if key in recent else None)
        if found is None:
            memo.put(key, origin(), key)
        recent = [k for k in recent if k != key] + [key]
        recent = recent[-size:]
        assert len(memo) == len(recent)
    assert memo.hits + memo.misses == len(keys)
    memo.clear()
    assert len(memo) == 0


def test_putting_again_makes_it_recent() -> None:
    memo: Memo[int] = Memo(2)
    for key in (1, 2, 1, 3):
        memo.put(key, origin(), key)
    assert [memo.get(k) for k in (1, 2, 3)] == [1, None, 3]


LARGER = TEXT.replace("64", "128").replace("62", "126").replace("63", "127")
CHANGED: list[tuple[str, Callable[[], Origin]]] = [
    ("the operations differ", lambda: origin(TEXT.replace("clip", "maximum"))),
    ("the shape of %0: (64,), then (128,)", lambda: origin(LARGER)),
    ("the dtype of %0: float64, then float32", lambda: origin(TEXT.replace("%0 float64", "%0 float32"))),
    ("the view of %0 in task 0 (add, a.py:1)", lambda: origin(TEXT.replace("%0[0:62]", "%0[1:63]"))),
    ("which arrays are the same one: task 0", lambda: origin(TEXT.replace("%1[2:64]", "%0[2:64]"))),
    ("the parameters of task 1 (clip, a.py:2): {'low': 0}, then {'low': 1}", lambda: origin(TEXT.replace("=0", "=1"))),
    ("the parameters of task 1", lambda: origin(TEXT.replace("=0", "=False"))),
    ("has another scalar or an array in its place", lambda: origin(TEXT.replace("%2, $0", "%2, %2"))),
    ("the partition of %0", lambda: origin(TEXT.replace("%0 float64[64] live input []", SHIFTED))),
    ("which arrays live on: [0, 1], then [0]", lambda: origin(TEXT.replace("%1 float64[64] live", "%1 float64[64]"))),
    (
        "the dtypes of scalars: ['float64'], then ['int64']",
        lambda: origin(TEXT.replace("operands float64", "operands int64")),
    ),
    ("the ghost margins of the inputs", lambda: origin(margins=((0, (2,)), (1, (1,))))),
    ("the number of ranks: 4, then 8", lambda: origin(ranks=8)),
    ("the settings", lambda: origin(settings=("another",))),
    ("nothing", origin),
]
SHIFTED = "%0 float64[64] live input [split(0, 4, 70, 3, 1)]"


@pytest.mark.parametrize(("says", "other"), CHANGED, ids=[says[:30] for says, _ in CHANGED])
def test_a_miss_names_the_part_that_differs(says: str, other: Callable[[], Origin]) -> None:
    assert says in difference(origin(), other())


def test_a_miss_names_the_setting() -> None:
    with config.override(fuse="paper"):
        other = origin(settings=config.code_key())
    assert difference(origin(), other) == "the setting fuse: '1', then 'paper'"


def test_a_miss_is_compared_with_the_most_recent_program_with_the_same_operations() -> None:
    memo: Memo[str] = Memo(8)
    assert memo.why(origin()) == FIRST
    memo.put("a", origin(ranks=2), "")
    memo.put("b", origin(ranks=3), "")
    memo.put("c", origin(TEXT.replace("clip", "maximum")), "")
    assert memo.why(origin()) == "the number of ranks: 3, then 4"
    assert memo.get("a") == ""
    assert memo.why(origin()) == "the number of ranks: 2, then 4"
    assert memo.why(origin(TEXT.replace("copy", "negative"))) == FIRST


@settings(max_examples=60, deadline=None)
@given(rich_programs(ranks=3), rich_programs(ranks=3), st.booleans())
def test_different_programs_have_a_difference(one: Program, other: Program, near: bool) -> None:
    if near:
        other = replace(one, inputs=tuple((s, REPLICATED) for s, _ in one.inputs))
    rest: Any = ((), 3, ())
    a, b = Origin(one.canonical()[0], *rest), Origin(other.canonical()[0], *rest)
    assert (difference(a, b) == "nothing") == (one.key()[0] == other.key()[0])
    for x, y in itertools.product((a, b), repeat=2):
        assert difference(x, y)
