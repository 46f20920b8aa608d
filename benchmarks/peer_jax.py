"""Three of the seven applications by hand in JAX, one `jax.jit` a step, on all cores: prints seconds a step.

    python peer_jax.py black_scholes|channel_flow|shallow_water SIZE STEPS

The arithmetic is that of `examples/`; updates in place are `.at[...].set(...)` and donated arguments, and the pressure
loop a `lax.fori_loop`, as one writes them.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import black_scholes
import channel_flow
import jax
import jax.numpy as jnp
import numpy
import shallow_water

jax.config.update("jax_enable_x64", True)


def pricing(size: int):
    """The prices of ``size`` options: a step, and its state."""
    given = [jnp.asarray(x) for x in black_scholes.inputs(numpy, size)]
    return jax.jit(lambda *a: black_scholes.prices(jnp, *a, 0.02, 0.3)), given, False


def channel(size: int, iterations: int = 50):
    """A step of the channel flow on ``size`` x ``size`` points."""
    h = 2 / (size - 1)
    dt = 0.1 * h * h / 0.4
    rho, nu, force = channel_flow.DENSITY, channel_flow.VISCOSITY, channel_flow.FORCE
    inner, east, west = (slice(1, -1), slice(1, -1)), (slice(1, -1), slice(2, None)), (slice(1, -1), slice(0, -2))
    north, south = (slice(2, None), slice(1, -1)), (slice(0, -2), slice(1, -1))

    def wrap(f):
        return f.at[:, 0].set(f[:, -2]).at[:, -1].set(f[:, 1])

    def step(u, v, p):
        du, dv = (u[east] - u[west]) / (2 * h), (v[north] - v[south]) / (2 * h)
        cross = (u[north] - u[south]) / (2 * h) * (v[east] - v[west]) / (2 * h)
        source = rho * ((du + dv) / dt - du * du - 2 * cross - dv * dv)

        def relax(_, p):
            p = p.at[inner].set(0.25 * (p[east] + p[west] + p[north] + p[south] - h * h * source))
            return wrap(p.at[0, :].set(p[1, :]).at[-1, :].set(p[-2, :]))

        p = jax.lax.fori_loop(0, iterations, relax, p)

        def advanced(f, along):
            centre = f[inner]
            transport = dt / h * (u[inner] * (centre - f[west]) + v[inner] * (centre - f[south]))
            spread = nu * dt / h**2 * (f[east] + f[west] + f[north] + f[south] - 4 * centre)
            return centre - transport - dt / (2 * rho * h) * along + spread

        total = u[:, 1:-1].sum()
        new_u = wrap(u.at[inner].set(advanced(u, p[east] - p[west]) + force * dt))
        new_v = wrap(v.at[inner].set(advanced(v, p[north] - p[south])))
        after = new_u[:, 1:-1].sum()
        return new_u, new_v, p, (after - total) / after

    state = [jnp.zeros((size, size + 2)) for _ in range(3)]
    return jax.jit(lambda u, v, p, *_: step(u, v, p), donate_argnums=(0, 1, 2)), state, True


def shallow(size: int):
    """A step of the dam break with ``size`` cells along the channel."""
    depth, bed, dx, dy = shallow_water.dam(size)
    own, dry, gravity = (slice(2, -2), slice(2, -2)), shallow_water.DRY, shallow_water.GRAVITY

    def surround(fields):
        made = []
        for f, odd_x, odd_y in zip(fields, (1, -1, 1), (1, 1, -1), strict=True):
            for ghost, cell in ((0, 3), (1, 2), (-1, -4), (-2, -3)):
                f = f.at[:, ghost].set(odd_x * f[:, cell])
            for ghost, cell in ((0, 3), (1, 2), (-1, -4), (-2, -3)):
                f = f.at[ghost, :].set(odd_y * f[cell, :])
            made.append(f)
        return made

    def step(h, hu, hv, bed, t):
        wet = h[own] > dry
        safe = jnp.where(wet, h[own], 1.0)
        wave = jnp.sqrt(gravity * jnp.where(wet, h[own], 0.0))
        u, v = (jnp.where(wet, f[own] / safe, 0.0) for f in (hu, hv))
        fastest = ((jnp.abs(u) + wave) / dx + (jnp.abs(v) + wave) / dy).max()
        dt = jnp.minimum(0.4 / jnp.maximum(fastest, 1e-12), jnp.maximum(1e9 - t, 0.0))
        before = [f[own] for f in (h, hu, hv)]
        for weight in (1.0, 0.5):
            rates = shallow_water.change(jnp, h, hu, hv, bed, dx, dy)
            fields = zip(before, (h, hu, hv), rates, strict=True)
            new = [(1 - weight) * old + weight * (f[own] + dt * r) for old, f, r in fields]
            deep = jnp.maximum(new[0], 0.0)
            moving = [jnp.where(deep > dry, q, 0.0) for q in new[1:]]
            h, hu, hv = surround(f.at[own].set(q) for f, q in zip((h, hu, hv), (deep, *moving), strict=True))
        return h, hu, hv, bed, t + dt

    state = [jnp.asarray(f) for f in (depth, 0 * depth, 0 * depth, bed, 0.0)]
    return jax.jit(step, donate_argnums=(0, 1, 2)), state, True


def main() -> None:
    """Time one of them."""
    make = {"black_scholes": pricing, "channel_flow": channel, "shallow_water": shallow}[sys.argv[1]]
    step, state, carries = make(int(sys.argv[2]))
    steps = int(sys.argv[3])
    times = []
    for round in range(6):  # the first compiles
        start = time.perf_counter()
        for _ in range(steps if round else 1):
            made = step(*state)
            state = made if carries else state
        jax.block_until_ready(made)
        times.append((time.perf_counter() - start) / steps)
    print(statistics.median(times[1:]))


if __name__ == "__main__":
    main()
