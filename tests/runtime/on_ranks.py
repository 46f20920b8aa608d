"""What test_transport.py runs under mpiexec: ``python on_ranks.py CASE``.

Cases that end well print "ok" on rank 0; the others show how a job fails.
"""

from __future__ import annotations

import faulthandler
import itertools
import math
import os
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffuse_trace import config
from diffuse_trace.errors import CommunicationError, NotSupportedError, RankMismatchError
from diffuse_trace.lower import jax_compat
from diffuse_trace.lower.transport import Box, ExchangeSpec, Message
from diffuse_trace.runtime import agree, engine, mpi_ffi
from diffuse_trace.runtime.ranks import world

faulthandler.dump_traceback_later(180, exit=True)
jax_compat.configure(jax_enable_x64=True, jax_cpu_enable_async_dispatch=False)
if "DIFFUSE_TEST_CHUNK" in os.environ:
    engine.CHUNK = int(os.environ["DIFFUSE_TEST_CHUNK"])
RANK_NAMES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
if os.environ.get("DIFFUSE_TEST_APART", "none") in [os.environ.get(name) for name in RANK_NAMES]:
    os.environ["DIFFUSE_SHARED"] = "0"
W = world()
RANK, SIZE = W.rank, W.size
ALL = tuple(range(SIZE))
T = mpi_ffi.transport()
token = T.token


def flags(*values):
    return jnp.array(values or (1,), np.int32)


def row_major(shape):
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def box(buffer, shape, region, flag=-1):
    """The box of a region ((low, high), ...) of a row-major array."""
    strides = row_major(shape)
    offset = sum(low * s for (low, _), s in zip(region, strides))
    return Box(buffer, offset, tuple(high - low for low, high in region), strides, flag)


def run(spec, sources=(), in_place=(), results=(), active=None):
    """One exchange, jitted; the updated buffers and the results as NumPy arrays."""

    def traced(sources, in_place, active, token):
        return T.exchange(spec, sources, in_place, results, active, token)

    arguments = [list(map(jnp.array, sources)), list(map(jnp.array, in_place))]
    updated, made, _ = jax.jit(traced)(*arguments, flags() if active is None else active, token())
    T.check()
    return [np.asarray(a) for a in updated], [np.asarray(a) for a in made]


