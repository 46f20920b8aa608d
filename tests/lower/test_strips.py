"""Groups of several loops over large blocks run in strips, with the same values."""

from __future__ import annotations

import numpy
import pytest
from launching import launch

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace.lower import compute, strips

PROGRAM = """
def prices(np, s, k, t):
    root = np.sqrt(t)
    d1 = (np.log(s / k) + 0.03 * t) / (0.3 * root)
    d2 = d1 - 0.3 * root
    discounted = k * np.exp(-0.01 * t)
    call = s * np.tanh(d1) - discounted * np.tanh(d2)
    return call, call - s + discounted, np.where(d1 > 0, root, d2)
"""
exec(PROGRAM)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of the strips of what is compiled."""
    found: list[int] = []

    def run(step: compute.Compute, state: object) -> None:
        found.append(step.strip)
        strips.run_in_strips(step, state)  # type: ignore[arg-type]

    monkeypatch.setattr(compute, "run_in_strips", run)
    return found


@pytest.mark.parametrize("shape", [(300_001,), (613, 511), (7, 300, 150)])
def test_strips_give_what_loops_give(shape: tuple[int, ...], seen: list[int]) -> None:
    generator = numpy.random.default_rng(1)
    s, k, t = (generator.random(shape) + 0.1 for _ in range(3))
    want = prices(numpy, s, k, t)  # type: ignore[name-defined] # noqa: F821
    step = diffuse.jit(lambda s, k, t: prices(np, s, k, t))  # type: ignore[name-defined] # noqa: F821
    given = [np.asarray(x) for x in (s, k, t)]
    for _ in range(3):
        made = step(*given)
        for have, expected in zip(made, want, strict=True):
            numpy.testing.assert_allclose(numpy.asarray(have), expected, rtol=1e-12, atol=1e-14)
    assert len(seen) == 1 and 0 < 2 * seen[0] <= shape[0], "runs in strips, the last of which is shorter"


def test_what_is_handed_on_in_a_loop_may_be_made_in_strips(seen: list[int]) -> None:
    x = numpy.random.default_rng(2).random(400_000)

    @diffuse.jit
    def repeated(*state: np.ndarray) -> tuple[np.ndarray, ...]:
        def body(_: object, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            x, y, z = state
            return np.log(1 + x * z) * y, y + np.sin(z), np.exp(-x * y) * z

        return diffuse.fori_loop(0, 3, body, state)

    a, b, c = x, x + 1, x + 2
    made = repeated(*(np.asarray(v) for v in (a, b, c)))
    for _ in range(3):
        a, b, c = numpy.log(1 + a * c) * b, b + numpy.sin(c), numpy.exp(-a * b) * c
    for have, want in zip(made, (a, b, c), strict=True):
        numpy.testing.assert_allclose(numpy.asarray(have), want, rtol=1e-12)
    assert seen


@pytest.mark.parametrize(
    "body",
    [
        "np.exp(x[1:]) + np.exp(x[:-1]), np.exp(x[1:]) * np.log(x[1:]), np.sqrt(x[1:]) - np.exp(x[:-1])",  # shifted
        "np.cumsum(np.exp(x)), np.log(x) + np.exp(x), np.sqrt(np.exp(x)), np.exp(x) - 1",  # a scan
    ],
)
def test_what_reads_other_places_does_not(body: str, seen: list[int]) -> None:
    x = numpy.random.default_rng(3).random(400_000) + 1
    made = diffuse.jit(lambda x: eval(body, {"np": np, "x": x}))(np.asarray(x))
    for have, want in zip(made, eval(body, {"np": numpy, "x": x}), strict=True):
        numpy.testing.assert_allclose(numpy.asarray(have), want, rtol=1e-11)
    assert not seen


@pytest.mark.ranks(2, 3)
def test_strips_on_ranks(ranks: int) -> None:
    script = f"""
import numpy
import diffuse_trace as diffuse
import diffuse_trace.numpy as np
{PROGRAM}
generator = numpy.random.default_rng(1)
given = [generator.random(1_000_003) + 0.1 for _ in range(3)]
want = prices(numpy, *given)
step = diffuse.jit(lambda *x: prices(np, *x))
arrays = [np.asarray(x) for x in given]
for _ in range(3):
    made = step(*arrays)
for a, b in zip(made, want):
    numpy.testing.assert_allclose(numpy.asarray(a), b, rtol=1e-12, atol=1e-14)
print("OK")
"""
    done = launch(script, ranks, env={"DIFFUSE_VERIFY": "1"})
    assert done.stdout.strip() == "OK", done.stderr
