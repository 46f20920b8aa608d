"""Loops compiled by ourselves: which tasks share one, in what order they run, and that values are NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import scipy.sparse
from launching import launch

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
import diffuse_trace.sparse as sparse
from diffuse_trace.lower.loops import build
from diffuse_trace.lower.loops.body import Code
from diffuse_trace.lower.loops.waves import waves


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[Code]:
    """The calls that are compiled."""
    found: list[Code] = []

    def call(code: Code, *rest: Any) -> Any:
        found.append(code)
        return made(code, *rest)

    made = build.call
    monkeypatch.setattr(build, "call", call)
    return found


def random(*shape: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).random(shape)


def heat(u: Any) -> Any:
    u[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return u


@pytest.mark.parametrize("past", [0, 1 << 40])
@pytest.mark.parametrize("shape", [(3, 3), (5, 40), (64, 66), (131, 97), (70, 1003), (33, 512)])
def test_an_update_is_one_loop_and_its_border_is_copied_beside_it(
    shape: tuple[int, int], past: int, codes: list[Code], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "caches", lambda: past)  # rows begin anywhere in a cache line
    start, step = random(*shape), diffuse.jit(heat)
    u, want = np.asarray(start.copy()), start.copy()
    with diffuse.config.override(max_halo=20 + bool(past)):  # code for one is not taken for the other
        for _ in range(3):
            u, want = step(u), heat(want)
    numpy.testing.assert_array_equal(numpy.asarray(u), want)  # not even rounded differently
    if 8 * shape[0] * shape[1] >= 32768:  # else there is no buffer to write into
        main = [loop for loop in codes[0].loops if loop.beside]
        assert len(main) == 1 and len(main[0].beside) == 2, "left and right border"


def test_roots_over_the_same_points_share_a_loop_and_what_it_has_loaded(codes: list[Code]) -> None:
    @diffuse.jit
    def many(x: np.ndarray, y: np.ndarray) -> Any:
        z = x * y + x
        return z, (z * z).sum(), z.min(), z.max(), (x > y).any(), np.maximum(x, y) - z

    x, y = random(50_001), random(50_001, seed=1)
    made = many(np.asarray(x), np.asarray(y))
    z = x * y + x
    for have, want in zip(made, (z, (z * z).sum(), z.min(), z.max(), True, numpy.maximum(x, y) - z), strict=True):
        numpy.testing.assert_allclose(numpy.asarray(have), want, rtol=1e-13)
    (code,) = codes
    (loop,) = code.loops
    assert len(loop.main.loads()) == 2 and len(loop.main.stores) == 2 and len(loop.main.folds) == 4


def test_what_a_wave_hands_on_and_what_it_must_not_overtake(codes: list[Code]) -> None:
    def smooth(xp: Any, u: Any, v: Any) -> Any:
        a = xp.sqrt(u) / (1 + v)
        b = a[1:-1] / (1 + a[:-2] + a[2:])
        c = b[1:-1, 1:-1] - (b[:-2, 2:] + b[2:, :-2]) / (b[1:-1, 1:-1] + 1)
        return a, b, c, (c * c).sum()

    u, v = random(700, 400), random(700, 400, seed=1)
    made = diffuse.jit(lambda u, v: smooth(np, u, v))(np.asarray(u), np.asarray(v))
    for have, want in zip(made, smooth(numpy, u, v), strict=True):
        numpy.testing.assert_allclose(numpy.asarray(have), want, rtol=1e-12)
    (wave,) = [w for w in waves(codes[0]) if w.rows]
    assert len(wave.loops) == 3
    # Row i of b needs row i + 2 of a, and row i of c row i + 2 of b.
    assert wave.shifts == (0, -2, -4)


@pytest.mark.parametrize("kind", ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_each_dtype_alone_and_beside_wider_ones(kind: str) -> None:
    generator = numpy.random.default_rng(3)
    x, y = (generator.integers(0, 100, 5003).astype(kind) for _ in range(2))

    def mixed(xp: Any, x: Any, y: Any) -> Any:
        return [x + y, xp.where(x > y, x, y), x * 0.5, (x != y) & (x > 3), abs(x + y), xp.minimum(x, y).sum(), x.max()]

    made = diffuse.jit(lambda x, y: mixed(np, x, y))(np.asarray(x), np.asarray(y))
    for have, want in zip(made, mixed(numpy, x, y), strict=True):
        assert have.dtype == want.dtype
        numpy.testing.assert_allclose(numpy.asarray(have), want, rtol=1e-5 if kind == "f4" else 1e-13)


def test_what_is_no_number_infinite_or_negative_zero() -> None:
    special = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1.5, -2.5, 0.5])
    x, y = (a.ravel().copy() for a in numpy.meshgrid(special, special))

    def all_of(xp: Any, x: Any, y: Any) -> Any:
        two = [xp.maximum, xp.minimum, xp.fmax, xp.fmin, xp.divide, xp.copysign, xp.less, xp.not_equal, xp.heaviside]
        one = [xp.sign, xp.floor, xp.ceil, xp.rint, xp.trunc, xp.sqrt, xp.isfinite, xp.isnan, xp.isinf, xp.signbit, abs]
        return [f(x, y) for f in two] + [f(x) for f in one] + [x + y, x * y, x.max(), x[7:8].min()]

    made = diffuse.jit(lambda x, y: all_of(np, x, y))(np.asarray(x), np.asarray(y))
    with numpy.errstate(all="ignore"):
        for have, want in zip(made, all_of(numpy, x, y), strict=True):
            numpy.testing.assert_array_equal(numpy.asarray(have), want)
            if want.dtype.kind == "f" and want.ndim:
                number = ~numpy.isnan(want)
                numpy.testing.assert_array_equal(numpy.signbit(have)[number], numpy.signbit(want)[number])


VIEWS: list[Callable[[Any, Any], Any]] = [
    lambda xp, x: x[::-1] * 2 + x[:1],
    lambda xp, x: x[:, ::2] + x[:, 1::2],
    lambda xp, x: x[::3, ::-1] - 1,
    lambda xp, x: x + x[3] + x[:, 5:6],
    lambda xp, x: x.T * 2,
    lambda xp, x: xp.broadcast_to(x[0] * 2, (4, 6, x.shape[1])) + 1,
    lambda xp, x: (x[1:] - x[:-1]).sum(),
]


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views(number: int) -> None:
    x, view = random(30, 46), VIEWS[number]
    made = numpy.asarray(diffuse.jit(lambda x: view(np, x))(np.asarray(x)))
    numpy.testing.assert_allclose(made, view(numpy, x), rtol=1e-12)


SHARED = """
import numpy, diffuse_trace as diffuse, diffuse_trace.numpy as np
from diffuse_trace.runtime import device