def bounds(n, parts):
    return [n * p // parts for p in range(parts + 1)]


# --- exchanges -----------------------------------------------------------------------------------


def halo_case(dtype=np.float64, rows=11, columns=9):
    """Rows in blocks; one row of ghosts on either side."""
    whole = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    edges = bounds(rows, SIZE)
    low, high = edges[RANK], edges[RANK + 1]
    ghosted = (max(low - 1, 0), min(high + 1, rows))
    local = np.zeros((ghosted[1] - ghosted[0], columns), dtype)
    local[low - ghosted[0] : high - ghosted[0]] = whole[low:high]
    sends, receives = [], []

    def part(a, b):
        return box(0, local.shape, ((a - ghosted[0], b - ghosted[0]), (0, columns)))

    for peer in (RANK - 1, RANK + 1):
        if 0 <= peer < SIZE:
            sends.append(Message(peer, (part(low, low + 1) if peer < RANK else part(high - 1, high),)))
            receives.append(Message(peer, (part(low - 1, low) if peer < RANK else part(high, high + 1),)))
    spec = ExchangeSpec(tuple(sends), tuple(receives), (), (np.dtype(dtype).itemsize,), 5, "halo.py:1")
    (updated,), _ = run(spec, in_place=[local])
    np.testing.assert_array_equal(updated, whole[ghosted[0] : ghosted[1]])


def transpose_case(dtype, shape):
    """Rows in blocks on all ranks, moved to the row blocks of the transposed array."""
    whole = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    rows, columns = bounds(shape[0], SIZE), bounds(shape[1], SIZE)
    mine, wanted = (rows[RANK], rows[RANK + 1]), (columns[RANK], columns[RANK + 1])
    local = whole[mine[0] : mine[1]]
    out = (wanted[1] - wanted[0], shape[0])
    source, target = row_major(local.shape), row_major(out)

    def taken(receiver):
        low, high = columns[receiver], columns[receiver + 1]
        return Box(0, low * source[1], (high - low, mine[1] - mine[0]), (source[1], source[0]))

    def put(sender):
        low, high = rows[sender], rows[sender + 1]
        return Box(1, low, (out[0], high - low), target)

    peers = [p for p in ALL if p != RANK]
    sends = tuple(Message(p, (taken(p),)) for p in peers)
    receives = tuple(Message(p, (put(p),)) for p in peers)
    item = np.dtype(dtype).itemsize
    spec = ExchangeSpec(sends, receives, ((taken(RANK), put(RANK)),), (item, item), 6, "transpose.py:1")
    _, (moved,) = run(spec, sources=[local], results=[jax.ShapeDtypeStruct(out, dtype)])
    np.testing.assert_array_equal(moved, whole.T[wanted[0] : wanted[1]])


def strided_case():
    """Boxes of three axes with negative and odd strides, between rings of ranks, two buffers in one message."""
    a = np.arange(2 * 5 * 7).reshape(2, 5, 7) + 1000 * RANK
    b = (np.arange(24).reshape(4, 6) + 100 * RANK).astype(np.int16)
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    if SIZE == 1:
        return
    first = Box(0, a.size - 1, (7, 2), (-1, -35))  # a[::-1, 4, ::-1].T
    second = Box(1, 1, (2, 3), (12, 2))  # b[::2, 1::2]
    into = (Box(2, 0, (7, 2), (2, 1)), Box(3, 5, (2, 3), (-3, -1)))
    spec = ExchangeSpec((Message(right, (first, second)),), (Message(left, into),), (), (8, 2, 8, 2), 8, "strided.py:1")
    results = [jax.ShapeDtypeStruct((7, 2), np.int64), jax.ShapeDtypeStruct((6,), np.int16)]
    _, (c, d) = run(spec, sources=[a, b], results=results)
    x, y = a + 1000 * (left - RANK), b + np.int16(100 * (left - RANK))
    np.testing.assert_array_equal(c, x[::-1, 4, ::-1].T)
    np.testing.assert_array_equal(d, y[::2, 1::2].ravel()[::-1])


def flags_case():
    """Boxes travel only if their flag is set; a message without boxes not at all."""
    if SIZE == 1:
        return
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    boxes = tuple(Box(0, n, (1,), (1,), flag) for n, flag in ((0, 0), (1, 1), (2, 0)))
    into = tuple(Box(0, n + 3, (1,), (1,), b.flag) for n, b in enumerate(boxes))
    spec = ExchangeSpec((Message(right, boxes),), (Message(left, into),), (), (4,), 9, "flags.py:1")
    start = np.array([1, 2, 3, -1, -1, -1], np.int32) + 10 * np.array([RANK] * 3 + [0] * 3, np.int32)
    for active in itertools.product((0, 1), repeat=2):
        (after,), _ = run(spec, in_place=[start], active=flags(*active))
        came = [n + 1 + 10 * left if active[f] else -1 for n, f in enumerate((0, 1, 0))]
        np.testing.assert_array_equal(after[3:], came)


def copies_case():
    a = np.arange(24.0).reshape(2, 3, 4)
    target = Box(1, 0, (4, 2), (3, 1))
    whole = (Box(0, 0, (24,), (1,)), Box(2, 0, (24,), (1,)))
    spec = ExchangeSpec((), (), ((Box(0, 4, (4, 2), (1, 12)), target), whole), (8, 8, 8), 10, "copies.py:1")
    made = run(spec, sources=[a], results=[jax.ShapeDtypeStruct((12,), a.dtype), jax.ShapeDtypeStruct((24,), a.dtype)])
    got = made[1][0].reshape(4, 3)[:, :2]
    np.testing.assert_array_equal(got, a[:, 1, :].T)
    np.testing.assert_array_equal(made[1][1], a.ravel())


def exchanges():
    for dtype in (np.int8, np.float16, np.float32, np.float64, np.complex128):
        halo_case(dtype)
        transpose_case(dtype, (11, 13))
        transpose_case(dtype, (3, 2))
    halo_case(rows=4000, columns=50)
    transpose_case(np.float64, (300, 200))
    strided_case()
    flags_case()
    copies_case()


def runs_ahead():
    """Each rank sends to the next only, so that the first ones may be many messages ahead; short and long ones."""
    after, before = RANK + 1 < SIZE, RANK > 0
    for n in range(40):
        size = 1000 if n % 7 == 3 else 5
        if before and n % 10 == 0:
            time.sleep(0.05 * RANK)
        sends = (Message(RANK + 1, (Box(0, 0, (size,), (1,)),)),) if after else ()
        receives = (Message(RANK - 1, (Box(1, 0, (size,), (1,)),)),) if before else ()
        spec = ExchangeSpec(sends, receives, (), (8, 8), 100 + n, f"ahead.py:{n}")
        values = np.arange(size) + 1000.0 * n
        (got,), _ = run(spec, sources=[values + RANK], in_place=[np.zeros(size)])
        assert not before or (got == values + RANK - 1).all()
    if SIZE == 1:
        return
    # What nobody has received when all fail is forgotten.
    agree.agree(W, 149, "ahead.py:40")
    if RANK == 0:
        for n in range(2):
            run(ExchangeSpec((Message(1, (Box(0, 0, (1,), (1,)),)),), (), (), (8,), 150 + n, "lost.py:1"), [np.ones(1)])
    expect(RankMismatchError, lambda: reduce(np.ones(1), "sum", digest=152), "lost.py:1", "reduce.py:152")
    works_again()


def through_rings():
    assert SIZE == 1 or W.rings is not None


def through_mpi():
    assert W.rings is None


def split_messages():
    """With a small DIFFUSE_TEST_CHUNK."""
    transpose_case(np.float64, (40, 50))
    halo_case(columns=3000)
    for n in (1, 1000):
        values = np.arange(n) + 1.0
        np.testing.assert_array_equal(reduce(values, "sum"), values * SIZE)
    blocks = agree.allgather_blocks(W, np.full(1000, RANK))
    assert [b.tolist() for b in blocks] == [[r] * 1000 for r in ALL]


# --- reductions ----------------------------------------------------------------------------------

KINDS = ("?", "f8", "i4", "f2", "c16", "i1", "i2", "i8", "u1", "u2", "u4", "u8", "f4", "c8")
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def reduce(array, op, ranks=ALL, scan=False, digest=20):
    def traced(a, token):
        return (T.exscan if scan else T.allreduce)(a, op, ranks, digest, f"reduce.py:{digest}", token)

    result = jax.jit(traced)(jnp.array(array), token())[0]
    T.check()
    assert result.dtype == array.dtype and result.shape == array.shape
    return np.asarray(result)


def operands(kind, n=37):
    """The arrays of all ranks."""
    rng = np.random.default_rng(1)
    dtype = np.dtype(kind)
    found = []
    for _ in ALL:
        x = rng.integers(0, 100, n) if dtype.kind in "ui" else rng.standard_normal(n)
        x = rng.random(n) < 0.6 if dtype.kind == "b" else x
        x = x + 1j * rng.standard_normal(n) if dtype.kind == "c" else x
        found.append(np.asarray(x).astype(dtype))
    return found


def reduce_and_scan(op, order, array, token):
    total, token = T.allreduce(array, op, ALL, 24, "reduce.py:24", token)
    before, token = T.exscan(array, op, order, 25, "reduce.py:25", token)
    return total, before


def reductions():
    for kind, op in itertools.product(KINDS[: 14 if SIZE < 5 else 5], UFUNCS):
        arrays = operands(kind)
        if np.dtype(kind).kind == "c" and op in ("min", "max"):
            try:
                reduce(arrays[RANK], op)
            except NotSupportedError as error:
                assert "complex" in str(error)
                continue
            assert SIZE == 1
            continue
        expected = arrays[0]
        for array in arrays[1:]:
            expected = UFUNCS[op](expected, array)
        # A scan on ranks in another order, which starts at the last one, in the same function.
        order = ALL[::-1]
        both = jax.jit(partial(reduce_and_scan, op, order))
        (got, before), (again, _) = (both(jnp.array(arrays[RANK]), token()) for _ in range(2))
        T.check()
        assert got.dtype == before.dtype == expected.dtype
        assert np.asarray(got).tobytes() == np.asarray(again).tobytes()
        exact = np.dtype(kind).kind in "bui" or op in ("min", "max")
        tolerance = 0 if exact else {"e": 2e-2, "f": 1e-5, "F": 1e-4}.get(np.dtype(kind).char, 1e-12)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=f"{kind} {op}")
        identical(np.asarray(got))
        place = order.index(RANK)
        if place == 0:
            wanted = np.full(37, mpi_ffi.identity(op, np.dtype(kind)))
        else:
            wanted = arrays[order[0]]
            for r in order[1:place]:
                wanted = UFUNCS[op](wanted, arrays[r])
        np.testing.assert_allclose(before, wanted, rtol=tolerance, atol=tolerance, err_msg=f"scan {kind} {op}")
    nans()
    groups()
    extremes()


