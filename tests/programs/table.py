"""Named programs with NumPy's right answers: each takes a NumPy-like module and a decorator, and returns its results.

``run(np, jit)`` with `numpy` itself and no decorator is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

Program = Callable[[Any, Callable[[Any], Any]], Any]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Add a program to the table."""
    PROGRAMS[function.__name__] = function
    return function


def noise(*shape: int, seed: int = 0) -> numpy.ndarray:
    """Numbers in [0, 1), the same on every rank."""
    return numpy.random.default_rng(seed).random(shape)


# --- stencils and time steps ---------------------------------------------------------------------


@program
def hillslope(np, jit):
    @jit
    def step(u, rate):
        change = rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        u[1:-1, 1:-1] += change
        return np.abs(change).max()

    u = np.asarray(noise(23, 17))
    changes = [step(u, 0.2) for _ in range(4)]
    return u, changes


@program
def jacobi(np, jit):
    @jit
    def sweep(u):
        v = u.copy()
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return v, np.sqrt(((v - u) ** 2).sum())

    u = np.zeros((14, 19))
    u[0] = 1.0
    u[:, -1] = np.linspace(0, 1, 14)
    residuals = []
    for _ in range(5):
        u, residual = sweep(u)
        residuals.append(residual)
    return u, residuals


@program
def heat_1d_of_few_elements(np, jit):
    @jit
    def step(u):
        u[1:-1] = 0.5 * (u[2:] + u[:-2])

    results = []
    for n in (3, 4, 5, 8):
        u = np.asarray(noise(n))
        for _ in range(3):
            step(u)
        results.append(u)
    return results


@program
def heat_3d(np, jit):
    @jit
    def step(u, k):
        middle = u[1:-1, 1:-1, 1:-1]
        around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        around = around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        u[1:-1, 1:-1, 1:-1] = middle + k * (around - 6 * middle)
        u[0] = u[1]
        u[:, -1] = u[:, -2]

    u = np.asarray(noise(7, 9, 8))
    for _ in range(3):
        step(u, 0.1)
    return u, u.sum(axis=0), u.mean()


@program
def wave(np, jit):
    @jit
    def step(u, v, dt):
        v[1:-1, 1:-1] += dt * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
        u += dt * v
        return 0.5 * (v * v).sum()

    u, v = np.asarray(noise(12, 12)), np.zeros((12, 12))
    energies = [step(u, v, dt) for dt in (0.1, 0.2, 0.1, 0.05)]
    return u, v, energies


@program
def wide_stencil(np, jit):
    @jit
    def step(u):
        u[2:-2] = (-u[:-4] + 16 * u[1:-3] - 30 * u[2:-2] + 16 * u[3:-1] - u[4:]) / 12

    results = []
    for n in (6, 11, 40):
        u = np.asarray(noise(n))
        step(u)
        step(u)
        results.append(u)
    return results


@program
def gray_scott(np, jit):
    def laplacian(a):
        return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]

    @jit
    def step(u, v):
        inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
        reaction = inner_u * inner_v**2
        du = 0.16 * laplacian(u) - reaction + 0.06 * (1 - inner_u)
        dv = 0.08 * laplacian(v) + reaction - 0.122 * inner_v
        u[1:-1, 1:-1] = inner_u + du
        v[1:-1, 1:-1] = inner_v + dv
        for a in (u, v):
            a[0], a[-1] = a[-2], a[1]
            a[:, 0], a[:, -1] = a[:, -2], a[:, 1]

    u, v = np.ones((13, 15)), np.zeros((13, 15))
    u[4:9, 5:10], v[4:9, 5:10] = 0.5, 0.25
    for _ in range(4):
        step(u, v)
    return u, v


@program
def periodic_advection(np, jit):
    @jit
    def step(q, c):
        return q - c * (q - np.roll(q, 1, axis=0)) - c * (q - np.roll(q, 1, axis=1))

    q = np.asarray(noise(9, 10))
    for _ in range(3):
        q = step(q, 0.3)
    return q, q.sum()


