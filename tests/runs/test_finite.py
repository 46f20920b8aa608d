"""``DIFFUSE_CHECK=finite`` names the first task that makes NaN or infinity, its line and the rank."""

from __future__ import annotations

import pytest
from launching import launch

SCRIPT = """\
import diffuse_trace as diffuse, diffuse_trace.numpy as np

@diffuse.jit
def f(u, v):
    w = np.roll(u * 2, 1)
    return w / v + 1

u, v = np.arange(10.0) + 1, np.ones(10)
print(float(f(u, v).sum()))
v[7] = 0
{last}
print("not reached")
"""


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("f(u, v).sum().item()", "script.py:6: divide made a value that is not finite, on rank {rank} at index (7,)"),
        ("np.log(v - 1 + (u > 9)).sum().item()", "script.py:11: log made 9 values that are not finite"),
        ("x = np.empty(10); x[2:5] = np.sqrt(-u[2:5]); x.sum().item()", "script.py:11: sqrt made "),
        (
            "diffuse.fori_loop(0, 3, lambda i, x: x / v, u).sum().item()",
            "script.py:11: a task in this loop made a value that is not finite, on rank {rank} at index (7,)",
        ),
    ],
)
def test_the_first_task_is_named(ranks: int, last: str, message: str) -> None:
    done = launch(SCRIPT.format(last=last), ranks, options=["--check-finite"])
    assert done.returncode == 1 and done.stdout.split() == ["120.0"], done.stdout + done.stderr
    expected = message.format(rank=0 if ranks == 1 else 2)
    if "log" in last and ranks > 1:
        expected = expected.split(" made ")[0]
    assert "NotFiniteError: " in done.stderr and expected in done.stderr, done.stderr


def test_finite_programs_run_to_their_end() -> None:
    done = launch(SCRIPT.format(last="print(f(u, v + 1).sum().item())"), 2, env={"DIFFUSE_CHECK": "finite"})
    assert done.returncode == 0 and "not reached" in done.stdout, done.stderr
