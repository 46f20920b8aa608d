"""A small step, 64 x 64: what a call costs, and how long the first one takes.

    diffuse run -n 2 benchmarks/bench_latency.py

Neither finds code that an earlier run has kept.  The peer is a hand-written `jax.jit` function of the same work with
the same MPI handlers: it is what the tracer makes, without the tracer.
"""

from __future__ import annotations

import os
import time

os.environ["DIFFUSE_CACHE"] = "0"

import jax
import jax.numpy as jnp
import numpy
from common import medians, report, slowest
from jax import lax

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace.lower.transport import Box, ExchangeSpec, Message
from diffuse_trace.runtime import execute

N, CALLS = 64, 2000
rank, ranks = diffuse.rank(), diffuse.ranks()


@diffuse.jit
def step(u, rate):
    change = rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    u[1:-1, 1:-1] += change
    return np.abs(change).max()


def by_hand():
    """Slabs of rows with one ghost row at each side, updated as the tracer would."""
    transport = execute.transport()
    rows = N // ranks
    above, below = rank > 0, rank < ranks - 1

    def box(row: int) -> Box:
        return Box(0, row * N, (N,), (1,))

    pairs = [(rank - 1, 1, 0)] * above + [(rank + 1, rows, rows + 1)] * below
    spec = ExchangeSpec(
        tuple(Message(peer, (box(sent),)) for peer, sent, _ in pairs),
        tuple(Message(peer, (box(got),)) for peer, _, got in pairs),
        (),
        (8,),
        1 << 40,
        "bench_latency.py, by hand",
    )

    def shifted(g, di, dj):
        part = g[max(di, 0) : g.shape[0] + min(di, 0), max(dj, 0) : g.shape[1] + min(dj, 0)]
        edges = ((max(-di, 0), max(di, 0), 0), (max(-dj, 0), max(dj, 0), 0))
        return lax.pad(part, jnp.zeros((), g.dtype), edges)

    def kernel(g, spare, rate, active, token):
        if ranks > 1:
            (g,), _, token = transport.exchange(spec, [], [g], [], active, token)
        i = lax.broadcasted_iota(jnp.int32, g.shape, 0)
        j = lax.broadcasted_iota(jnp.int32, g.shape, 1)
        inside = (i > (0 if above else 1)) & (i < (rows + 1 if below else rows)) & (j > 0) & (j < N - 1)
        around = shifted(g, -1, 0) + shifted(g, 1, 0) + shifted(g, 0, -1) + shifted(g, 0, 1)
        change = rate * (around - 4 * g)
        largest = jnp.max(jnp.where(inside, jnp.abs(change), 0.0))
        if ranks > 1:
            largest, token = transport.allreduce(largest, "max", tuple(range(ranks)), (1 << 40) + 1, "by hand", token)
        return g, jnp.where(inside, g + change, g), largest, token

    compiled = jax.jit(kernel, donate_argnums=(0, 1), keep_unused=True)
    state = [jnp.ones((rows + 2, N)), jnp.ones((rows + 2, N)), transport.token()]
    active, rate = jnp.ones(1, jnp.int32), jnp.asarray(0.2)

    def call():
        old, new, _, token = compiled(state[0], state[1], rate, active, state[2])
        transport.check()
        state[:] = new, old, token

    return call


u = np.asarray(numpy.random.default_rng(0).random((N, N)))
execute.transport()
numpy.asarray(u + 1)  # JAX, MPI and the first handlers are up


def first(call) -> float:
    start = time.perf_counter()
    call()
    return slowest(time.perf_counter() - start)


hand = by_hand()
# Which one comes first pays for compiling the handlers; they are cached on disk, so let both have them.
first_hand = first(hand)
first_ours = first(lambda: step(u, 0.2))
second_hand = first(by_hand())


def loop(call):
    def run():
        for _ in range(CALLS):
            call()

    return run


times = medians({"decorated": loop(lambda: step(u, 0.2)), "by hand": loop(hand)}, 7)
each = {name: t / CALLS * 1e6 for name, t in times.items()}
report(
    f"a call of a 64 x 64 step, {ranks} rank{'s'[: ranks > 1]}",
    [
        *((name, f"{us:8.1f} us") for name, us in each.items()),
        ("first call decorated", f"{first_ours * 1e3:8.0f} ms"),
        ("first call by hand, handlers included", f"{first_hand * 1e3:8.0f} ms"),
        ("first call by hand", f"{second_hand * 1e3:8.0f} ms"),
    ],
    [
        ("us a call", each["decorated"], "<=", 90),
        ("us more than by hand", each["decorated"] - each["by hand"], "<=", 40),
        ("first call / first call by hand", first_ours / second_hand, "<=", 1.5),
    ],
    microseconds=each,
)