def identical(array):
    assert len({b.tobytes() for b in agree.allgather_blocks(W, array)}) == 1


def nans():
    for kind, op in itertools.product(("f2", "f4", "f8"), ("min", "max")):
        for bad in ALL:
            array = np.array([RANK, -RANK, np.inf], kind)
            if bad == RANK:
                array[1] = np.nan
            got = reduce(array, op)
            assert np.isnan(got[1]) and not np.isnan(got[0]), (kind, op, bad, got)


def groups():
    """Reductions over some of the ranks, different ones at the same time."""
    group = tuple(r for r in ALL if r % 2 == RANK % 2)
    got = reduce(np.array([RANK, 1]), "sum", group, digest=21)
    assert got.tolist() == [sum(group), len(group)]


def extremes():
    """Halves round to even; integers wrap."""
    got = reduce(np.array([1.0 if RANK == 0 else 2.0**-11, 60000.0], np.float16), "sum")
    wide = np.array([1.0, 60000.0], np.float16)
    if SIZE == 2:
        assert got[0] == np.float16(1.0) and np.isinf(got[1]), got
    elif SIZE == 1:
        assert (got == wide).all()
    got = reduce(np.array([100], np.int8), "sum")
    assert got[0] == np.array(100 * SIZE).astype(np.int8)
    large = np.random.default_rng(RANK).random(200_000)
    whole = sum(np.random.default_rng(r).random(200_000) for r in ALL)
    np.testing.assert_allclose(reduce(large, "sum"), whole, rtol=1e-14)
    # In a compiled loop, on values that change.
    loop = jax.jit(
        lambda x, k: jax.lax.fori_loop(
            0, 50, lambda i, s: T.allreduce(s[0] + 1, "max", ALL, 22, "loop.py:1", s[1]), (x, k)
        )
    )
    assert float(loop(jnp.asarray(float(RANK)), token())[0]) == SIZE - 1 + 50
    T.check()


