"""Waves in shallow water: the Saint-Venant equations with wet and dry cells over any bed.

    diffuse run -n 2 examples/shallow_water.py --case dam --size 400 --check
    diffuse run -n 2 examples/shallow_water.py --case strait --refine 4 --end 1800 --plot wave.png

Finite volumes of second order: minmod slopes, the HLL flux (Harten, Lax and van Leer, 1983), the well-balanced
treatment of the bed of Audusse et al. (2004), Heun's method in time.  Fields have two ghost cells around them.  The
dam breaks onto a wet bed, where Stoker's solution is exact; the strait is the real one west of Vancouver, with a hump
of water in it.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy
from running import Options, check, difference, package, picture, repeat

GRAVITY, DRY = 9.81, 1e-4  # m/s2, and the depth (m) below which a cell counts as dry
CFL_LIMIT = 0.5
DATA = Path(__file__).parent / "data" / "topobathy.npz"


def cut(axis, low, high):
    """The index of a part along ``axis``: from ``low`` to ``high`` from the end, all of the other axis' own cells."""
    along, across = slice(low, -high or None), slice(2, -2)
    return (across, along) if axis == 1 else (along, across)


def minmod(np, a, b):
    """The smaller of two slopes where they have one sign, else 0."""
    return np.where(a * b > 0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)


def sides(np, q, axis):
    """A field at the faces along ``axis``, from below and from above, with limited slopes."""
    before, here = q[cut(axis, 0, 3)], q[cut(axis, 1, 2)]
    after, beyond = q[cut(axis, 2, 1)], q[cut(axis, 3, 0)]
    low = here + 0.5 * minmod(np, here - before, after - here)
    high = after - 0.5 * minmod(np, after - here, beyond - after)
    return low, high


def fluxes(np, depth, along, across, bed, axis):
    """What the faces along ``axis`` let through: mass, momentum along (as each side sees it), and across.

    Also the depth and the bed on both sides, for the force of the bed within a cell.
    """
    (hl, hr), (ul, ur), (vl, vr) = sides(np, depth, axis), sides(np, along, axis), sides(np, across, axis)
    el, er = sides(np, depth + bed, axis)
    hl, hr = np.maximum(hl, 0.0), np.maximum(hr, 0.0)
    bl, br = el - hl, er - hr
    top = np.maximum(bl, br)
    dl, dr = np.maximum(el - top, 0.0), np.maximum(er - top, 0.0)  # depth above the higher bed
    cl, cr = np.sqrt(GRAVITY * dl), np.sqrt(GRAVITY * dr)
    sl = np.minimum(np.minimum(ul - cl, ur - cr), 0.0)
    sr = np.maximum(np.maximum(ul + cl, ur + cr), 0.0)
    width = np.maximum(sr - sl, 1e-12)
    ml, mr = dl * ul, dr * ur

    def hll(fl, fr, ql, qr):
        return (sr * fl - sl * fr + sl * sr * (qr - ql)) / width

    mass = hll(ml, mr, dl, dr)
    momentum = hll(ml * ul + 0.5 * GRAVITY * dl * dl, mr * ur + 0.5 * GRAVITY * dr * dr, ml, mr)
    side = np.where(mass > 0, vl, vr) * mass
    below = momentum + 0.5 * GRAVITY * (hl * hl - dl * dl)
    above = momentum + 0.5 * GRAVITY * (hr * hr - dr * dr)
    return mass, below, above, side, (hl, bl), (hr, br)


def change(np, h, hu, hv, bed, dx, dy):
    """The rates of change of the own cells' depth (m/s) and momenta (m2/s2)."""
    wet = h > DRY
    safe = np.where(wet, h, 1.0)
    u, v = np.where(wet, hu / safe, 0.0), np.where(wet, hv / safe, 0.0)
    rates = [0.0, 0.0, 0.0]
    for axis, spacing, along, across in ((1, dx, u, v), (0, dy, v, u)):
        mass, below, above, side, (hl, bl), (hr, br) = fluxes(np, h, along, across, bed, axis)
        first, last = (slice(None), slice(0, -1)), (slice(None), slice(1, None))
        if axis == 0:
            first, last = first[::-1], last[::-1]
        # Within a cell: from the upper side of its first face to the lower side of its last.
        slope = 0.5 * GRAVITY * (hr[first] + hl[last]) * (br[first] - bl[last])
        one, other = (1, 2) if axis == 1 else (2, 1)
        rates[0] = rates[0] - (mass[last] - mass[first]) / spacing
        rates[one] = rates[one] - (below[last] - above[first] - slope) / spacing
        rates[other] = rates[other] - (side[last] - side[first]) / spacing
    return rates


