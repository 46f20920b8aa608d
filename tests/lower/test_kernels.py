"""Each kernel against its reference, over NumPy's dtypes and the values where the two might differ."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffuse_trace.ir import Access, Axis, IndexTask, Operand, Privilege, Store, View
from diffuse_trace.lower.kernels import Context, kernel, registered

jax.config.update("jax_enable_x64", True)

DTYPES = [np.dtype(c) for c in "?bhilBHILefdFD"]
UFUNCS = [n for n in registered() if isinstance(getattr(np, n, None), np.ufunc)]
UNARY = [n for n in UFUNCS if getattr(np, n).nin == 1]
BINARY = [n for n in UFUNCS if getattr(np, n).nin == 2]
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")

#: Functions that agree with NumPy's to so many units in the last place; the others do in every bit.
_CLOSE = (
    "exp exp2 expm1 log log2 log10 log1p cbrt hypot sin cos tan arcsin arccos arctan arctan2 "
    "sinh cosh tanh arcsinh arccosh arctanh power float_power"
)
ULPS = dict.fromkeys(_CLOSE.split(), 4)
ULPS |= dict.fromkeys(("logaddexp", "logaddexp2"), 8)  # NumPy's own error, where the result is near 0
#: Which of two zeros these give is not specified.
ZEROS = ("maximum", "minimum", "fmax", "fmin")
#: Complex functions whose values for infinite parts and what is not a number are XLA's; all others' are NumPy's.
FINITE = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")
FINITE += (
    "arcsin",
    "arccos",
    "arctan",
    "arcsinh",
    "arccosh",
    "arctanh",
    "power",
    "float_power",
    "divide",
    "reciprocal",
)


def task(op: str, shape: tuple[int, ...], inputs: int, dtype: Any, kept: Any = None, **params: Any) -> IndexTask:
    """A task over ``shape`` whose output has the domain's axes ``kept`` (all of them unless given)."""
    reduces = kept is not None
    axes = tuple(range(len(shape))) if kept is None else kept
    out = Store(99, tuple(shape[a] for a in axes), np.dtype(dtype))
    view = View(shape, tuple(Axis(a) for a in axes))
    operator = "min" if op == "arg_index" else op
    access = Access(out, view, Privilege.REDUCE, operator) if reduces else Access(out, view, Privilege.WRITE)
    return IndexTask(op, shape, tuple(Operand(k) for k in range(inputs)), access, tuple(sorted(params.items())))


def both(made: IndexTask, *arrays: Any) -> tuple[np.ndarray, np.ndarray]:
    """The generator's result and the reference's, both over the whole domain."""
    whole = tuple((0, n) for n in made.shape)
    found = jax.jit(lambda *a: kernel(made.op).generate(Context(made, whole, whole, jnp), *a))(*arrays)
    expected = kernel(made.op).reference(Context(made, whole, whole, np), *arrays)
    dtype = made.output.store.dtype
    assert found.dtype == dtype
    return np.broadcast_to(found, expected.shape), np.asarray(expected).astype(dtype)


