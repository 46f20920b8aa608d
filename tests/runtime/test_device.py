"""Executables run in the calling thread: when a program has been replayed its results are there."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
from launching import launch

import diffuse_trace.numpy as np
import diffuse_trace.sparse as sparse
from diffuse_trace import recording


def test_arrays_of_the_host_are_there_before_the_first_program() -> None:
    host = numpy.ones(20_000_000)  # JAX copies as many in the background
    for _ in range(3):
        made = np.sqrt(np.asarray(host))
        recording.flush()
        assert made.store.data.buffer.is_ready()


@pytest.mark.parametrize("kind", ["rows", "diagonals"])
def test_matrices_are_there_before_the_first_product(kind: str) -> None:
    n = 3_000_000
    x = np.ones(n)
    ahead = 1 if kind == "diagonals" else 7 * numpy.arange(n)
    places = numpy.arange(n), (numpy.arange(n) + ahead) % n
    matrix = sparse.coo_array((numpy.arange(1.0, n + 1), places), shape=(n, n))
    for _ in range(3):
        made = matrix @ x
        recording.flush()
        assert made.store.data.buffer.is_ready()


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="no huge pages here")
def test_the_heap_lies_in_huge_pages_and_takes_none_of_them_yet() -> None:
    script = """
import pathlib
import diffuse_trace.numpy as np
float(np.ones(3).sum())
found, size, inside = [], 0, False
for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
    if "-" in line.split()[0]:
        inside = line.endswith("[heap]")
    elif inside and line.startswith("VmFlags"):
        found.append("hg" in line.split())
    elif inside and line.startswith("Rss"):
        size += int(line.split()[1])
print(any(found), size < 1_000_000)
"""
    done = launch(script)
    assert done.stdout.split() == ["True", "True"], done.stderr
