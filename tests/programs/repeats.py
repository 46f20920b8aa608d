"""Repeats that become loops, against NumPy, on the ranks of this job: prints what is wrong, then OK.

Python loops within a function are rolled, and so are those outside; calls with a function's own results are batched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import recording, tracer, trips
from diffuse_trace.ir import Program
from diffuse_trace.runtime import execute

rng = numpy.random.default_rng(0)
wrong: list[str] = []


def same(name: str, got: Any, right: Any) -> None:
    one, other = (x if isinstance(x, tuple) else (x,) for x in (got, right))
    for n, (x, y) in enumerate(zip(one, other, strict=True)):
        if not numpy.allclose(numpy.asarray(x), y, rtol=1e-11, atol=1e-13):
            wrong.append(f"{name}, result {n}: {numpy.abs(numpy.asarray(x) - y).max()}")


#: Programs with what is not left to our own loops on every number of ranks: rolled axes, sums.
ROUNDED = {"last_trip_stands_alone", "one_store_in_two_roles_at_first", "rotate outside", "wave outside"}
ROUNDED |= {"some kept", "changing scalars", "scalars that begin to change", "nested", "reads"}


def equal(name: str, got: Any, right: Any) -> None:
    """To the last bit, but for what XLA computes: it may contract or reorder otherwise in another program."""
    near = 4 * numpy.finfo(float).eps if name in ROUNDED else 0.0
    one, other = (x if isinstance(x, tuple) else (x,) for x in (got, right))
    for n, (x, y) in enumerate(zip(one, other, strict=True)):
        x, y = numpy.asarray(x), numpy.asarray(y)
        if not numpy.allclose(x, y, rtol=near, atol=near, equal_nan=True):
            wrong.append(f"{name}, result {n}, rolled and not: {numpy.abs(x - y).max()}")


def expect(name: str, fact: bool, *details: Any) -> None:
    if not fact:
        wrong.append(f"{name}: {details}")


def laplacian(u: Any) -> Any:
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


# --- within a function: name -> (how many loops its program has, the function) -------------------

ROLLED: dict[str, tuple[int, Callable[..., Any]]] = {}


def loops(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        ROLLED[function.__name__] = count, function
        return function

    return enter


@loops(1)
def in_place(np, u):
    for _ in range(30):
        u[1:-1, 1:-1] += 0.1 * laplacian(u)
    return u.sum()


@loops(1)
def last_trip_stands_alone(np, u):
    for _ in range(30):
        v = u * 0.9 + np.roll(u, 1, 0) * 0.1
        u = v + 0.01 * v.max() - 0.001 * np.roll(u, 1, 1)
    return u, v


@loops(1)
def leapfrog(np, u):
    old = u.copy()
    for _ in range(31):
        u, old = 2 * u - old + 0.01 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) - 2 * u), u
    return u, old


@loops(1)
def one_store_in_two_roles_at_first(np, u):
    r = d = u * 1.0
    x, rr = np.zeros_like(u), (r * r).sum()
    for _ in range(12):
        q = 4 * d - np.roll(d, 1, 0) - np.roll(d, -1, 0)
        a = rr / (d * q).sum()
        x, r = x + a * d, r - a * q
        new = (r * r).sum()
        d, rr = r + (new / rr) * d, new
    return x, rr


@loops(2)
def two_loops(np, u):
    v = u * 0.5
    for _ in range(20):
        u[1:-1, 1:-1] += 0.1 * laplacian(u)
    for _ in range(20):
        v[1:-1, 1:-1] += 0.05 * laplacian(v)
    return u + v


@loops(0)
def changing_scalars(np, u):
    for k in range(30):
        u = u * (1 + 0.01 * k) + np.roll(u, 1, 0) * 0.1
    return u


@loops(0)
def every_trip_is_kept(np, u):
    found = []
    for _ in range(20):
        u = u * 0.9 + np.roll(u, 1, 0) * 0.1
        found.append(u)
    return tuple(found)


@loops(0)
def few_trips(np, u):
    for _ in range(4):
        u = u * 0.9 + np.roll(u, 1, 0) * 0.1
    return u


@contextmanager
def unrolled() -> Iterator[None]:
    """Functions that are traced within the block keep their repeats as they are."""
    roll, tracer.roll = tracer.roll, lambda *given: None  # type: ignore[assignment]
    try:
        yield
    finally:
        tracer.roll = roll


def rolled() -> None:
    for name, (count, function) in ROLLED.items():
        start = rng.random((13, 9))
        compiled = diffuse.jit(lambda u, function=function: function(np, u))
        mine, right = np.asarray(start.copy()), start.copy()
        regions = compiled.program(np.asarray(start)).regions
        expect(name, len(regions) == count, regions)
        for _ in range(2):
            same(name, compiled(mine), function(numpy, right))
            same(f"{name}, its argument", mine, right)
        with unrolled():
            plain = diffuse.jit(lambda u, function=function: function(np, u))
            expect(f"{name} unrolled", not plain.program(np.asarray(start)).regions)
            equal(name, compiled(np.asarray(start.copy())), plain(np.asarray(start.copy())))

    def trips(count: int) -> Any:
        def run(u):
            for _ in range(count):
                u[1:-1, 1:-1] += 0.1 * laplacian(u)

        return diffuse.jit(run).program(np.asarray(start))

    expect("plans do not depend on the trips", trips(30).key()[0] == trips(77).key()[0])


# --- between calls -------------------------------------------------------------------------------


def heat(np, u, dt):
    change = dt * laplacian(u)
    u[1:-1, 1:-1] += change
    return np.abs(change).max()


def rotate(np, u, v):
    return u + 0.1 * np.roll(v, 1, 0), v - 0.1 * np.roll(u, 1, 1), (u * v).sum()


def wave(np, u, v):
    return v, 2 * v - u + 0.01 * (np.roll(v, 1, 0) + np.roll(v, -1, 0) - 2 * v)


def jitted(function: Callable[..., Any]) -> Any:
    return diffuse.jit(lambda *given: function(np, *given))


def batched() -> None:
    tracer.patience = lambda trace: 3.0  # type: ignore[assignment]
    a, b = rng.random((13, 9)), rng.random((13, 9))

    f = jitted(heat)
    u, right = np.asarray(a.copy()), a.copy()
    for k in range(40):
        dt = 0.1 if k < 30 else 0.05
        change, exact = f(u, dt), heat(numpy, right, dt)
        if k % 11 == 10:
            same(f"heat {k}", change, exact)
    same("heat", (u, change), (right, exact))
    expect("heat is batched", any(t.repeats for t in f.traces))

    g = jitted(rotate)
    x, y = np.asarray(a.copy()), np.asarray(b.copy())
    state, plain = (x, y), (a.copy(), b.copy())
    kept = []
    for k in range(50):
        *state, total = g(*state)
        *plain, exact = rotate(numpy, *plain)
        if k in (7, 8, 30):
            kept.append((f"kept {k}", (state[0], total), (plain[0], exact)))
        if k % 13 == 12:
            same(f"rotate {k}", total, exact)
    same("rotate", tuple(state), tuple(plain))
    same("its first arguments", (x, y), (a, b))
    for found in kept:
        same(*found)
    expect("rotate is batched", any(t.repeats for t in g.traces))

    h = jitted(wave)
    state, plain = (np.asarray(a.copy()), np.asarray(b.copy())), (a.copy(), b.copy())
    for _ in range(50):
        state, plain = h(*state), wave(numpy, *plain)
    same("wave", state, plain)

    u, right = np.asarray(a.copy()), a.copy()
    total, exact = 0, 0
    for _ in range(40):
        f(u, 0.1)
        heat(numpy, right, 0.1)
        total, exact = total + u.sum(), exact + right.sum()
    same("other operations in between", total, exact)

    u, right = np.asarray(a.copy()), a.copy()
    for k in range(30):
        f(u, 0.1)
        heat(numpy, right, 0.1)
        if k == 20:
            u[3, 3], right[3, 3] = 1.0, 1.0
    same("an assignment in between", u, right)

    with diffuse.config.override(fuse="0"):
        pass
    h = jitted(heat)
    for _ in range(20):
        h(u, 0.1)
        with diffuse.config.override(fuse="1"):
            pass
    recording.flush()
    expect("settings that come and go", any(t.repeats for t in h.traces) and not any(t.patience > 3 for t in h.traces))

    with diffuse.config.override(batch=0):
        fresh = jitted(heat)
        for _ in range(20):
            fresh(u, 0.1)
        expect("DIFFUSE_BATCH=0", not any(t.repeats for t in fresh.traces))


def undecorated() -> None:
    """Trips of loops outside of functions are kept, and become loops."""
    trips.patience = lambda each: 3.0  # type: ignore[assignment]
    programs: list[Program] = []
    run = execute.run
    execute.run = lambda program, *rest: (programs.append(program), run(program, *rest))[1]
    a, b = rng.random((13, 9)), rng.random((13, 9))

    def compare(name: str, loops: bool, function: Callable[..., Any], trips: int = 90) -> None:
        programs.clear()
        exact = function(numpy, a.copy(), b.copy(), trips)
        got = function(np, np.asarray(a.copy()), np.asarray(b.copy()), trips)
        recording.flush()
        expect(f"{name} has loops", any(p.regions for p in programs) == loops, len(programs))
        if loops:
            most = max(len(p.tasks) for p in programs)
            again = function(np, np.asarray(a.copy()), np.asarray(b.copy()), 4 * trips)
            recording.flush()
            expect(f"{name}, tasks of a program", max(len(p.tasks) for p in programs) <= most + 2, most)
            same(f"{name}, longer", again, function(numpy, a.copy(), b.copy(), 4 * trips))
        same(name, got, exact)
        with diffuse.config.override(batch=0):
            equal(name, got, function(np, np.asarray(a.copy()), np.asarray(b.copy()), trips))

    def heats(np: Any, u: Any, v: Any, trips: int) -> Any:
        for _ in range(trips):
            u[1:-1, 1:-1] += 0.1 * laplacian(u)
        return u

    def rotates(np: Any, u: Any, v: Any, trips: int) -> Any:
        for _ in range(trips):
            u, v, total = rotate(np, u, v)
        return u, v, total

    def waves(np: Any, u: Any, v: Any, trips: int) -> Any:
        for _ in range(trips):
            u, v = wave(np, u, v)
        return u, v

    def keeps_some(np: Any, u: Any, v: Any, trips: int) -> Any:
        kept = []
        for k in range(trips):
            u = u + 0.1 * np.roll(u, 1, 0) * v - 0.05 * v - 0.2 * u
            if k % 20 == 7:
                kept.append(u)
        return (u, *kept)

    def steps_grow(np: Any, u: Any, v: Any, trips: int) -> Any:
        for k in range(trips):
            u = u + 0.001 * k * np.roll(u, 1, 0) * v - 0.05 * v
        return u

    def steps_change(np: Any, u: Any, v: Any, trips: int) -> Any:
        for k in range(trips):
            u = u + (0.1 if k < 40 else 0.001 * k) * np.roll(u, 1, 0) * v - 0.05 * v
        return u

    def nested(np: Any, u: Any, v: Any, trips: int) -> Any:
        for _ in range(trips // 10):
            for _ in range(12):
                u[1:-1, 1:-1] += 0.1 * laplacian(u)
            v = v + 0.1 * np.roll(u, 1, 0)
        return u, v

    def reads(np: Any, u: Any, v: Any, trips: int) -> Any:
        seen = []
        for k in range(trips):
            u = u + 0.1 * np.roll(u, 1, 0) * v - 0.05 * v - 0.2 * u
            if k % 17 == 16:
                seen.append(float(u.max()))
        return (u, *seen)

    compare("heat outside", True, heats)
    compare("rotate outside", True, rotates)
    compare("wave outside", True, waves)
    compare("some kept", True, keeps_some)
    compare("changing scalars", False, steps_grow)
    compare("scalars that begin to change", True, lambda *given: steps_change(*given[:3], 90))
    compare("nested", True, nested)
    compare("reads", True, reads)
    with diffuse.config.override(batch=0):
        compare("DIFFUSE_BATCH=0", False, lambda *given: heats(*given))
    execute.run = run


if __name__ == "__main__":
    rolled()
    batched()
    undecorated()
    print("\n".join(wrong) or "OK")
    sys.exit(bool(wrong))
