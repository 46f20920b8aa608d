"""Kernels that combine points, and random numbers: against NumPy, over regions that are more than the own points."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lower.test_kernels import DTYPES, both, task

from diffuse_trace.ir import Access, Axis, IndexTask, Privilege, Store, View
from diffuse_trace.lower.kernels import Context, kernel
from diffuse_trace.lower.kernels.random import threefry

Kept = tuple[int, ...]

SHAPES: list[tuple[tuple[int, ...], Kept]] = [
    ((), ()),
    ((1,), ()),
    ((1000,), ()),
    ((20000,), ()),
    ((37, 41), (0,)),
    ((300, 310), (0,)),
    ((300, 310), (1,)),
    ((300, 310), ()),
    ((300, 4), ()),
    ((5, 300, 6), (1,)),
    ((5, 300, 6), (0, 2)),
]


def sample(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Numbers whose sums and products stay in range."""
    x = np.random.default_rng(seed).uniform(0 if dtype.kind == "u" else -2, 3, shape)
    if dtype.kind == "b":
        return x > 1
    return np.asarray(x + 0.5j * x[::-1] if dtype.kind == "c" and shape else x).astype(dtype)


def reduced(op: str, x: np.ndarray, kept: Kept, own: tuple[tuple[int, int], ...]) -> np.ndarray:
    """What the generator makes of the own points of a block."""
    made = task(op, x.shape, 1, x.dtype, kept)
    region = tuple((0, n) for n in x.shape)
    return np.asarray(jax.jit(lambda a: kernel(op).generate(Context(made, region, own, jnp), a))(x))


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reductions(op: str, dtype: np.dtype) -> None:
    ufunc = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    blocks, cases = [], []
    for shape, kept in SHAPES if dtype.char == "d" else SHAPES[2:9:3] if dtype.char in "lfD" else SHAPES[4:8:3]:
        x = sample(shape, dtype)
        if op == "prod" and dtype.kind in "fc":
            x = (1 + sample(shape, np.dtype(float)) / max(x.size, 1)).astype(dtype)
        for own in (tuple((0, n) for n in shape), tuple((1, n - 1) if n > 2 else (0, n) for n in shape)):
            blocks.append(x)
            cases.append((task(op, shape, 1, dtype, kept), tuple((0, n) for n in shape), own))

    def run(blocks: list[Any]) -> list[Any]:
        return [kernel(op).generate(Context(*case, jnp), x) for case, x in zip(cases, blocks, strict=True)]

    for (made, _, own), x, found in zip(cases, blocks, jax.jit(run)(blocks), strict=True):
        mine = x[tuple(slice(*o) for o in own)]
        with np.errstate(all="ignore"):
            expected = ufunc.reduce(mine, axis=made.output.view.broadcast_axes(), keepdims=True, dtype=dtype)
        assert found.shape == expected.shape and found.dtype == dtype
        if op in ("min", "max") or dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected)
            continue
        # NumPy multiplies one after the other, and adds so along the first axis.
        steps = float(mine.size if op == "prod" else np.sqrt(mine.size))
        scale = np.abs(expected).astype(float) + (steps if op == "sum" else 0)
        error = np.abs(found - expected).astype(float)
        assert np.all(error <= 16 * float(np.finfo(dtype).eps) * max(1, steps) * scale)


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_reduction_of_nothing_is_the_identity(op: str) -> None:
    for dtype in DTYPES:
        made = task(op, (0, 3), 1, dtype, (1,))
        found, expected = both(made, np.zeros((0, 3), dtype))
        assert found.shape == (1, 3)
        np.testing.assert_array_equal(found, expected)
        # A block of which no point is own.
        if dtype.kind != "c" or op in ("sum", "prod"):
            np.testing.assert_array_equal(reduced(op, np.ones((3, 3), dtype), (), ((1, 1), (0, 3))), expected[:, :1])


