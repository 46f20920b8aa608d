"""Programs with loops and branches: in NumPy Python's own statements, here parts of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

Program = Callable[[Any, Callable[[Any], Any]], Any]

LOOPS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Enter a program."""
    LOOPS[function.__name__] = function
    return function


class Plain:
    """What the statements mean."""

    @staticmethod
    def fori_loop(lower: Any, upper: Any, body: Any, state: Any) -> Any:
        for i in range(int(lower), int(upper)):
            state = body(i, state)
        return state

    @staticmethod
    def while_loop(condition: Any, body: Any, state: Any) -> Any:
        while condition(state):
            state = body(state)
        return state

    @staticmethod
    def cond(predicate: Any, then: Any, otherwise: Any, *operands: Any) -> Any:
        return then(*operands) if predicate else otherwise(*operands)


def control(np: Any) -> Any:
    """Loops and branches for an array module."""
    if np is numpy:
        return Plain
    import diffuse_trace

    return diffuse_trace


def noise(*shape: int, seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).random(shape)


def laplacian(u: Any) -> Any:
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


@program
def heat_in_place(np, jit):
    def step(i, u):
        u[1:-1, 1:-1] += 0.1 * laplacian(u)
        return u

    @jit
    def run(u, trips):
        return control(np).fori_loop(0, trips, step, u)

    results = []
    for trips in (0, 1, 2, 5, 6):
        u = np.asarray(noise(17, 19))
        v = run(u, trips)
        results += [u.copy(), v[2:4].copy(), (v is u)]
    return results


@program
def heat_of_large_blocks(np, jit):
    # Large enough for buffers that are swapped from trip to trip.
    def step(i, u):
        u[1:-1, 1:-1] += 0.1 * laplacian(u)
        return u

    u = np.asarray(noise(150, 160))
    control(np).fori_loop(0, 5, step, u)
    control(np).fori_loop(0, 4, step, u)
    return u


@program
def relaxation_until_it_rests(np, jit):
    def sweep(state):
        u, _, k = state
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return new, np.abs(new - u).max(), k + 1

    @jit
    def run(u):
        return control(np).while_loop(lambda s: s[1] > 1e-2, sweep, (u, 1.0, 0))

    u = np.asarray(noise(12, 14))
    v, change, k = run(u)
    return u, v, float(change), int(k)


@program
def conjugate_gradients_of_a_stencil(np, jit):
    def apply(x):
        y = 2.5 * x
        y[1:] -= x[:-1]
        y[:-1] -= x[1:]
        return y

    def step(state):
        x, r, p, rr, k = state
        q = apply(p)
        alpha = rr / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        new = r @ r
        return x, r, r + (new / rr) * p, new, k + 1

    @jit
    def run(b):
        state = (np.zeros_like(b), b.copy(), b.copy(), b @ b, 0)
        return control(np).while_loop(lambda s: (s[3] > 1e-20) & (s[4] < 60), step, state)

    x, r, _, rr, k = run(np.asarray(noise(41)))
    return numpy.round(numpy.asarray(x), 8), int(k)


@program
def loops_in_loops(np, jit):
    def inner(j, state):
        u, total = state
        u[1:] += 0.5 * u[:-1]
        return u, total + u.sum() * j

    def outer(i, state):
        u, total = control(np).fori_loop(0, i + 1, inner, (state[0].copy(), state[1]))
        return u / 2, total + 1

    u, total = control(np).fori_loop(1, 4, outer, (np.asarray(noise(23)), 0.0))
    return u, float(total)


@program
def while_in_a_loop(np, jit):
    @jit
    def run(u):
        def outer(i, u):
            return control(np).while_loop(lambda v: v.max() > 1.0, lambda v: 0.5 * (v + np.roll(v, 1)) - 0.1, u + 1)

        return control(np).fori_loop(0, 3, outer, u)

    return run(np.asarray(noise(30)))


@program
def branches_that_update(np, jit):
    def grow(u):
        u[1:-1] += u[2:]
        return u.sum(), u[::-1]

    def shrink(u):
        u *= 0.5
        return u.max(), u + 1

    def trip(i, state):
        u, seen = state
        s, v = control(np).cond(u.sum() > 12.0, shrink, grow, u)
        return u, seen + s + v[0]

    u = np.asarray(noise(19))
    v, seen = control(np).fori_loop(0, 6, trip, (u, 0.0))
    return u, v, float(seen)