def step(u, v):
    w = u * v + 1
    u[1:-1] = (w[:-2] + w[2:]) / 3
    v[:] = numpy.sqrt(v) if type(v) is numpy.ndarray else np.sqrt(v)
    return (u * v).sum(), w.max()

a, b = (numpy.random.default_rng(k).random((1201, 333)) for k in (0, 1))
u, v = np.asarray(a.copy()), np.asarray(b.copy())
decorated = diffuse.jit(step)
for _ in range(30):
    have, want = decorated(u, v), step(a, b)
    numpy.testing.assert_allclose([float(x) for x in have], want, rtol=1e-12)
numpy.testing.assert_allclose(numpy.asarray(u), a, rtol=1e-13)
print("same")
"""


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_threads_share_a_loop(ranks: int, threads: str) -> None:
    result = launch(SHARED, ranks, env={"DIFFUSE_THREADS": threads})
    assert "same" in result.stdout, result.stderr


@pytest.mark.parametrize("values", ["one each", "any"])
@pytest.mark.parametrize("offsets", [(-1, 0, 1), (-40, -1, 0, 1, 40), (0,), (3, 7), (-199, 199), (-5, 2, 0)])
def test_products_by_diagonals_are_scipys(offsets: tuple[int, ...], values: str, codes: list[Code]) -> None:
    n = 200
    constants = [1.0 + k for k in range(len(offsets))]
    diagonals = [
        random(n - abs(o), seed=abs(o)) if values == "any" else c for o, c in zip(offsets, constants, strict=True)
    ]
    matrix = scipy.sparse.diags_array(diagonals, offsets=offsets, shape=(n, n)).tocsr()
    held, x = sparse.csr_array(matrix), random(n) - 0.5

    @diffuse.jit
    def step(x: Any) -> Any:
        y = held @ x
        return y, x @ y, x - 2 * y

    made, dot, other = step(np.asarray(x))
    numpy.testing.assert_array_equal(numpy.asarray(made), matrix @ x)
    numpy.testing.assert_allclose(float(dot), x @ (matrix @ x), rtol=1e-13)
    numpy.testing.assert_array_equal(numpy.asarray(other), x - 2 * (matrix @ x))
    (code,) = codes
    assert len(code.loops) <= 2 * len(offsets) + 1
    folds = [fold for loop in code.loops for fold in loop.main.folds]
    assert [f.more for f in folds] == [False] + [True] * (len(folds) - 1) and len(folds) == len(code.loops)
    points = sorted(loop.main.box[0] for loop in code.loops)
    assert points[0][0] == 0 and points[-1][1] == n and all(a[1] == b[0] for a, b in itertools.pairwise(points))


def test_what_a_product_reads_is_not_overwritten_by_its_parts(codes: list[Code]) -> None:
    matrix = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-8, 0, 8], shape=(64 * 64, 64 * 64)).tocsr()
    held, x = sparse.csr_array(matrix), random(64 * 64)

    @diffuse.jit
    def step(x: Any) -> Any:
        x += 0.1 * (held @ x)
        return held @ x

    have, want = np.asarray(x), x.copy()
    for _ in range(3):
        made = step(have)
        want += 0.1 * (matrix @ want)
        numpy.testing.assert_array_equal(numpy.asarray(made), matrix @ want)
    numpy.testing.assert_array_equal(numpy.asarray(have), want)


def test_xla_computes_them_all_on_demand(codes: list[Code]) -> None:
    u = random(40, 50)
    with diffuse.config.override(loops="0"):
        made = diffuse.jit(heat)(np.asarray(u.copy()))
        numpy.testing.assert_allclose(numpy.asarray(made), heat(u), rtol=1e-14)
    assert not codes
