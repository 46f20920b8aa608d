"""The table of programs against NumPy: fused and not, decorated and not, at several numbers of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import launch, missing_mpi
from programs.loops import LOOPS
from programs.table import PROGRAMS

RUNNER = Path(__file__).with_name("runner.py")


#: Each way of running at some numbers of ranks, so that each number sees several ways and each way several numbers.
WAYS = [
    (1, "1", "jit"),
    (1, "1", "plain"),
    (1, "0", "plain"),
    (2, "1", "jit"),
    (2, "paper", "jit"),
    (3, "1", "plain"),
    (3, "0", "jit"),
    (4, "1", "jit"),
    (7, "1", "jit"),
]


@pytest.mark.parametrize(("ranks", "fuse", "decorated"), WAYS)
@pytest.mark.timeout(600)
def test_programs(ranks: int, fuse: str, decorated: str, tmp_path: Path) -> None:
    if ranks > 1 and missing_mpi():
        pytest.skip(missing_mpi())
    # Without fusion every task is an executable, and seven ranks share a few cores: every third program is run so.
    names = [*PROGRAMS, *LOOPS][:: 3 if fuse != "1" or ranks > 4 else 1]
    done = launch(RUNNER, ranks, args=[str(tmp_path), fuse, decorated, *names], timeout=550)
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.iterdir())
    assert len(files) == ranks
    wrong = [f"{f.name}: {f.read_text()}" for f in files if f.read_text()]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("ranks", "fuse", "seeds"),
    [(1, "1", 30), (1, "0", 8), (2, "1", 16), (2, "paper", 8), (3, "1", 8), (3, "0", 4), (4, "1", 6), (7, "1", 3)],
)
@pytest.mark.timeout(600)
def test_random_programs(ranks: int, fuse: str, seeds: int) -> None:
    if ranks > 1 and missing_mpi():
        pytest.skip(missing_mpi())
    first = 1000 * ranks + 100 * len(fuse)
    script = Path(__file__).with_name("random_programs.py")
    done = launch(script, ranks, args=[str(first), str(first + seeds), fuse], timeout=550)
    assert done.returncode == 0, done.stderr