@pytest.mark.parametrize("shape", [(1000,), (40, 50), (600, 70)])
@pytest.mark.parametrize("op", ["sum", "min", "max"])
def test_reductions_propagate_what_is_no_number(op: str, shape: tuple[int, ...]) -> None:
    for place in (0, -1, 500):
        x = np.random.default_rng(1).random(shape)
        x.ravel()[place] = np.nan
        assert np.isnan(reduced(op, x, (), tuple((0, n) for n in shape))).all()
        kept = tuple(range(1, len(shape)))
        rows = reduced(op, x, kept, tuple((0, n) for n in shape))
        np.testing.assert_array_equal(np.isnan(rows), np.isnan(x.sum(axis=0, keepdims=True)))


def test_sums_of_float32_are_accurate() -> None:
    x = np.random.default_rng(0).random(3_000_000, np.float32)
    exact = x.astype(float).sum()
    for shape in ((3_000_000,), (1500, 2000)):
        found = reduced("sum", x.reshape(shape), (), tuple((0, n) for n in shape)).item()
        assert abs(found - exact) <= 8 * np.finfo(np.float32).eps * exact


def test_reduction_of_a_repeated_value() -> None:
    x = np.arange(3.0)[:, None]
    found, expected = both(task("sum", (3, 5), 1, "d", ()), x)
    assert found.item() == expected.item() == 15


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_arg_index(axis: int | None) -> None:
    x = np.random.default_rng(2).integers(0, 9, (30, 40)).astype(float)
    x[3, 7] = x[20, 7] = np.nan
    kept = () if axis is None else (1 - axis,)
    extreme = np.max(x, axis=axis, keepdims=True)
    made = task("arg_index", x.shape, 2, np.int64, kept, axis=axis)
    for found in both(made, x, extreme):
        np.testing.assert_array_equal(found.ravel(), np.ravel(np.argmax(x, axis=axis)))
    # Indices are those of the whole domain, whatever the block.
    region, own = ((4, 30), (0, 40)), ((5, 29), (2, 40))
    found = kernel("arg_index").generate(Context(made, region, own, jnp), x[4:], x[20:21, 7:8])
    seen = np.argwhere(np.isnan(x[5:29, 2:])) + (5, 2)
    assert np.min(found) == (20 * 40 + 7 if axis is None else seen[0][axis])


