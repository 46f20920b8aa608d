"""What ``jit`` records again and what it replays, and what it does with arguments and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.tree_util
import pytest

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import recording
from diffuse_trace.runtime import execute


def counted(function: Any) -> tuple[Any, list[int]]:
    """The function decorated, and how often it has been recorded."""
    calls = [0]

    def inner(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return function(*args, **kwargs)

    return diffuse.jit(inner), calls


def test_scalars_are_operands() -> None:
    f, recorded = counted(lambda x, k: x * k)
    x = np.arange(3.0)
    assert [f(x, k).tolist() for k in (2.0, 3.0, -0.5)] == [[0, 2, 4], [0, 3, 6], [0, -0.5, -1]]
    assert recorded == [1]
    assert f(x, 2).tolist() == [0, 2, 4]  # an integer promotes otherwise
    assert recorded == [2]


def test_zeros_keep_their_sign() -> None:
    f = diffuse.jit(lambda x, k: np.copysign(x, k))
    x = np.ones(2)
    assert [f(x, k).tolist() for k in (0.0, -0.0, 0.0)] == [[1, 1], [-1, -1], [1, 1]]


def test_shapes_dtypes_views_and_aliases_are_the_signature() -> None:
    def add(x: Any, y: Any) -> Any:
        x += y
        return x.sum()

    f, recorded = counted(add)
    a, b = np.ones(6), np.ones(6)
    f(a, b), f(a, b), f(b, a)
    assert recorded == [1]
    f(np.ones(7), np.ones(7))
    assert recorded == [2]
    f(np.ones(6, np.float32), np.ones(6, np.float32))
    assert recorded == [3]
    f(a[::-1], b)
    assert recorded == [4]
    f(a, a)
    assert recorded == [5]
    f(a, b)
    assert recorded == [5]


LIMIT = 1.0
TABLE = None


def test_what_a_function_takes_from_its_surroundings_is_guarded() -> None:
    global LIMIT, TABLE
    TABLE = np.ones(3)
    k = 2.0

    def outside(x: Any) -> Any:
        return x * LIMIT + k + TABLE

    calls = [0]

    @diffuse.jit
    def f(x: Any) -> Any:
        calls[0] += 1
        return outside(x)

    x = np.ones(3)
    assert f(x).tolist() == f(x).tolist() == [4, 4, 4] and calls == [1]
    LIMIT = 3.0
    assert f(x).tolist() == [6, 6, 6] and calls == [2]
    k = 0.0
    assert f(x).tolist() == [4, 4, 4] and calls == [3]
    TABLE += 1  # the same array with other elements
    assert f(x).tolist() == [5, 5, 5] and calls == [3]
    TABLE = np.zeros(3)
    assert f(x).tolist() == [3, 3, 3] and calls == [4]


def test_static_arguments() -> None:
    @diffuse.jit(static_argnames=("n", "mode"))
    def f(x: Any, n: int, mode: str = "add") -> Any:
        for _ in range(n):
            x = x + 1 if mode == "add" else x * 2
        return x

    x = np.ones(2)
    assert f(x, 3).tolist() == [4, 4]
    assert f(x, n=2, mode="double").tolist() == [4, 4]
    assert len(f.traces) == 2
    with pytest.raises(TypeError, match=r"test_jit.py:\d+: the static argument n of .* is a list"):
        f(x, [1])
    with pytest.raises(ValueError, match="has no argument m"):
        diffuse.jit(static_argnames="m")(lambda x: x)
    with pytest.raises(TypeError, match="decorates functions"):
        diffuse.jit(3)


@jax.tree_util.register_dataclass
@dataclass
class State:
    """A dataclass that JAX knows as a tree."""

    u: Any
    v: Any


def test_trees() -> None:
    @diffuse.jit
    def f(state: State, extra: Any = None, *, flag: bool = False) -> Any:
        state.u += 1
        return State(state.v, state.u * 2), {
            "x": [extra["k"] if extra else state.u],
            "flag": flag,
            "n": None,
            "s": "text",
        }

    state = State(np.zeros(2), np.ones(2))
    first, rest = f(state)
    assert first.u is state.v and rest["x"][0] is state.u  # arguments come back as they are
    assert first.v.tolist() == [2, 2] and rest["flag"] is False and rest["n"] is None and rest["s"] == "text"
    _, rest = f(state, {"k": np.arange(2)}, flag=True)
    assert rest["x"][0].tolist() == [0, 1] and rest["flag"] is True
    first, _ = f(state)
    assert first.v.tolist() == [6, 6] and state.u.tolist() == [3, 3]


def test_methods_and_nested_functions() -> None:
    class Model:
        @diffuse.jit
        def step(self, u: Any) -> Any:
            return inner(u) + 1

        def __hash__(self) -> int:
            return 7

    @diffuse.jit
    def inner(u: Any) -> Any:
        return u * 3

    model = Model()
    assert model.step(np.ones(2)).tolist() == model.step(np.ones(2)).tolist() == [4, 4]
    assert not inner.traces  # recorded as a part of the outer one


def test_numpy_arrays_are_distributed_at_the_call() -> None:
    import numpy

    f = diffuse.jit(lambda x, y: x + y)
    assert f(numpy.arange(3.0), np.ones(3)).tolist() == [1, 2, 3]


def test_constants_made_inside_start_anew_at_each_call() -> None:
    @diffuse.jit
    def f(x: Any) -> Any:
        t = np.array([1.0, 2.0, 3.0])
        t += x
        return t

    x = np.ones(3)
    assert f(x).tolist() == f(x).tolist() == f(x).tolist() == [2, 3, 4]


def test_an_error_changes_nothing() -> None:
    @diffuse.jit
    def f(x: Any, y: Any) -> Any:
        x += 1
        return x + y

    x = np.ones(3)
    with pytest.raises(ValueError, match="could not be broadcast"):
        f(x, np.ones(4))
    assert x.tolist() == [1, 1, 1] and not recording.tracing()
    assert f(x, np.ones(3)).tolist() == [3, 3, 3]


def test_a_function_that_records_nothing() -> None:
    f = diffuse.jit(lambda x: (x, 3))
    x = np.ones(2)
    assert f(x) == f(x) and f(x)[0] is x


def test_a_loop_of_many_trips_is_compiled_once() -> None:
    @diffuse.jit
    def f(x: Any) -> Any:
        for _ in range(300):
            x = x * 0.5 + 1
        return x

    before = execute._memo.misses
    assert f(np.zeros(4)).tolist() == pytest.approx([2, 2, 2, 2])
    assert execute._memo.misses - before <= 4
    assert f(np.ones(4)).tolist() == pytest.approx([2, 2, 2, 2])


def test_selected_elements_cannot_be_returned() -> None:
    f = diffuse.jit(lambda x: {"part": x[x > 1]})
    with pytest.raises(NotImplementedError, match=r"test_jit.py:\d+: returning is not supported for elements"):
        f(np.arange(4.0))
    assert diffuse.jit(lambda x: x[x > 1].sum())(np.arange(4.0)).item() == 5


def test_undecorated_loops_reuse_their_plan() -> None:
    u = np.ones(50)
    before = execute._memo.misses
    for _ in range(40):
        change = 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[1:-1] += change
    for _ in range(40):
        u[0] = u[1] * 0.5
        u[-1] = u[-2] + 1
    u.tolist()
    assert execute._memo.misses - before <= 9


def test_explain_and_profile() -> None:
    @diffuse.jit
    def f(u: Any) -> Any:
        u[1:-1] += 0.5 * (u[2:] - u[:-2])
        return u.max()

    u = np.arange(100.0)
    text = str(diffuse.explain(f, u, ranks=4))
    assert "on 4 ranks" in text and "exchange, 16 B a rank" in text and "test_jit.py:" in text
    assert u[1].item() == 1  # nothing was run
    with diffuse.profile(show=False) as seen:
        f(u), f(u)
    (plan,) = seen.plans.values()
    assert (plan.hits, plan.misses, plan.calls) == (1, 1, 2)
