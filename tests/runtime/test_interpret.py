"""The oracle: programs on NumPy arrays, against the NumPy statements that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from diffuse_trace.errors import ProgramError
from diffuse_trace.ir import REPLICATED, Access, Axis, IndexTask, Operand, Privilege, Program, Store, View
from diffuse_trace.runtime.interpret import interpret

FLOAT = np.dtype(float)
READ, WRITE, UPDATE, REDUCE = Privilege.READ, Privilege.WRITE, Privilege.READ_WRITE, Privilege.REDUCE


def program(tasks: list[IndexTask], inputs: list[Store], live: set[int], operands: int = 0) -> Program:
    return Program(tuple(tasks), tuple((s, REPLICATED) for s in inputs), frozenset(live), (FLOAT,) * operands)


def whole(store: Store) -> View:
    return View.identity(store.shape)


def test_views_operands_and_aliasing() -> None:
    u, change = Store(0, (6,), FLOAT), Store(1, (4,), FLOAT)
    parts = [whole(u).sliced(0, k, 1, 4) for k in range(3)]
    tasks = [
        IndexTask("add", (4,), (Access(u, parts[0]), Access(u, parts[2])), Access(change, whole(change), WRITE)),
        IndexTask("multiply", (4,), (Access(change, whole(change)), Operand(0)), Access(u, parts[1], WRITE)),
    ]
    x = np.arange(6.0)
    before = x.copy()
    found = interpret(program(tasks, [u], {0}, 1), {0: x}, [0.5])
    expected = x.copy()
    expected[1:-1] = 0.5 * (x[:-2] + x[2:])
    assert set(found) == {0}
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(x, before)


def test_the_right_side_sees_old_values() -> None:
    u = Store(0, (6,), FLOAT)
    forward = IndexTask(
        "copy", (5,), (Access(u, whole(u).sliced(0, 0, 1, 5)),), Access(u, whole(u).sliced(0, 1, 1, 5), WRITE)
    )
    found = interpret(program([forward], [u], {0}), {0: np.arange(6.0)})
    np.testing.assert_array_equal(found[0], [0, 0, 1, 2, 3, 4])


def test_one_element_and_backward_views() -> None:
    u = Store(0, (3, 4), FLOAT)
    corner = View((), (Axis(None, 2), Axis(None, 1)))
    flipped = whole(u).sliced(0, 2, -1, 3)
    tasks = [
        IndexTask("fill", (), (Operand(0),), Access(u, corner, WRITE)),
        IndexTask("copy", (3, 4), (Access(u, whole(u)),), Access(u, flipped, WRITE)),
    ]
    x = np.arange(12.0).reshape(3, 4)
    found = interpret(program(tasks, [u], {0}, 1), {0: x}, [-1.0])
    expected = x.copy()
    expected[2, 1] = -1
    np.testing.assert_array_equal(found[0], expected[::-1])


def test_masked_update() -> None:
    u, mask = Store(0, (4,), FLOAT), Store(1, (4,), np.dtype(bool))
    where = IndexTask(
        "choose",
        (4,),
        (Access(mask, whole(mask)), Operand(0), Access(u, whole(u))),
        Access(u, whole(u), UPDATE),
    )
    found = interpret(
        program([where], [u, mask], {0}, 1), {0: np.arange(4.0), 1: np.array([True, False, True, False])}, [9.0]
    )
    np.testing.assert_array_equal(found[0], [9, 1, 9, 3])


def test_reductions_replace_what_was_there() -> None:
    u, total, rows = Store(0, (3, 4), FLOAT), Store(1, (), FLOAT), Store(2, (4, 1), FLOAT)
    tasks = [
        IndexTask("sum", (3, 4), (Access(u, whole(u)),), Access(total, View((3, 4), ()), REDUCE, "sum")),
        IndexTask(
            "max",
            (3, 4),
            (Access(u, whole(u)),),
            Access(rows, View((3, 4), (Axis(1), Axis(None, 0))), REDUCE, "max"),
        ),
    ]
    x = np.random.default_rng(0).random((3, 4))
    found = interpret(program(tasks, [u, total], {1, 2}), {0: x, 1: np.asarray(100.0)})
    assert found[1].shape == () and found[1] == x.sum()
    np.testing.assert_array_equal(found[2], x.max(axis=0)[:, None])


def test_matrix_product() -> None:
    a, b, c = Store(0, (3, 4), FLOAT), Store(1, (4, 5), FLOAT), Store(2, (3, 5), FLOAT)
    shape = (3, 5, 4)
    inputs = (Access(a, View(shape, (Axis(0), Axis(2)))), Access(b, View(shape, (Axis(2), Axis(1)))))
    task = IndexTask("contract", shape, inputs, Access(c, View(shape, (Axis(0), Axis(1))), REDUCE, "sum"))
    x, y = np.random.default_rng(0).random((3, 4)), np.random.default_rng(1).random((4, 5))
    np.testing.assert_allclose(interpret(program([task], [a, b], {2}), {0: x, 1: y})[2], x @ y, rtol=1e-14)


def test_faults_are_named() -> None:
    u, v = Store(0, (3,), FLOAT), Store(1, (3,), FLOAT)
    copy = IndexTask("copy", (3,), (Access(u, whole(u)),), Access(v, whole(v), WRITE))
    with pytest.raises(ProgramError, match="%0 is read before"):
        interpret(program([copy], [], {1}), {})
    with pytest.raises(ProgramError, match=r"%0 is float64\(3,\), not float64\(4,\)"):
        interpret(program([copy], [u], {1}), {0: np.zeros(4)})
