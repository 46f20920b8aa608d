"""Executables run in the calling thread: when a program has been replayed its results are there."""

from __future__ import annotations

import numpy
import pytest

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
