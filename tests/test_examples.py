"""Every example, small, on several numbers of ranks, checked against NumPy, SciPy or an analytic solution."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from launching import launch

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ALL = Path(__file__).with_name("all_examples.py")
SMALL = {
    "hillslope": ["--steps", "30"],
    "black_scholes": ["--options", "5000", "--steps", "3"],
    "jacobi": ["--size", "60"],
    "cg": ["--size", "16", "--steps", "100"],
    "bicgstab": ["--size", "16", "--steps", "60"],
    "multigrid": ["--size", "15"],
    "channel_flow": ["--size", "16", "--steps", "10", "--iterations", "20"],
    "shallow_water": ["--size", "60", "--end", "1"],
    "poisson": ["--size", "12", "--dimensions", "3"],
    "fem": ["--refine", "2", "--element", "P2"],
}


def test_no_example_is_forgotten() -> None:
    assert {p.stem for p in EXAMPLES.glob("*.py")} - {"running"} == set(SMALL)


def together(names: Iterable[str], *more: str) -> list[str]:
    """The arguments of `all_examples.py`."""
    return [word for name in names for word in (str(EXAMPLES / f"{name}.py"), *SMALL[name], "--check", *more, "--")]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.timeout(300)
def test_examples_check_themselves(ranks: int) -> None:
    names = [n for n in SMALL if n != "fem" or importlib.util.find_spec("skfem")]
    done = launch(ALL, ranks, args=together(names), timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = done.stdout.split("== ")[1:]
    assert len(parts) == len(names)
    assert all("check:" in part or "largest relative difference" in part for part in parts)


def test_the_same_source_runs_on_numpy() -> None:
    names = sorted(set(SMALL) - {"hillslope", "fem"})
    done = launch(ALL, args=together(names, "--package", "numpy"), timeout=100)
    assert done.returncode == 0 and done.stdout.count(" on NumPy in ") == len(names), done.stderr


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("multigrid", ["--size", "15", "--as", "preconditioner", "--levels", "2", "--coarsest-sweeps", "40"]),
        ("shallow_water", ["--case", "strait", "--refine", "1", "--end", "60"]),
        ("fem", ["--matrix", "airfoil", "--preconditioner", "chebyshev"]),
    ],
)
def test_other_ways(name: str, arguments: list[str], tmp_path: Path) -> None:
    if name == "fem":
        pytest.importorskip("pyamg")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    done = launch(EXAMPLES / f"{name}.py", 2, args=[*arguments, "--check", "--plot", str(picture)], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("channel_flow", ["--dt", "1"], "is not stable"),
        ("shallow_water", ["--cfl", "0.9"], "at most 0.5"),
        ("multigrid", ["--size", "16"], "give an odd number"),
        ("cg", ["--size", "1"], "must be at least 2"),
        ("cg", ["--plot", "/nowhere/picture.png"], "cannot be written"),
    ],
)
def test_bad_options(name: str, arguments: list[str], message: str) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and message in done.stderr, done.stderr
