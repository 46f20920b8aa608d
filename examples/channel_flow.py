"""Flow of an incompressible fluid through a periodic channel, driven by a constant force.

    diffuse run -n 2 examples/channel_flow.py --size 41 --steps 500 --check
    diffuse run -n 2 examples/channel_flow.py --size 1024 --steps 20 --dt 1e-7

Step 12 of Barba and Forsyth, *CFD Python: the 12 steps to Navier-Stokes equations* (2018): finite differences, and
a Poisson equation for the pressure, of which each step makes some Jacobi iterations.  Fields are y by x with a ghost
column at both ends, which repeats the column at the other end; the walls are the first and the last row.
"""

from __future__ import annotations

import math
import sys

import numpy
from running import Options, check, difference, package, picture, repeat

DENSITY, VISCOSITY, FORCE, LENGTH = 1.0, 0.1, 1.0, 2.0


def wrap(f):
    """Fill the ghost columns."""
    f[:, 0] = f[:, -2]
    f[:, -1] = f[:, 1]


def step(u, v, p, dt, h, iterations):
    """One time step, in place; returns how much the flow changes, relative to its sum.

    u, v: velocities; p: pressure; dt: time step; h: grid spacing; iterations: of the pressure.
    """
    inner, west, east = (slice(1, -1), slice(1, -1)), (slice(1, -1), slice(0, -2)), (slice(1, -1), slice(2, None))
    south, north = (slice(0, -2), slice(1, -1)), (slice(2, None), slice(1, -1))

    ux, uy = (u[east] - u[west]) / (2 * h), (u[north] - u[south]) / (2 * h)
    vx, vy = (v[east] - v[west]) / (2 * h), (v[north] - v[south]) / (2 * h)
    source = DENSITY * ((ux + vy) / dt - ux * ux - 2 * uy * vx - vy * vy)
    for _ in range(iterations):
        p[inner] = 0.25 * (p[east] + p[west] + p[north] + p[south] - h * h * source)
        p[0, :] = p[1, :]
        p[-1, :] = p[-2, :]
        wrap(p)

    un, vn = u[inner].copy(), v[inner].copy()
    total = u[:, 1:-1].sum()

    def advanced(f, along):
        centre = f[inner]
        transport = dt / h * (un * (centre - f[west]) + vn * (centre - f[south]))
        spread = VISCOSITY * dt / h**2 * (f[east] + f[west] + f[north] + f[south] - 4 * centre)
        return centre - transport - dt / (2 * DENSITY * h) * along + spread

    new_u = advanced(u, p[east] - p[west]) + FORCE * dt
    new_v = advanced(v, p[north] - p[south])
    u[inner] = new_u
    v[inner] = new_v
    wrap(u)
    wrap(v)
    after = u[:, 1:-1].sum()
    return (after - total) / after


def fields(np, size):
    """u, v and p at rest: ``size`` rows, ``size`` columns and two ghosts."""
    return tuple(np.zeros((size, size + 2)) for _ in range(3))


def main() -> None:
    parser = Options(__doc__, "compare with plain NumPy")
    parser.count("--size", 41, "points along each axis", least=4)
    parser.count("--steps", 500, "time steps at most")
    parser.count("--iterations", 50, "of the pressure in each step")
    parser.add_argument("--dt", type=float, help="time step; by default half of what is stable for the viscosity")
    parser.add_argument("--tol", type=float, default=0.0, help="stop where the flow changes by less, relatively")
    parser.count("--every", 50, "steps between looks at the change")
    options = parser.parse()
    h = LENGTH / (options.size - 1)
    limit = h * h / (4 * VISCOSITY)
    fastest = FORCE * LENGTH**2 / (8 * VISCOSITY)
    limit = min(limit, 1 / (4 * VISCOSITY / h**2 + 2 * fastest / h))
    dt = options.dt if options.dt is not None else 0.5 * limit
    if not 0 < dt <= limit:
        parser.error(
            f"--dt {dt:g} is not stable: 4 nu dt / h^2 + 2 u dt / h must be at most 1, so dt at most {limit:.3g}"
        )
    p = package(options.package)

    def compiled(u, v, pressure, dt, h):
        return step(u, v, pressure, dt, h, options.iterations)

    compiled = p.jit(compiled)
    u, v, pressure = fields(p.np, options.size)
    compiled(*(f.copy() for f in (u, v, pressure)), dt, h)  # compiles
    change = math.inf

    def advance(k):
        nonlocal change
        last = compiled(u, v, pressure, dt, h)
        if (k + 1) % options.every == 0 or k == options.steps - 1:
            change = float(last)
            return change < options.tol
        return False

    done = repeat(p, options.steps, advance)
    done.show(p, options.size**2)
    whole = tuple(numpy.asarray(f) for f in (u, v, pressure))
    print(f"t = {done.steps * dt:.3g}; fastest flow {whole[0].max():.4f}, last change {change:.1e}")
    if not all(numpy.isfinite(f).all() for f in whole):
        sys.exit("the flow is not finite any more: give a smaller --dt")
    if options.check:
        right = fields(numpy, options.size)
        for _ in range(done.steps):
            step(*right, dt, h, options.iterations)
        for name, f, r in zip("uvp", whole, right):
            check(f"{name} against NumPy", difference(f, r), 1e-10)
    if options.plot:

        def draw(figure, ax):
            y = numpy.linspace(0, LENGTH, options.size)
            steady = FORCE / (2 * VISCOSITY * DENSITY) * y * (LENGTH - y)
            ax.plot(whole[0][:, options.size // 2], y, label=f"t = {done.steps * dt:.3g}")
            ax.plot(steady, y, "--", label="steady")
            ax.set(xlabel="u", ylabel="y")
            ax.legend()

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
