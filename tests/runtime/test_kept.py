"""Compiled code kept between runs: what is found again, and what is done where it cannot be kept."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from launching import launch

from diffuse_trace import config
from diffuse_trace.runtime import kept

SCRIPT = """
import jax
seen = []
jax.monitoring.register_event_listener(lambda event, **_: seen.append(event))
import diffuse_trace as diffuse
import diffuse_trace.numpy as np

@diffuse.jit
def step(u, rate):
    u[1:-1] += rate * (u[:-2] - 2 * u[1:-1] + u[2:])
    return np.abs(u).max(), u.astype(np.float32).sum(), np.cumsum(u)[-1]

u = np.arange(50.0) ** 2
for k in range(3):
    values = [float(x) for x in step(u, 0.25)]
print(values, "compiled", seen.count("/jax/compilation_cache/cache_misses"),
      "loaded", seen.count("/jax/compilation_cache/cache_hits"))
"""


def run(script: str, ranks: int, cache: str, **more: str) -> tuple[str, int, int]:
    """The values that the script prints, and how many executables it compiled and loaded."""
    done = launch(script, ranks, env={"DIFFUSE_CACHE": cache, **more})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    values, compiled, loaded = re.fullmatch(r"(.*) compiled (\d+) loaded (\d+)\n", done.stdout).groups()
    return values, int(compiled), int(loaded)


@pytest.mark.ranks(1, 2)
def test_a_second_start_compiles_nothing(ranks: int, tmp_path: Path) -> None:
    first, compiled, loaded = run(SCRIPT, ranks, str(tmp_path))
    assert compiled > 0 and loaded == 0
    assert {path.name for path in next(tmp_path.iterdir()).iterdir()} == {f"rank{n}" for n in range(ranks)}
    assert run(SCRIPT, ranks, str(tmp_path)) == (first, 0, compiled)
    # The user's lines are in the messages between ranks, but not in what is compiled.
    assert run(f"# a new line\n{SCRIPT}", ranks, str(tmp_path)) == (first, 0, compiled)


def test_the_cache_can_be_switched_off_or_chosen(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    values, *counts = run(SCRIPT, 1, "0", XDG_CACHE_HOME=home)
    assert counts == [0, 0] and not os.path.exists(home)
    assert run(SCRIPT, 1, "1", XDG_CACHE_HOME=home)[0] == values
    assert list(Path(home, "diffuse_trace").glob("*/rank0/*"))
    own = str(tmp_path / "own")  # the user's setting of JAX comes first
    run(SCRIPT, 1, str(tmp_path / "other"), JAX_COMPILATION_CACHE_DIR=own)
    assert not (tmp_path / "other").exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run(SCRIPT, 1, str(tmp_path / "file"))[1:] == (0, 0)


def test_the_oldest_code_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LIMIT", 400)
    for n in range(6):
        path = tmp_path / f"{n}-cache"
        path.write_bytes(b"x" * 100)
        os.utime(path, (n, n))
    kept._prune(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["4-cache", "5-cache"]
    kept._prune(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_for_each_processor_and_rank(tmp_path: Path) -> None:
    with config.override(cache=str(tmp_path)):
        first, second = kept._folder(0), kept._folder(1)
    assert first != second and first.parent == second.parent and first.parent.parent == tmp_path
    with config.override(cache="0"):
        assert kept._folder(0) is None


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with config.override(cache="1"):
        assert kept._folder(0) is None
