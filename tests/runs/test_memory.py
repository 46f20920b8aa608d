"""A time loop takes no more memory than its arrays, and does not grow."""

from __future__ import annotations

import pytest
from launching import launch

LOOP = """\
import sys
import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import recording
from diffuse_trace.runtime.buffers import pool


def resident():  # without mapped files, whose pages come and go
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024


def step(u, rate):
    change = rate * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    u[1:-1, 1:-1] += change
    return abs(change).max()


advance = diffuse.jit(step) if sys.argv[1] == "jit" else step
n = 400
u = np.zeros((n, n))
u[100:200, 50:300] = 1
for i in range(10_000):
    largest = advance(u, 0.2)
    if i % 1000 == 999:
        recording.flush()
    if i == 7999:  # all is compiled, the loop of batched calls or kept trips too, if late, and has been used
        before = resident()
print(resident() - before, pool.nbytes, 8 * n * n // diffuse.ranks())
"""


HUGE_PAGE = 2 << 20  # memory comes in such


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("form", ["jit", "plain"])
def test_memory_is_flat_and_a_shape_has_one_spare(ranks: int, form: str) -> None:
    done = launch(LOOP, ranks, args=[form], timeout=150)
    assert done.returncode == 0, done.stderr
    grown, spares, array = map(int, done.stdout.split())
    assert grown <= array + HUGE_PAGE
    assert spares < 2 * array


FED_BACK = """\
import diffuse_trace as diffuse
import diffuse_trace.numpy as np
from diffuse_trace import config
from diffuse_trace.runtime import execute

conformed = []
conform = execute.conform
execute.conform = lambda *given: (conformed.append(given[1]), conform(*given))


@diffuse.jit
def step(x, p):  # p is read five places away, x where it is
    return x + p, np.roll(p, 5) * 0.5


with config.override(batch=0):
    x, p = np.zeros(100), np.arange(100.0)
    for _ in range(20):
        x, p = step(x, p)
        assert len(conformed) <= 2, conformed  # the first inputs
print(float(x.sum()) == sum(range(100)) * (2 - 0.5**19))
"""


@pytest.mark.ranks(1, 2, 3)
def test_results_have_the_margins_that_the_next_call_needs(ranks: int, tmp_path) -> None:
    script = tmp_path / "fed_back.py"
    script.write_text(FED_BACK)
    done = launch(script, ranks, timeout=100)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