@cache
def values(dtype: np.dtype, complete: bool = True) -> np.ndarray:
    """Ordinary and special values of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [0, 1, 2, 3, 5, 7, 8, 12, 31, 63, 64, 100, info.max - 1, info.max]
        return np.array(near + ([-1, -2, -3, -7, -12, -100, info.min, info.min + 1] if info.min else []), dtype)
    if dtype.kind == "c":
        part = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 0.3], dtype)
        if complete:
            part = np.append(part, np.array([np.inf, -np.inf, np.nan], dtype))
        result = np.empty((part.size, part.size), dtype)
        result.real, result.imag = part.real[:, None], part.real
        return result.ravel()
    info = np.finfo(dtype)
    plain = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 1e-3, 7.25, 88.0, info.max / 4, info.eps, np.inf]
    with np.errstate(over="ignore"):
        return np.array([s * v for v in plain for s in (1, -1)] + [np.nan], dtype)


def assert_equal(found: np.ndarray, expected: np.ndarray, ulps: float = 0, zeros: bool = True) -> None:
    """Equal to so many units in the last place; what is not a number is so in both, zeros have equal signs.

    XLA takes numbers below the smallest normal one for 0.
    """
    if expected.dtype.kind == "c":
        if ulps:
            with np.errstate(all="ignore"):
                near = np.abs(found - expected) <= 2 * ulps * np.finfo(found.dtype).eps * np.abs(expected)
            np.testing.assert_array_equal(near | (found == expected) | (np.isnan(found) & np.isnan(expected)), True)
        else:
            assert_equal(found.real, expected.real, 0, zeros)
            assert_equal(found.imag, expected.imag, 0, zeros)
        return
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    if expected.dtype.itemsize > 2:
        tiny = np.finfo(expected.dtype).tiny
        expected, found = (np.where(np.abs(v) < tiny, np.copysign(0, v), v) for v in (expected, found))
    with np.errstate(all="ignore"):
        near = (found == expected) | (np.isnan(found) & np.isnan(expected))
        if ulps:
            wide = np.float64 if expected.dtype.itemsize < 8 else expected.dtype
            near |= np.abs(found.astype(wide) - expected) <= ulps * np.abs(np.spacing(expected)).astype(wide)
        if zeros:
            near &= (expected != 0) | (found != 0) | (np.signbit(found) == np.signbit(expected))
    where = np.argwhere(~near)[:5]
    assert near.all(), [(tuple(w), found[tuple(w)], expected[tuple(w)]) for w in where]


def resolved(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...]) -> tuple[np.dtype, ...] | None:
    """The loop of a ufunc for these dtypes; None where NumPy has none."""
    try:
        loop = ufunc.resolve_dtypes((*dtypes, *(None,) * ufunc.nout))
    except TypeError:
        return None
    return loop if all(d in DTYPES for d in loop) else None


def check(name: str, *cases: tuple[tuple[np.dtype, ...], tuple[np.ndarray, ...]]) -> None:
    """A ufunc over all combinations of the values of each case, compiled as one, against NumPy."""
    ufunc = getattr(np, name)
    tasks, grids = [], []
    for dtypes, arrays in cases:
        loop = resolved(ufunc, dtypes)
        if loop is not None:
            grids.append(np.meshgrid(*arrays, indexing="ij"))
            names = tuple(d.name for d in loop[: ufunc.nin])
            tasks.append(task(name, grids[-1][0].shape, ufunc.nin, loop[-1], loop=names))
    wholes = [tuple((0, n) for n in t.shape) for t in tasks]

    def run(grids: list[Any]) -> list[Any]:
        generate = kernel(name).generate
        return [generate(Context(t, w, w, jnp), *g) for t, w, g in zip(tasks, wholes, grids, strict=True)]

    for made, whole, grid, value in zip(tasks, wholes, grids, jax.jit(run)(grids), strict=True):
        expected = kernel(name).reference(Context(made, whole, whole, np), *grid)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(expected, ufunc(*grid))
        assert value.dtype == expected.dtype
        inexact = expected.dtype.kind == "c" and name in (*FINITE, "sign", "multiply", "square")
        found = np.broadcast_to(value, expected.shape)
        assert_equal(found, expected, ULPS.get(name, 2 if inexact else 0), name not in ZEROS)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    part = (*FINITE, "sign")
    check(name, *(((d,), (values(d, d.kind != "c" or name not in part),)) for d in DTYPES))


@pytest.mark.parametrize("name", [n for n in BINARY if n != "ldexp"])
def test_binary(name: str) -> None:
    cases = []
    for dtype in DTYPES:
        finite = dtype.kind == "c" and name in (*FINITE, "multiply")
        first = second = values(dtype, not finite)
        if name == "power" and dtype.kind in "iu":
            second = np.array([0, 1, 2, 3, 5, 64, 127], dtype)  # NumPy refuses negative ones
        cases.append(((dtype, dtype), (first, second)))
    check(name, *cases)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison_of_signed_and_unsigned(name: str) -> None:
    signed, unsigned = np.dtype("l"), np.dtype("L")
    a, b = values(signed), values(unsigned)
    check(name, ((signed, unsigned), (a, b)), ((unsigned, signed), (b, a)))


def test_ldexp() -> None:
    exponents = np.array([0, 1, -1, 5, -5, 100, -100, 2000, -2000, 2**31 - 1, -(2**31)], np.int32)
    check("ldexp", *(((d, np.dtype("i")), (values(d), exponents)) for d in map(np.dtype, "efd")))


@pytest.mark.parametrize("exponent", [-2, -1, 0, 1, 2, 3, 7])
def test_integer_exponents(exponent: int) -> None:
    x = np.random.default_rng(0).uniform(0.5, 3, 200)
    found, expected = both(task("power", x.shape, 1, x.dtype, exponent=exponent), x)
    assert_equal(found, expected, 0 if exponent in (-1, 0, 1, 2) else 4)


def test_division_by_a_scalar_is_rounded_once() -> None:
    x = np.arange(1000.0)
    for divisor in (3.0, 10.0, 49.0):
        found, _ = both(task("divide", x.shape, 2, x.dtype), x, np.asarray(divisor))
        np.testing.assert_array_equal(found, x / divisor)


def test_exp2_of_integers_is_exact() -> None:
    x = np.arange(-1000.0, 1000.0)
    np.testing.assert_array_equal(both(task("exp2", x.shape, 1, x.dtype), x)[0], np.exp2(x))


def test_casts() -> None:
    for have in DTYPES:
        exact = values(have, False)
        moderate = np.abs(exact.real) < 100 if have.kind in "fc" else np.ones(exact.shape, bool)
        positive = moderate & (exact.real > -1) if have.kind in "fc" else moderate
        where = {"i": moderate, "u": positive}
        made = [(task("copy", exact.shape, 1, want), where.get(want.kind, slice(None))) for want in DTYPES]
        whole = ((0, exact.size),)
        found = jax.jit(
            lambda x, made=made, w=whole: [kernel("copy").generate(Context(m, w, w, jnp), x) for m, _ in made]
        )
        for (m, defined), value in zip(made, found(exact), strict=True):
            expected = kernel("copy").reference(Context(m, whole, whole, np), exact)
            assert value.dtype == expected.dtype == m.output.store.dtype
            assert_equal(np.asarray(value)[defined], expected[defined])
    negative = np.array([-1.0, -1.5, -100.0])
    for want in (np.uint8, np.uint16, np.uint32, np.uint64):
        value, _ = both(task("copy", (3,), 1, want), negative)
        np.testing.assert_array_equal(value, np.array([-1, -1, -100]).astype(want))


@pytest.mark.parametrize("name", ["where", "choose"])
def test_selection(name: str) -> None:
    mask = np.array([[True], [False], [True]])
    found, expected = both(task(name, (3, 4), 3, "d"), mask, np.arange(4, dtype=np.int32)[None], np.asarray(2.5))
    np.testing.assert_array_equal(found, np.where(mask, np.arange(4.0), 2.5))
    np.testing.assert_array_equal(expected, found)


def test_other_elementwise() -> None:
    for dtype in (np.dtype(c) for c in "efd"):
        x = values(dtype)
        for name in ("modf_0", "modf_1", "frexp_0", "real", "imag", "angle", "nan_to_num"):
            assert_equal(*both(task(name, x.shape, 1, dtype), x))
        assert_equal(*both(task("frexp_1", x.shape, 1, np.int32), x))
        assert_equal(*both(task("nan_to_num", x.shape, 1, dtype, nan=1.0, posinf=2.0, neginf=3.0), x))
        for decimals in (-1, 0, 1, 3):
            moderate = x[np.abs(x) < 1e3]
            assert_equal(*both(task("round", moderate.shape, 1, dtype, decimals=decimals), moderate))
        a, b = np.meshgrid(x, x)
        for low, high in ((-1, 2), (2, -1), (np.nan, 1)):
            made = task("clip", x.shape, 3, dtype)
            assert_equal(*both(made, x, dtype.type(low), dtype.type(high)), zeros=False)
        for equal in (False, True):
            assert_equal(*both(task("isclose", a.shape, 2, bool, equal_nan=equal, rtol=0.1, atol=0.01), a, b))
    z = values(np.dtype("D"), False)
    for name, dtype in (("real", "d"), ("imag", "d"), ("round", "D"), ("nan_to_num", "D")):
        assert_equal(*both(task(name, z.shape, 1, dtype), z))
    assert_equal(*both(task("angle", z.shape, 1, "d"), z), ulps=4)
    whole = values(np.dtype("i"))
    whole = whole[np.abs(whole.astype(int)) < 2**31 - 10]  # rounded, these are no int32
    assert_equal(*both(task("round", whole.shape, 1, np.int32, decimals=-1), whole))
    assert_equal(*both(task("clip", whole.shape, 3, np.int32), whole, np.int32(-5), np.int32(9)))


@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "bhilBHILefd"], ids=str)
def test_iota_and_linspace(dtype: np.dtype) -> None:
    for start, step in ((0, 1), (3, 2), (0.1, 0.1), (-1.5, 0.3)):
        if dtype.kind in "iu" and isinstance(start, float):
            continue
        expected = np.arange(start, start + 49.5 * step, step, dtype)
        made = task("iota", expected.shape, 2, dtype, axis=0)
        for found in both(made, np.asarray(start), np.asarray(step)):
            np.testing.assert_array_equal(found, expected)
    for start, stop, count, endpoint in ((0, 1, 11, True), (0.1, 7.3, 50, True), (2, 3, 7, False), (5.0, 5.0, 4, True)):
        expected = np.linspace(start, stop, count, endpoint=endpoint, dtype=dtype)
        made = task("linspace", (count,), 2, dtype, endpoint=endpoint)
        for found in both(made, np.asarray(start), np.asarray(stop)):
            np.testing.assert_array_equal(found, expected)


def test_fill_and_eye_over_a_region() -> None:
    region = ((2, 5), (1, 7))
    for name, arrays, whole in (("fill", (np.asarray(2.5),), np.full((9, 9), 2.5)), ("eye", (), np.eye(9, k=1))):
        made = task(name, (9, 9), len(arrays), "d", k=1)
        found = kernel(name).generate(Context(made, region, region, jnp), *arrays)
        np.testing.assert_array_equal(found, whole[2:5, 1:7])
