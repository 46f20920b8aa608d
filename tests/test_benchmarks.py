"""The benchmark of the seven applications, end to end at its smallest."""

from __future__ import annotations

import json

from launching import ROOT, launch, missing_mpi


def test_the_seven_are_timed_beside_their_peers() -> None:
    ranks = 1 if missing_mpi() else 2
    done = launch(ROOT / "benchmarks" / "paper.py", ranks, args=["--small", "--json"], timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    times = found["times"]
    assert list(times) == [
        "black_scholes", "jacobi", "cg", "bicgstab", "multigrid", "channel_flow", "shallow_water",
    ]  # fmt: skip
    for name, by in times.items():
        by_hand = {"jax"} if name in ("black_scholes", "channel_flow", "shallow_water") else set()
        assert set(by) == {"fused", "paper", "unfused", "numpy"} | by_hand
        assert all(seconds > 0 for seconds in by.values())
    assert set(found["cold"]) == set(times) and all(seconds > 0 for seconds in found["cold"].values())
    # Times are not judged here, but each ratio is that of the times it stands for.
    ratio = found["jax / fused, shallow_water"]
    assert ratio == times["shallow_water"]["jax"] / times["shallow_water"]["fused"]
