"""The table of programs against NumPy: fused and not, decorated and not, at several numbers of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import launch
from programs.table import PROGRAMS

RUNNER = Path(__file__).with_name("runner.py")


@pytest.mark.ranks(1, 2, 3, 4, 7)
@pytest.mark.parametrize(("fuse", "decorated"), [("1", "jit"), ("1", "plain"), ("paper", "jit"), ("0", "plain")])
@pytest.mark.timeout(600)
def test_programs(ranks: int, fuse: str, decorated: str, tmp_path: Path) -> None:
    if ranks > 3 and fuse != "1":
        pytest.skip("fewer ranks show it")
    done = launch(RUNNER, ranks, args=[str(tmp_path), fuse, decorated, *PROGRAMS], timeout=550)
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.iterdir())
    assert len(files) == ranks
    wrong = [f"{f.name}: {f.read_text()}" for f in files if f.read_text()]
    assert not wrong, "\n".join(wrong)