def surround(h, hu, hv):
    """Fill the ghost cells: walls that reflect."""
    for f, odd_x, odd_y in ((h, 1, 1), (hu, -1, 1), (hv, 1, -1)):
        for ghost, own in ((0, 3), (1, 2), (-1, -4), (-2, -3)):
            f[:, ghost] = odd_x * f[:, own]
        for ghost, own in ((0, 3), (1, 2), (-1, -4), (-2, -3)):
            f[ghost, :] = odd_y * f[own, :]


def step(np, h, hu, hv, bed, t, end, dx, dy, cfl):
    """One step, in place, at most up to the time ``end``; returns the new time."""
    own = (slice(2, -2), slice(2, -2))
    wet = h[own] > DRY
    safe = np.where(wet, h[own], 1.0)
    wave = np.sqrt(GRAVITY * np.where(wet, h[own], 0.0))
    u, v = np.where(wet, hu[own] / safe, 0.0), np.where(wet, hv[own] / safe, 0.0)
    fastest = ((np.abs(u) + wave) / dx + (np.abs(v) + wave) / dy).max()
    dt = np.minimum(cfl / np.maximum(fastest, 1e-12), np.maximum(end - t, 0.0))
    before = [f[own].copy() for f in (h, hu, hv)]
    for weight in (1.0, 0.5):
        rates = change(np, h, hu, hv, bed, dx, dy)
        new = [(1 - weight) * old + weight * (f[own] + dt * r) for old, f, r in zip(before, (h, hu, hv), rates)]
        depth = np.maximum(new[0], 0.0)
        h[own] = depth
        hu[own] = np.where(depth > DRY, new[1], 0.0)
        hv[own] = np.where(depth > DRY, new[2], 0.0)
        surround(h, hu, hv)
    return t + dt


# --- the two cases -------------------------------------------------------------------------------


def padded(f):
    """A field with two ghost cells around it."""
    return numpy.pad(f, 2, mode="edge")


