"""What goes wrong on some ranks ends all of them, with one clear error that names the user's line."""

from __future__ import annotations

import pytest
from launching import launch

START = """\
import numpy
import diffuse_trace as diffuse
import diffuse_trace.numpy as np
u = np.ones((40, 30))
rank = diffuse.rank()
numpy.asarray(u + 1)
"""

CASES = {
    "one rank sums": (
        "if rank == 0:\n    print(float(u.sum()))  # HERE",
        ["RankMismatchError", "rank 1 has ended", "script.py:8"],
    ),
    "another operation": (
        "x = u.sum() if rank == 0 else u.max()\nprint(float(x))",
        ["RankMismatchError", "script.py:7", "Every rank must"],
    ),
    "another shape": (
        "v = np.ones(10 + rank)\nprint(float((v[1:] * v[:-1]).sum()))",
        ["RankMismatchError", "script.py:8"],
    ),
    "one rank gathers": (
        "if rank == 0:\n    numpy.asarray(u)\nelse:\n    float(u.sum())",
        ["RankMismatchError", "script.py:"],
    ),
    "one rank raises": (
        "for i in range(5):\n    s = float(u.sum())\n"
        "    if rank == 1 and i == 3:\n        raise RuntimeError('the pump is broken')",
        ["RuntimeError: the pump is broken", "script.py"],
    ),
    "shapes": ("u + np.ones(7)", ["ValueError", "(40,30) (7,)", "script.py:7"]),
    "index": ("u[40]", ["IndexError", "index 40 is out of bounds for axis 0 with size 40", "script.py:7"]),
    "type": ("u + 'x'", ["TypeError", "script.py"]),
    "empty": ("np.zeros(0).max()", ["ValueError", "zero-size array", "script.py:7"]),
    "traced value": (
        "@diffuse.jit\ndef f(x):\n    if x.max() > 1:\n        return x\n    return -x\nf(u)",
        ["TracingError", "script.py:9", "static_argnames"],
    ),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("case", CASES)
def test_errors(ranks: int, case: str) -> None:
    body, says = CASES[case]
    if ranks == 3 and "rank" not in body:
        pytest.skip("two ranks show it")
    done = launch(START + body, ranks, timeout=60)
    assert done.returncode not in (0, 124), done.stdout
    for text in says:
        assert text in done.stderr, done.stderr
    assert done.stderr.count("Traceback") == 1, done.stderr


@pytest.mark.ranks(2)
def test_a_rank_that_does_not_answer(ranks: int) -> None:
    body = "import time\nif rank == 1:\n    time.sleep(30)\nprint(float(u.sum()))"
    done = launch(START + body, ranks, env={"DIFFUSE_TIMEOUT": "2"}, timeout=25)
    assert done.returncode != 0
    assert "CommunicationError" in done.stderr and "rank 1" in done.stderr and "script.py:10" in done.stderr, (
        done.stderr
    )


@pytest.mark.ranks(4, 7)
def test_more_ranks_than_elements(ranks: int) -> None:
    script = """\
        import numpy
        import diffuse_trace as diffuse
        import diffuse_trace.numpy as np
        u = np.arange(5.0)
        v = np.ones((3, 3))
        u[1:-1] = 0.5 * (u[2:] + u[:-2])
        sizes = numpy.array([u.local.size, v.local.size])
        print(u.tolist(), v.sum().item(), v.argmax().item(), (u @ u).item())
        """
    done = launch(script, ranks, timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[0.0, 1.0, 2.0, 3.0, 4.0] 9.0 0 30.0"


@pytest.mark.ranks(4, 8)
def test_nothing_is_replicated(ranks: int) -> None:
    """Length 5 on 4 ranks, 17 on 8: the ranks hold it once."""
    n = {4: 5, 8: 17}[ranks]
    script = f"""\
        import sys
        import diffuse_trace as diffuse, diffuse_trace.numpy as np
        from diffuse_trace.runtime import agree
        from diffuse_trace.runtime.ranks import world
        import numpy
        u = np.arange({n}.0)
        x = u * 2
        x.sum().item()
        held = agree.allgather_blocks(world(), x.local)
        print([b.size for b in held])
        print(numpy.concatenate(held).tolist() == (numpy.arange({n}.0) * 2).tolist())
        """
    done = launch(script, ranks, timeout=120)
    assert done.returncode == 0, done.stderr
    sizes, same = done.stdout.strip().split("\n")
    assert sum(eval(sizes)) == n and max(eval(sizes)) == -(-n // ranks) and same == "True"


@pytest.mark.ranks(1, 2, 3)
def test_draws_and_dynamic_access_at_every_rank_count(ranks: int) -> None:
    script = """\
        import diffuse_trace as diffuse, diffuse_trace.numpy as np
        g = np.random.default_rng(3)
        x, y = g.random((4, 5)), g.integers(0, 100, 7)
        m = x > 0.5
        r = np.arange(24).reshape(2, 12).reshape(6, 4)
        x[[0, 2]] = x[[1, 3]]
        z = np.zeros(6)
        z[np.array([5, 1, 5])] = np.array([1.0, 2.0, 3.0])
        c = np.array([[-1.0, -2, -3], [1, 2, 3]])
        c = c[c >= 0]
        print([round(v, 12) for v in x.ravel().tolist()], y.tolist(), x[m].size, r.tolist(), z.tolist())
        print(c.min().item(), round(c.std().item(), 4), [k.tolist() for k in np.nonzero(y > 50)])
        """
    done = launch(script, ranks, timeout=90)
    assert done.returncode == 0, done.stderr
    one = launch(script, 1, timeout=90)
    assert done.stdout == one.stdout
    assert "1.0 0.8165" in done.stdout and "[0.0, 2.0, 0.0, 0.0, 0.0, 3.0]" in done.stdout
