"""Hillslope diffusion of a real landscape: how soil creep smooths the Jacksboro fault in Tennessee.

    diffuse run -n 2 examples/hillslope.py --steps 2000 --check
    diffuse run -n 2 examples/hillslope.py --refine 8 --steps 500 --plot landscape.png

Elevation z (m) changes as dz/dt = D (d2z/dx2 + d2z/dy2), with the diffusivity D (m2/yr) of the soil.  The borders
keep their elevation.  Steps are explicit, 0.9 of the longest that is stable.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy

import diffuse_trace as diffuse
import diffuse_trace.numpy as np

DATA = Path(__file__).parent / "data" / "jacksboro_fault_dem.npz"


def step(z, along_x, along_y):
    """One step, in place; returns the largest change (m)."""
    middle = z[1:-1, 1:-1]
    change = along_x * (z[1:-1, :-2] - 2 * middle + z[1:-1, 2:]) + along_y * (z[:-2, 1:-1] - 2 * middle + z[2:, 1:-1])
    z[1:-1, 1:-1] += change
    return abs(change).max()


def load(refine: int) -> tuple[numpy.ndarray, float, float]:
    """Elevation (m) and the grid spacing along x and y (m), on a grid ``refine`` times finer (bilinear)."""
    with numpy.load(DATA) as file:
        elevation = file["elevation"].astype(float)
        latitude = math.radians(float(file["ymin"] + file["ymax"]) / 2)
        dx, dy = float(file["dx"]), float(file["dy"])
    metres = math.radians(6_371_000)  # of one degree along a meridian
    for axis in (0, 1):
        n = elevation.shape[axis]
        places = numpy.linspace(0, n - 1, (n - 1) * refine + 1)
        low = numpy.minimum(places.astype(int), n - 2)
        weight = (places - low).reshape([-1 if d == axis else 1 for d in (0, 1)])
        elevation = (1 - weight) * elevation.take(low, axis) + weight * elevation.take(low + 1, axis)
    return elevation, dx * metres * math.cos(latitude) / refine, dy * metres / refine


def run(advance, z, coefficients, steps: int, tol: float, every: int) -> tuple[int, float]:
    """Steps until ``steps``, or until one changes less than ``tol`` metres; returns their number and the last
    change."""
    done, largest = 0, math.inf
    while done < steps:
        change = advance(z, *coefficients)
        done += 1
        # Reading a value makes all ranks wait for it, so it is not done at every step.
        if done % every == 0 or done == steps:
            largest = float(change)
            if largest < tol:
                break
    return done, largest


def plot(path: str, before: numpy.ndarray, after: numpy.ndarray) -> None:
    """Save shaded relief before and after."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.colors import LightSource
    except ImportError:
        sys.exit("--plot needs matplotlib: pip install 'diffuse-trace[plot]'")
    light = LightSource(azdeg=315, altdeg=45)
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for ax, z, title in zip(axes, (before, after), ("before", "after")):
        ax.imshow(light.shade(z, plt.cm.gist_earth, vert_exag=0.1, blend_mode="soft"))
        ax.set_title(title)
        ax.set_axis_off()
    figure.savefig(path, dpi=120)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="steps at most (default 1000)")
    parser.add_argument("--tol", type=float, default=0.0, help="stop when a step changes no cell by more metres")
    parser.add_argument("--every", type=int, default=100, help="steps between looks at the change (default 100)")
    parser.add_argument("--diffusivity", type=float, default=0.01, help="of the soil, m2/yr (default 0.01)")
    parser.add_argument("--refine", type=int, default=1, help="divide the grid spacing by this integer")
    parser.add_argument("--check", action="store_true", help="compare with plain NumPy")
    parser.add_argument("--plot", metavar="FILE", help="save a picture of the land before and after")
    options = parser.parse_args()
    if min(options.steps, options.every, options.refine) < 1 or options.diffusivity <= 0:
        parser.error("--steps, --every and --refine must be at least 1, --diffusivity positive")
    return options


def main() -> None:
    options = arguments()
    elevation, dx, dy = load(options.refine)
    dt = 0.9 / (2 * options.diffusivity * (1 / dx**2 + 1 / dy**2))  # years
    coefficients = options.diffusivity * dt / dx**2, options.diffusivity * dt / dy**2
    print(f"{elevation.shape[0]} x {elevation.shape[1]} cells of {dx:.1f} m x {dy:.1f} m, steps of {dt:.0f} years")

    advance = diffuse.jit(step)
    z = np.asarray(elevation)
    advance(z.copy(), *coefficients)  # compiles
    start = time.perf_counter()
    done, largest = run(advance, z, coefficients, options.steps, options.tol, options.every)
    seconds = time.perf_counter() - start
    cells = elevation.size * done / seconds
    print(f"{done} steps ({done * dt / 1e6:.2f} million years) on {diffuse.ranks()} ranks in {seconds:.2f} s")
    print(f"{cells / 1e6:.0f} million cells a second, {cells * 16 / 1e9:.1f} GB/s; last largest change {largest:.2e} m")

    with diffuse.profile():
        spare = z.copy()
        for _ in range(20):
            advance(spare, *coefficients)

    result = numpy.asarray(z)
    if options.plot and diffuse.rank() == 0:
        plot(options.plot, elevation, result)
    if options.check:
        right = elevation.copy()
        start = time.perf_counter()
        run(step, right, coefficients, done, 0.0, options.every)
        factor = (time.perf_counter() - start) / seconds
        error = numpy.abs(result - right).max() / numpy.abs(right).max()
        print(f"plain NumPy took {factor:.1f} times as long; largest relative difference {error:.1e}")
        if not error < 1e-9:
            sys.exit("the results differ")


if __name__ == "__main__":
    main()