@program
def branches_of_what_is_around(np, jit):
    a, b = np.asarray(noise(9)), np.asarray(noise(9, seed=1))

    @jit
    def pick(a, b, flag):
        return control(np).cond(a[0] * flag > b[0] * flag, lambda: (a, b * 2), lambda: (b, a * 2))

    return [pick(a, b, 1.0), pick(a, b, -1.0), a, b]


@program
def arrays_from_around_the_loop(np, jit):
    u, log = np.asarray(noise(13)), np.zeros(13)
    weights = np.asarray(noise(13, seed=2))

    def body(i, k):
        log[...] = log + u * i
        u[1:-1] = 0.5 * (weights[:-2] * u[2:] + weights[2:] * u[:-2])
        return k + 2

    k = control(np).fori_loop(0, 5, body, 3)
    return u, log, int(k)


@program
def nested_state_and_wider_scalars(np, jit):
    def body(i, s):
        return {"a": (s["a"][0] + i, s["a"][1] * 1.5), "n": s["n"] + 0.25, "flag": s["a"][0].sum() > 20}

    start = {"a": (np.arange(5), np.ones(3, numpy.float32)), "n": 0, "flag": False}
    end = control(np).fori_loop(0, 4, body, start)
    return end["a"], float(end["n"]), bool(end["flag"])


@program
def fibonacci_of_arrays(np, jit):
    a, b = control(np).fori_loop(
        0, 7, lambda i, s: (s[1], s[0] + s[1]), (np.asarray(noise(11)), np.asarray(noise(11, seed=3)))
    )
    return a, b


@program
def a_view_as_state(np, jit):
    u = np.asarray(noise(10, 12))

    def body(i, v):
        v[:, 1:] += v[:, :-1]
        return v

    control(np).fori_loop(0, 3, body, u[2:-2, ::2])
    return u


@program
def coefficients_that_do_not_change(np, jit):
    k = np.asarray(noise(14, 15, seed=4))

    def body(i, u):
        flux = 0.5 * (k[1:, :] + k[:-1, :]) * (u[1:, :] - u[:-1, :])
        u[1:-1, :] += 0.1 * (flux[1:, :] - flux[:-1, :])
        return u

    return control(np).fori_loop(0, 4, body, np.asarray(noise(14, 15)))


@program
def a_matrix_in_a_loop(np, jit):
    @jit
    def run(a, x):
        def body(i, state):
            x, _ = state
            y = a @ x
            size = np.sqrt(y @ y)
            return y / size, size

        return control(np).fori_loop(0, 12, body, (x, 1.0))

    x, size = run(np.asarray(noise(21, 21)), np.ones(21))
    return x, float(size)


@program
def rows_and_columns_in_a_loop(np, jit):
    def body(i, a):
        return (a + a.T) / (1 + a.sum(axis=0)) + a.mean(axis=1)[:, None]

    return control(np).fori_loop(0, 3, body, np.asarray(noise(15, 15)))


@program
def few_cells(np, jit):
    def body(i, u):
        u[1:] += u[:-1]
        return u

    results = []
    for n in (0, 1, 2, 3):
        results.append(control(np).fori_loop(0, 3, body, np.asarray(noise(n))))
    return results


@program
def bounds_that_are_computed(np, jit):
    @jit
    def run(u, low, high):
        n = (u > 0.5).sum()
        return control(np).fori_loop(low, high + n, lambda i, s: s + i, u)

    u = np.asarray(noise(17))
    return run(u, 2, 3), run(u, -2, 1)


@program
def what_comes_after_a_loop(np, jit):
    @jit
    def run(u):
        v = control(np).fori_loop(0, 3, lambda i, v: v * 1.1 + 0.1 * i, u)
        w = v[2:] - v[:-2]
        z = control(np).fori_loop(0, 2, lambda i, z: z + w.sum(), v[1:-1] * 1.0)
        return w, z, u + v

    return run(np.asarray(noise(25)))


@program
def a_loop_in_a_loop_of_python(np, jit):
    u = np.asarray(noise(16))
    sums = []
    for n in range(4):
        u = control(np).fori_loop(0, n, lambda i, v: np.roll(v, 1) * 0.9 + 0.1, u)
        u[0] = n
        sums.append(u.sum())
    return u, [float(s) for s in sums]