@program
def life(np, jit):
    @jit
    def step(cells):
        n = sum(np.roll(np.roll(cells, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        return ((n == 3) | ((cells == 1) & (n == 2))).astype(np.int8)

    cells = np.asarray((noise(11, 12) > 0.6).astype(numpy.int8))
    for _ in range(3):
        cells = step(cells)
    return cells, cells.sum()


@program
def red_black(np, jit):
    @jit
    def sweep(u):
        u[1:-1:2] = 0.5 * (u[:-2:2] + u[2::2])
        u[2:-1:2] = 0.5 * (u[1:-2:2] + u[3::2])

    u = np.asarray(noise(21))
    for _ in range(3):
        sweep(u)
    return u


@program
def boundary_copies(np, jit):
    @jit
    def fix(p):
        p[0, :] = p[1, :]
        p[:, -1] = p[:, -2]
        p[-1, 1:-1] = 2 * p[-2, 1:-1] - p[-3, 1:-1]
        p[:, 0] = p[:, -1]

    p = np.asarray(noise(6, 9))
    fix(p)
    fix(p)
    return p


@program
def three_updates_of_a_small_square(np, jit):
    @jit
    def add(f):
        f[1:-1, 1:-1] += 1

    f = np.zeros((3, 3))
    for _ in range(3):
        add(f)
    return f


# --- aliasing ------------------------------------------------------------------------------------


@program
def shifts_onto_itself(np, jit):
    @jit
    def right(a):
        a[1:] = a[:-1]

    @jit
    def left(a):
        a[:-1] = a[1:]

    a, b = np.arange(8.0), np.arange(8.0)
    right(a)
    left(b)
    return a, b


@program
def prefix_is_not_summed(np, jit):
    @jit
    def f(u):
        u[1:] += u[:-1]

    results = []
    for n in (6, 1000):
        u = np.ones(n)
        f(u)
        results.append(u)
    return results


@program
def column_from_its_neighbour(np, jit):
    @jit
    def f(p):
        p[1:-1, -1] = p[1:-1, -2]

    p = np.asarray(numpy.arange(25.0).reshape(5, 5))
    f(p)
    return p


@program
def transposed_onto_itself(np, jit):
    @jit
    def f(x):
        x += x.T

    x = np.array([[1, 2], [3, 4]])
    y = np.asarray(noise(5, 5))
    f(x)
    f(y)
    return x, y


@program
def old_values_are_read(np, jit):
    @jit
    def f(a, b):
        b[1:-1] = a[2:] - a[:-2]
        a[:] = -1

    a, b = np.asarray(noise(12)), np.zeros(12)
    for k in range(5):
        f(a, b)
        a += k
    return a, b


@program
def views_of_views(np, jit):
    @jit
    def f(a):
        v = a[::2][1:]
        w = a[::-1]
        v += 10
        w[:3] *= 2
        return v.sum(), w[::3]

    a = np.arange(17.0)
    return f(a), f(a), a


@program
def same_array_twice(np, jit):
    @jit
    def f(u, v):
        u[1:] += v[:-1]
        return v.sum()

    u = np.arange(9.0)
    w = np.arange(9.0)
    return f(u, u), f(u, w), u, w


# --- reductions and statistics -------------------------------------------------------------------


@program
def statistics(np, jit):
    @jit
    def f(x):
        return (
            x.mean(),
            x.std(),
            x.var(axis=0),
            x.min(axis=1),
            x.max(),
            x.sum(axis=(0, 1)),
            np.argmax(x),
            x.argmin(axis=1),
        )

    return f(np.asarray(noise(7, 11))), f(np.asarray(noise(30, 4, seed=1)))


@program
def normalise(np, jit):
    @jit
    def f(a):
        return (a - a.mean(axis=0)) / a.std(axis=0), a / a.sum(), a / a.sum(axis=1, keepdims=True)

    return f(np.asarray(noise(9, 5)))


@program
def integers_and_flags(np, jit):
    @jit
    def f(a):
        return a.sum(), a.prod(), a.max(), (a > 3).any(), (a > 3).all(), np.count_nonzero(a > 3), a // 3, a % 3, -a

    return f(np.arange(10)), f(np.asarray((noise(4, 6) * 9).astype(numpy.int16)))


@program
def nans(np, jit):
    @jit
    def f(a):
        return a.max(), a.min(), np.nansum(a), np.nanmax(a), np.isnan(a), np.nanmean(a)

    a = noise(13)
    a[5] = numpy.nan
    return f(np.asarray(a)), f(np.asarray(noise(13)))


@program
def columns_of_ones(np, jit):
    @jit
    def f(a):
        return a.max(), a.argmax(), a.sum(), a.mean()

    return f(np.ones((3, 3)))


@program
def empty_arrays(np, jit):
    @jit
    def f(x):
        x[9:9] = 1
        return x[10:10], x[10:10].sum(), x[3:3] + 1, x[4:4].prod()

    return f(np.zeros(10)), np.zeros((0, 3)).sum(axis=0), np.zeros((3, 0)).sum(axis=1)


@program
def conjugate_gradients(np, jit):
    def apply(x):
        y = 4 * x
        y[1:] -= x[:-1]
        y[:-1] -= x[1:]
        y[:, 1:] -= x[:, :-1]
        y[:, :-1] -= x[:, 1:]
        return y

    @jit
    def iterate(x, r, p, rr):
        q = apply(p)
        alpha = rr / (p * q).sum()
        x += alpha * p
        r -= alpha * q
        new = (r * r).sum()
        p[:] = r + (new / rr) * p
        return new

    b = np.asarray(noise(8, 9))
    x, r, p = np.zeros((8, 9)), b.copy(), b.copy()
    rr = (r * r).sum()
    history = []
    for _ in range(6):
        rr = iterate(x, r, p, rr)
        history.append(rr)
    return x, history


@program
def power_iteration(np, jit):
    @jit
    def step(a, x):
        y = a @ x
        return y / np.linalg.norm(y), x @ y

    a, x = np.asarray(noise(8, 8)), np.ones(8)
    values = []
    for _ in range(4):
        x, value = step(a, x)
        values.append(value)
    return x, values, a @ a.T, np.dot(x, x)


# --- elementwise chains and the rest -------------------------------------------------------------


@program
def black_scholes(np, jit):
    def cdf(x):
        return 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    @jit
    def price(s, k, t, r, sigma):
        d1 = (np.log(s / k) + (r + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
        d2 = d1 - sigma * np.sqrt(t)
        call = s * cdf(d1) - k * np.exp(-r * t) * cdf(d2)
        return call, call - s + k * np.exp(-r * t)

    s, k, t = (np.asarray(noise(50, seed=n) + 0.5) for n in range(3))
    return price(s, k, t, 0.05, 0.2), price(s, k, t, 0.01, 0.3)


@program
def choices(np, jit):
    @jit
    def f(a, b):
        c = np.where(a > b, a, -b)
        c[c < 0] = 0
        a[a > 0.5] *= 2
        return c, np.clip(a, 0.2, 0.8), np.maximum(a, b), np.sign(a - b)

    a, b = np.asarray(noise(6, 7)), np.asarray(noise(6, 7, seed=1))
    return f(a, b), a


@program
def broadcasting(np, jit):
    @jit
    def f(a, row, column):
        a *= row
        return a + column[:, np.newaxis], row * column[:, None], a[:, 0] - column, a - a[0]

    return f(np.asarray(noise(5, 6)), np.arange(6.0), np.arange(5.0))


@program
def joining(np, jit):
    @jit
    def f(a, b):
        c = np.concatenate([a, b, a[:2]])
        return c, np.stack([a[:3], b[:3]]), np.pad(a, 2), np.tile(b, 2), np.flip(c), np.roll(a, -3), np.diff(c)

    return f(np.arange(7.0), np.asarray(noise(5)))


@program
def types(np, jit):
    @jit
    def f(x32, x64, i, flags):
        return x32 * 2.0, x32 + x64, i / 2, i + x32, flags + 1, flags & True, x64.astype(np.int32), i * 1j

    return f(np.ones(4, np.float32), np.asarray(noise(4)), np.arange(4), np.arange(4) > 1)


@program
def repeated_in_python(np, jit):
    @jit
    def f(x):
        for _ in range(200):
            x = x + 1
        return x

    return f(np.arange(10.0)), f(np.zeros((4, 4)))


@program
def scalars_and_trees(np, jit):
    @jit
    def f(state, factor):
        state["a"] += factor
        return {"total": state["a"].sum() * factor, "both": [state["a"], (factor * 2, state["b"] - factor)]}

    state = {"a": np.arange(6.0), "b": np.ones((2, 3))}
    return f(state, 2), f(state, 3), f(state, 0.5), state


@program
def single_elements(np, jit):
    @jit
    def f(u, k):
        s = u[3] * k
        u[7] = s + u[0]
        u[-1] = 5
        u[2] += 1
        return s, u[3].sum(), u[9:].max(), u[6].min()

    u = np.arange(11.0)
    v = np.asarray(noise(4, 5))
    v[2, 3] = v[0, 0] * 2
    return f(u, 2.0), f(u, 3.0), u, v, float(v[1, 1]), float(u[7])


@program
def masked_updates(np, jit):
    @jit
    def f(a, b, m):
        a[m] *= 2
        a[b > 0.5] = a[b > 0.5] if False else 0.25
        low = b < 0.3
        b[low] = a[low] + b[low] ** 2
        total = a[low].sum()
        b[low] -= 1
        return total, b

    a, b = np.asarray(noise(6, 7)), np.asarray(noise(6, 7, seed=1))
    return f(a, b, a > 0.5), f(a, b, a > 0.7), a
