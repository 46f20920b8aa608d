"""The five-point step on n x n float64: how near to the bandwidth limit, and against its peers.

    diffuse run -n 1 benchmarks/bench_stencil.py 4000
    diffuse run -n 2 benchmarks/bench_stencil.py 4000

Peers run under the same conditions: one process a rank, one core each.  NumPy and hand-written JAX get a slab of the
array on each rank and do not exchange halos, which favours them.  GB/s count one read and one write of the array.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy
from common import copying, medians, report, scaling
from jax import lax

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import config, recording

n = next((int(a) for a in sys.argv[1:] if a.isdigit()), 4000)
ranks = diffuse.ranks()
rows = n // ranks
repeats, STEPS = (7 if n > 1000 else 21), 10


def step(u, rate):
    change = rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    u[1:-1, 1:-1] += change


def in_jax():
    """The same step as a JAX programmer writes it who knows how: shifted blocks, a select, a donated buffer."""

    def shifted(g, di, dj):
        part = g[max(di, 0) : g.shape[0] + min(di, 0), max(dj, 0) : g.shape[1] + min(dj, 0)]
        edges = ((max(-di, 0), max(di, 0), 0), (max(-dj, 0), max(dj, 0), 0))
        return lax.pad(part, jnp.zeros((), g.dtype), edges)

    def kernel(g, spare, rate):
        i = lax.broadcasted_iota(jnp.int32, g.shape, 0)
        j = lax.broadcasted_iota(jnp.int32, g.shape, 1)
        inside = (i > 0) & (i < g.shape[0] - 1) & (j > 0) & (j < g.shape[1] - 1)
        around = shifted(g, -1, 0) + shifted(g, 1, 0) + shifted(g, 0, -1) + shifted(g, 0, 1)
        return jnp.where(inside, g + rate * (around - 4 * g), g)

    compiled = jax.jit(kernel, donate_argnums=1, keep_unused=True)
    pair = [jnp.ones((rows, n)), jnp.ones((rows, n))]

    def run():
        pair[:] = compiled(*pair, 0.2), pair[0]
        pair[0].block_until_ready()

    return run


def plainly_in_jax():
    """The step in JAX as it is usually written, with ``at[].set`` on a donated array."""

    @jax.jit
    def kernel(g, rate):
        change = rate * (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:] - 4 * g[1:-1, 1:-1])
        return g.at[1:-1, 1:-1].add(change)

    state = [jnp.ones((rows, n))]

    def run():
        state[0] = kernel(state[0], 0.2).block_until_ready()

    return run


def ours(decorated: bool, fuse: str = "1"):
    advance = diffuse.jit(step) if decorated else step
    u = np.ones((n, n))
    recording.flush()

    def run():
        with config.override(fuse=fuse):
            for _ in range(STEPS):
                advance(u, 0.2)
            recording.flush()

    return run


slab = numpy.ones((rows, n))
whole = numpy.ones((n, n)) if diffuse.rank() == 0 else None


def in_numpy() -> None:
    """The program as it is: NumPy uses one core, whatever there is."""
    if whole is not None:
        step(whole, 0.2)


subjects = {
    "stream copy": copying((rows, n)),
    "stream scale": scaling((rows, n)),
    "decorated": ours(True),
    "undecorated": ours(False),
    "unfused": ours(True, "0"),
    "numpy": in_numpy,
    "numpy, a process a core": lambda: step(slab, 0.2),
    "jax, by an expert": in_jax(),
    "jax, as usual": plainly_in_jax(),
}
times = medians(subjects, repeats)
for name in ("decorated", "undecorated", "unfused"):
    times[name] /= STEPS
gbs = {name: 16 * n * n / t / 1e9 for name, t in times.items()}
limit = 0.9 if ranks == 1 else 0.85
report(
    f"five-point step, {n} x {n} float64, {ranks} rank{'s'[: ranks > 1]}",
    [(name, f"{t * 1e3:9.3f} ms {gbs[name]:7.1f} GB/s") for name, t in times.items()],
    [
        ("decorated / stream copy", gbs["decorated"] / gbs["stream copy"], ">=", limit),
        ("decorated / stream scale", gbs["decorated"] / gbs["stream scale"], ">=", limit),
        ("numpy / decorated", times["numpy"] / times["decorated"], ">=", 8),
        ("numpy, a process a core / decorated", times["numpy, a process a core"] / times["decorated"], ">=", 1),
        ("unfused / decorated", times["unfused"] / times["decorated"], ">=", 4),
        ("undecorated / decorated", times["undecorated"] / times["decorated"], "<=", 1.3),
        ("expert's jax / decorated", times["jax, by an expert"] / times["decorated"], ">=", 1),
        ("usual jax / decorated", times["jax, as usual"] / times["decorated"], ">=", 1),
    ],
    milliseconds={name: t * 1e3 for name, t in times.items()},
)