def from_python():
    """Agreement and whole blocks."""
    for n in range(3):
        agree.agree(W, 30 + n, f"python.py:{n}")
    blocks = agree.allgather_blocks(W, np.arange(RANK * 3).reshape(RANK, 3).astype(np.float32))
    assert [b.shape for b in blocks] == [(r, 3) for r in ALL] and all(b.dtype == np.float32 for b in blocks)
    assert agree.allgather_blocks(W, np.array(7))[-1].shape == ()
    back = agree.alltoall_blocks(W, [np.full(r + 1, 10 * RANK + r) for r in ALL])
    assert [b.tolist() for b in back] == [[10 * r + RANK] * (RANK + 1) for r in ALL]
    assert agree.bcast(W, {"a": RANK}) == {"a": 0}


# --- failures ------------------------------------------------------------------------------------


def expect(kind, function, *parts):
    """This rank fails: at once, or, where it has nothing to do with the ranks that differ, when it next waits."""
    try:
        function()
        agree.agree(W, 43, "next.py:1")
    except kind as error:
        missing = [p for p in parts if p not in str(error)]
        assert not missing, f"{missing} not in {error}"
        return
    raise AssertionError(f"no {kind.__name__} on rank {RANK}")


def ring(digest, where, n=4):
    """An exchange with both neighbours on a ring."""
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    peers = sorted({right, left})
    sends = tuple(Message(p, (Box(0, 0, (n,), (1,)),)) for p in peers)
    receives = tuple(Message(p, (Box(1, k * n, (n,), (1,)),)) for k, p in enumerate(peers))
    spec = ExchangeSpec(sends, receives, (), (8, 8), digest, where)
    return run(spec, sources=[np.arange(n * 1.0) + RANK], results=[jax.ShapeDtypeStruct((n * len(peers),), np.float64)])


def works_again():
    """All ranks have raised and go on."""
    for _ in range(3):
        ring(40, "again.py:1")
        assert reduce(np.array([1.0]), "sum", digest=41)[0] == SIZE
    agree.agree(W, 42, "again.py:2")


def mismatches():
    """Every rank raises, names both lines, and can go on."""
    odd = RANK == SIZE - 1
    lines = ("odd.py:1", "even.py:1")

    def here():
        return lines[0] if odd else lines[1]

    expect(RankMismatchError, lambda: ring(50 + odd, here()), *lines)
    works_again()
    # Another size, longer than what the other end expects, small and large.
    for n in (4000, 400_000):
        expect(RankMismatchError, lambda n=n: ring(52 + odd, here(), n if odd else 4), "odd.py:1")
        works_again()
    expect(RankMismatchError, lambda: ring(54, "same.py:1", 5 if odd else 4), "same.py:1", "other shapes")
    works_again()
    ones = np.ones(3)
    expect(
        RankMismatchError,
        lambda: reduce(ones, "sum", digest=55) if odd else ring(56, "even.py:2"),
        "reduce.py:55",
        "even.py:2",
    )
    works_again()
    expect(RankMismatchError, lambda: reduce(ones, "sum", digest=57 + odd), "reduce.py:57", "reduce.py:58")
    works_again()
    expect(
        RankMismatchError,
        lambda: agree.agree(W, 59, "gather.py:1") if odd else ring(60, "even.py:3"),
        "gather.py:1",
        "even.py:3",
    )
    works_again()
    expect(RankMismatchError, lambda: agree.agree(W, 61 + odd, here()), *lines)
    works_again()

    # What comes after a failure in one executable does nothing.
    def both(a, k):
        a, k = T.allreduce(a, "sum", ALL, 63 + odd, here(), k)
        for n in range(3):
            a, k = T.allreduce(a, "sum", ALL, 65 + n, "after.py:1", k)
        return a

    def together():
        jax.jit(both)(jnp.ones(2), token())
        T.check()

    expect(RankMismatchError, together, *lines)
    works_again()


