"""Repeats become loops, with NumPy's values, on several numbers of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import launch


@pytest.mark.ranks(1, 2, 3)
def test_repeats(ranks: int) -> None:
    done = launch(Path(__file__).with_name("repeats.py"), ranks, env={"DIFFUSE_VERIFY": "1"}, timeout=200)
    assert done.stdout.strip() == "OK", done.stdout + done.stderr
