"""The seven applications as steps to be timed, whatever package they run on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import bicgstab
import black_scholes
import cg
import channel_flow
import jacobi
import multigrid
import poisson
import shallow_water
from running import Package

small = "--small" in sys.argv
Step = Callable[[], Any]


def options_pricing(p: Package) -> Step:
    given = black_scholes.inputs(p.np, 200_000 if small else 2_000_000)
    price = p.jit(lambda *a: black_scholes.prices(p.np, *a))
    return lambda: price(*given, 0.02, 0.3)


def dense_jacobi(p: Package) -> Step:
    a, diagonal, b = jacobi.system(p.np, 950 if small else 3000)
    advance = p.jit(lambda *s: jacobi.iterate(p.np, *s))
    state = [p.np.zeros(b.shape[0])]

    def step() -> None:
        state[0] = advance(a, diagonal, b, state[0])[0]

    return step


def krylov(module: Any) -> Callable[[Package], Step]:
    def make(p: Package) -> Step:
        size = 316 if small else 1000
        a = poisson.laplacian(p.sparse, size, 2)
        b = p.np.random.default_rng(3).random(size * size)
        advance = p.jit(lambda *s: module.iterate(p.np, a, *s))
        begin = cg.start if module is cg else bicgstab.start
        state = [begin(p.np, a, b)]

        def step() -> None:
            state[0] = advance(*state[0])

        return step

    return make


def geometric_multigrid(p: Package) -> Step:
    size = 255 if small else 1023
    levels = multigrid.hierarchy(p.sparse, size, 6)
    b = p.np.random.default_rng(4).random(size * size)
    advance = p.jit(lambda x: multigrid.cycle(p.np, levels, b, x, 2, 8))
    state = [p.np.zeros(size * size)]

    def step() -> None:
        state[0] = advance(state[0])

    return step


def channel(p: Package) -> Step:
    size = 160 if small else 512
    fields, h = channel_flow.fields(p.np, size), 2 / (size - 1)
    advance = p.jit(lambda u, v, q, dt, h: channel_flow.step(u, v, q, dt, h, 50))
    return lambda: advance(*fields, 0.1 * h * h / 0.4, h)


def shallow(p: Package) -> Step:
    depth, bed, dx, dy = shallow_water.dam(400 if small else 1600)
    fields = [p.np.asarray(f.copy()) for f in (depth, 0 * depth, 0 * depth)]
    ground, t = p.np.asarray(bed), p.np.asarray(0.0)
    advance = p.jit(lambda h, hu, hv, g, t: shallow_water.step(p.np, h, hu, hv, g, t, 1e9, dx, dy, 0.4))
    return lambda: advance(*fields, ground, t)


#: Each program, and how many steps are timed at once.
APPS: dict[str, tuple[Callable[[Package], Step], int]] = {
    "black_scholes": (options_pricing, 3),
    "jacobi": (dense_jacobi, 10),
    "cg": (krylov(cg), 20),
    "bicgstab": (krylov(bicgstab), 20),
    "multigrid": (geometric_multigrid, 5),
    "channel_flow": (channel, 5),
    "shallow_water": (shallow, 5),
}