def timeout():
    with config.override(timeout=1):
        engine.engine(W).configure()
        start = time.monotonic()
        if RANK == 0:
            expect(CommunicationError, lambda: ring(70, "slow.py:1"), "slow.py:1", "has waited 1 s", "DIFFUSE_TIMEOUT")
            assert 0.5 < time.monotonic() - start < 5
        else:
            time.sleep(3)
            expect(CommunicationError, lambda: ring(70, "slow.py:1"), "slow.py:1", "rank 0")
    engine.engine(W).configure()
    works_again()


def ends_early():
    """The last rank has ended."""
    if RANK < SIZE - 1:
        expect(RankMismatchError, lambda: ring(80, "waits.py:1"), f"rank {SIZE - 1} has ended", "waits.py:1")
        if RANK == 0:
            print("ok", flush=True)


def ends_early_uncaught():
    if RANK == 0:
        ring(80, "waits.py:1")


def one_way():
    """Rank 0 sends to one that has ended, and expects nothing."""
    if RANK == 0:
        spec = ExchangeSpec((Message(1, (Box(0, 0, (1,), (1,)),)),), (), (), (8,), 81, "oneway.py:1")
        run(spec, sources=[np.ones(1)])


def raises():
    if RANK == SIZE - 1:
        raise ValueError("this rank is broken")
    ring(90, "innocent.py:1")


def fails_everywhere():
    raise ValueError("all ranks are broken")


def interrupted():
    if RANK == SIZE - 1:
        raise KeyboardInterrupt
    ring(91, "innocent.py:1")


def leaves():
    if RANK == SIZE - 1:
        sys.exit(3)
    ring(92, "innocent.py:1")


def thread_raises():
    import threading

    if RANK == SIZE - 1:
        threading.Thread(target=lambda: 1 / 0).start()
    ring(93, "innocent.py:1")


def speed():
    n = 20_000
    loop = jax.jit(
        lambda x, k: jax.lax.fori_loop(
            0, n, lambda i, s: T.allreduce(s[0] * 0.5, "sum", ALL, 7, "a.py:1", s[1]), (x, k)
        )
    )
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    peers = sorted({right, left} - {RANK})
    spec = ExchangeSpec(
        tuple(Message(p, (Box(0, 8, (8,), (1,)),)) for p in peers),
        tuple(Message(p, (Box(0, 0 if p == left else 16, (8,), (1,)),)) for p in peers),
        (),
        (8,),
        8,
        "b.py:1",
    )

    def once(u, k):
        (u,), _, k = T.exchange(spec, [], [u], [], flags(), k)
        return u, k

    halo = jax.jit(lambda u, k: jax.lax.fori_loop(0, n, lambda i, s: once(*s), (u, k)))
    call = jax.jit(once, donate_argnums=(0,))
    idle = jax.jit(lambda u, k: (u + 1, k), donate_argnums=(0,))

    def best(function, repeats, trips):
        found = math.inf
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(repeats):
                function()
            found = min(found, time.perf_counter() - start)
        return found / repeats / trips * 1e6

    state = [jnp.ones(24), token()]

    def called(function):
        state[:] = function(*state)
        T.check()

    called(call), called(idle)
    rows = {
        "allreduce of 1 double, in a loop": best(lambda: loop(jnp.ones(()), token())[0].block_until_ready(), 1, n),
        "exchange of 8 elements with each neighbour, in a loop": best(lambda: called(halo), 1, n),
        "one exchange called from Python": best(lambda: called(call), 1000, 1),
        "no exchange called from Python": best(lambda: called(idle), 1000, 1),
    }
    if RANK == 0:
        for name, value in rows.items():
            print(f"{name}: {value:.1f} us")


if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        globals()[name]()
    if RANK == 0 and sys.argv[1] not in ("ends_early", "speed"):
        print("ok", flush=True)