def product(shape: tuple[int, ...], a: Kept, b: Kept, kept: Kept, dtype: np.dtype) -> IndexTask:
    """A contraction of inputs that have the axes ``a`` and ``b`` of the domain."""
    sides = []
    for number, axes in enumerate((a, b, kept)):
        store = Store(number, tuple(shape[d] for d in axes), dtype)
        view = View(shape, tuple(Axis(d) for d in axes))
        sides.append(Access(store, view) if number < 2 else Access(store, view, Privilege.REDUCE, "sum"))
    return IndexTask("contract", shape, (sides[0], sides[1]), sides[2])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_contractions(dtype: np.dtype) -> None:
    tasks, blocks = [], []
    for shape, a, b, kept in [
        ((4, 5, 6), (0, 1), (1, 2), (0, 2)),
        ((4, 6, 5), (0, 2), (1, 2), (0, 1)),
        ((5, 6, 4), (0, 2), (0, 1), (1, 2)),
        ((3, 4, 5, 6), (0, 1, 2), (0, 2, 3), (0, 1, 3)),
        ((70,), (0,), (0,), ()),
        ((4, 5), (0, 1), (1,), (0,)),
        ((3, 4, 5), (0, 1), (0, 1), (1,)),
        ((4, 5, 0), (0, 2), (1, 2), (0, 1)),
        ((3, 4, 5), (0, 1), (1, 2), (0,)),
        ((3, 4, 5), (0,), (2,), (0, 2)),
    ]:
        tasks.append(product(shape, a, b, kept, dtype))
        extents = [tuple(n if d in side else 1 for d, n in enumerate(shape)) for side in (a, b)]
        blocks.append([sample(extents[0], dtype), sample(extents[1], dtype, 1)])
    wholes = [tuple((0, n) for n in t.shape) for t in tasks]

    def run(blocks: list[Any]) -> list[Any]:
        generate = kernel("contract").generate
        return [generate(Context(t, w, w, jnp), *b) for t, w, b in zip(tasks, wholes, blocks, strict=True)]

    tolerance = 0 if dtype.kind in "biu" else 32 * np.finfo(dtype).eps
    for made, whole, pair, found in zip(tasks, wholes, blocks, jax.jit(run)(blocks), strict=True):
        expected = kernel("contract").reference(Context(made, whole, whole, np), *pair)
        assert found.shape == expected.shape and found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 20)
    x, y = sample((4, 5), dtype), sample((5, 6), dtype, 1)
    made = product((4, 5, 6), (0, 1), (1, 2), (0, 2), dtype)
    expected = both(made, x[:, :, None], y[None])[1]
    np.testing.assert_allclose(expected[:, 0], x @ y, rtol=1e-2 if dtype == np.float16 else 1e-5, atol=1e-2)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans(name: str) -> None:
    for dtype in DTYPES:
        x = sample((6, 7), dtype)
        for axis in (0, 1):
            found, expected = both(task(name, x.shape, 1, dtype, axis=axis), x)
            tolerance = 32 * np.finfo(dtype).eps if dtype.kind in "fc" else 0
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_threefry_test_vectors() -> None:
    ones = 2**64 - 1
    for word, expected in (
        (0, (0xC2B6E3A8C2C69865, 0x6F81ED42F350084D)),
        (ones, (0xE02CB7C4D95D277A, 0xD06633D0893B8B68)),
    ):
        for xp in (np, jnp):
            w = xp.asarray([word], np.uint64)
            assert tuple(int(v[0]) for v in threefry(xp, (w, w), (w, w))) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_floats(dtype: type) -> None:
    key = (np.uint64(12345), np.uint64(3))
    found, expected = both(task("random_uniform", (200, 300), 4, dtype), np.float64(-1.3), np.float64(2.7), *key)
    np.testing.assert_array_equal(found, expected)
    assert found.min() >= -1.3 and found.max() < 2.7 and abs(found.mean() - 0.7) < 0.02
    found, expected = both(task("random_normal", (200, 300), 4, dtype), np.float64(1), np.float64(2), *key)
    np.testing.assert_allclose(found, expected, rtol=0, atol=64 * np.finfo(dtype).eps)
    assert abs(found.mean() - 1) < 0.03 and abs(found.std() - 2) < 0.03


def test_random_integers() -> None:
    key = (np.uint64(7), np.uint64(0))
    made = task("random_integers", (300, 200), 4, np.int64)
    found, expected = both(made, np.int64(-5), np.int64(10), *key)
    np.testing.assert_array_equal(found, expected)
    seen, counts = np.unique(found, return_counts=True)
    np.testing.assert_array_equal(seen, np.arange(-5, 10))
    assert np.abs(counts - 4000).max() < 5 * np.sqrt(4000)
    wide, expected = both(made, np.int64(-(2**63)), np.int64(2**63 - 1), *key)
    np.testing.assert_array_equal(wide, expected)


def test_random_numbers_depend_on_the_global_index() -> None:
    made = task("random_uniform", (20, 30), 4, "d")
    operands = (np.float64(0), np.float64(1), np.uint64(1), np.uint64(2))
    whole, _ = both(made, *operands)
    region = ((5, 11), (7, 30))
    block = kernel("random_uniform").generate(Context(made, region, region, jnp), *operands)
    np.testing.assert_array_equal(block, whole[5:11, 7:])
    other, _ = both(made, *operands[:3], np.uint64(3))
    assert not np.any(other == whole)