def dam(size):
    """A dam at x = 0 between 2 m and 1 m of water, in a channel of 100 m by 10 m: depth, bed, dx, dy."""
    depth = numpy.where(numpy.arange(size) < size // 2, 2.0, 1.0) * numpy.ones((max(4, size // 10), 1))
    return padded(depth), padded(0 * depth), 100 / size, 10 / depth.shape[0]


def stoker(x, t, left=2.0, right=1.0):
    """Stoker's solution (1957) for a dam at x = 0 that breaks onto a wet bed: the depth."""
    cl, cr = math.sqrt(GRAVITY * left), math.sqrt(GRAVITY * right)

    def mismatch(c):  # of the velocities behind the rarefaction and behind the shock
        h = c * c / GRAVITY
        return 2 * (cl - c) - (h - right) * math.sqrt(GRAVITY * (h + right) / (2 * h * right))

    low, high = cr, cl
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if mismatch(middle) > 0 else (low, middle)
    c = low
    h = c * c / GRAVITY
    u = 2 * (cl - c)
    shock = h * u / (h - right)
    fan = (2 * cl - x / t) ** 2 / (9 * GRAVITY)
    return numpy.select([x <= -cl * t, x <= (u - c) * t, x <= shock * t], [left, fan, h], right)


def strait(refine):
    """The sea west of Vancouver, at rest but for a hump (m): depth, bed, dx, dy."""
    with numpy.load(DATA) as file:
        bed = file["topo"].astype(float)
        longitude, latitude = file["longitude"], file["latitude"]
    for axis in (0, 1):
        n = bed.shape[axis]
        places = numpy.linspace(0, n - 1, n * refine)
        low = numpy.minimum(places.astype(int), n - 2)
        weight = (places - low).reshape([-1 if d == axis else 1 for d in (0, 1)])
        bed = (1 - weight) * bed.take(low, axis) + weight * bed.take(low + 1, axis)
    metres = math.radians(6_371_000)
    dy = metres * float(latitude[-1] - latitude[0]) / bed.shape[0]
    dx = metres * float(longitude[-1] - longitude[0]) * math.cos(math.radians(float(latitude.mean()))) / bed.shape[1]
    depth = numpy.maximum(-bed, 0.0)
    y, x = numpy.indices(bed.shape)
    deep = numpy.unravel_index(numpy.argmax(depth), depth.shape)
    hump = 5.0 * numpy.exp(-(((x - deep[1]) * dx) ** 2 + ((y - deep[0]) * dy) ** 2) / 15_000.0**2)
    return padded(numpy.where(depth > 0, depth + hump, 0.0)), padded(bed), dx, dy


def options_of() -> tuple[Options, object]:
    """The command line."""
    parser = Options(__doc__, "dam: compare with Stoker's solution; strait: with plain NumPy, and a sea at rest")
    parser.add_argument("--case", choices=("dam", "strait"), default="dam")
    parser.count("--size", 400, "cells along the dam's channel", least=8)
    parser.count("--refine", 2, "divide the spacing of the strait's cells by this")
    parser.add_argument("--end", type=float, help="time to simulate, s (default 5 for the dam, 1200 for the strait)")
    parser.count("--steps", 10**6, "steps at most")
    parser.add_argument("--cfl", type=float, default=0.4, help=f"Courant number, at most {CFL_LIMIT} (default 0.4)")
    parser.count("--every", 20, "steps between looks at the time")
    options = parser.parse()
    if not 0 < options.cfl <= CFL_LIMIT:
        parser.error(f"--cfl {options.cfl:g} is not stable: it must be above 0 and at most {CFL_LIMIT}")
    if options.end is None:
        options.end = 5.0 if options.case == "dam" else 1200.0
    if not options.end > 0:
        parser.error("--end must be positive")
    return parser, options


def main() -> None:
    _, options = options_of()
    p = package(options.package)
    depth, bed, dx, dy = dam(options.size) if options.case == "dam" else strait(options.refine)
    rows, columns = depth.shape[0] - 4, depth.shape[1] - 4
    print(f"{rows} x {columns} cells of {dy:.2f} m x {dx:.2f} m, up to t = {options.end:g} s")

    def on(np, jit, depth, steps=options.steps, progress=False):
        """Simulate; the fields, the time, and what it took."""
        fields = [np.asarray(f.copy()) for f in (depth, 0 * depth, 0 * depth)]
        ground, t = np.asarray(bed), np.asarray(0.0)
        advance = jit(lambda h, hu, hv, ground, t: step(np, h, hu, hv, ground, t, options.end, dx, dy, options.cfl))
        advance(*(f.copy() for f in fields), ground, t)  # compiles

        def one(k):
            nonlocal t
            t = advance(*fields, ground, t)
            return (k + 1) % options.every == 0 and float(t) >= options.end

        done = repeat(p, steps, one)
        return [numpy.asarray(f)[2:-2, 2:-2] for f in fields], float(t), done

    (h, hu, hv), t, done = on(p.np, p.jit, depth)
    done.show(p, rows * columns)
    area = dx * dy
    before = depth[2:-2, 2:-2].sum() * area
    print(f"t = {t:.4g} s; water {h.sum() * area:.6g} m3, changed by {abs(h.sum() * area / before - 1):.1e}")
    if not numpy.isfinite(h).all():
        sys.exit("the depth is not finite any more: give a smaller --cfl")
    x = (numpy.arange(columns) + 0.5) * dx - 50
    if options.check and options.case == "dam":
        exact = stoker(x, t)
        check("mean error against Stoker's solution, m", float(numpy.abs(h - exact).mean()), 5 / options.size)
    if options.check:
        (right, _, _), _, _ = on(numpy, lambda f: f, depth, steps=done.steps)
        check("depth against NumPy", difference(h, right), 1e-9)
    if options.check and options.case == "strait":
        rest = padded(numpy.maximum(-bed, 0.0)[2:-2, 2:-2])
        (still, u, v), _, _ = on(p.np, p.jit, rest, steps=20)
        check("a sea at rest stays so, momentum in m2/s", float(max(numpy.abs(u).max(), numpy.abs(v).max())), 1e-8)
    if options.plot:

        def draw(figure, ax):
            if options.case == "dam":
                ax.plot(x, h[rows // 2], label="computed")
                ax.plot(x, stoker(x, t), "--", label="Stoker")
                ax.set(xlabel="x, m", ylabel="depth, m", title=f"t = {t:.3g} s")
                ax.legend()
            else:
                level = numpy.ma.masked_where(h <= DRY, h + bed[2:-2, 2:-2])
                ax.imshow(bed[2:-2, 2:-2], cmap="gist_earth", origin="lower")
                shown = ax.imshow(level, cmap="RdBu_r", vmin=-1, vmax=1, origin="lower")
                figure.colorbar(shown, ax=ax, label="surface, m")
                ax.set_title(f"t = {t:.0f} s")

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
