"""The marker ``ranks``: ``@pytest.mark.ranks(1, 2, 3)`` runs a test on each of these numbers of ranks.

The test takes the number as its argument ``ranks`` and gives it to `launching.launch`.
"""

from __future__ import annotations

import os

import pytest
from launching import ROOT, missing_mpi

# Code that one test has compiled serves the next; workers that run side by side keep their own.
_FOLDER = ROOT / ".pytest_cache" / "compiled" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ.setdefault("DIFFUSE_CACHE", str(_FOLDER))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("ranks")
    if marker is None:
        return
    if "ranks" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid} is marked with ranks but has no argument `ranks`")
    metafunc.parametrize("ranks", marker.args, ids=[f"{count}ranks" for count in marker.args])


def pytest_runtest_setup(item: pytest.Item) -> None:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if item.get_closest_marker("ranks") and parameters.get("ranks", 1) > 1 and missing_mpi():
        pytest.skip(missing_mpi())
