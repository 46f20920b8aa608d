"""Rows of like values: that they are found where there are many, take little memory, and hold the matrix."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch

import diffuse_trace.numpy as np
import diffuse_trace.sparse as sparse
from diffuse_trace.sparse import alike, layouts
from diffuse_trace.sparse.alike import Alike, by_values


def repeating(rows: int, columns: int, sequences: list[numpy.ndarray], rng: numpy.random.Generator) -> Any:
    """A matrix whose rows have the values of one of some sequences, in any columns."""
    chosen = rng.integers(len(sequences), size=rows)
    indices = [numpy.sort(rng.choice(columns, len(sequences[k]), replace=False)) for k in chosen]
    lengths = [len(i) for i in indices]
    data = numpy.concatenate([sequences[k] for k in chosen])
    indptr = numpy.concatenate([[0], numpy.cumsum(lengths)])
    return scipy.sparse.csr_array((data, numpy.concatenate(indices), indptr), shape=(rows, columns))


def laid_out(matrix: Any) -> Alike | None:
    own, ghosts = (0, matrix.shape[1]), numpy.zeros(0, numpy.int64)
    return by_values(matrix.indptr, matrix.indices.astype(numpy.int64), matrix.data, own, ghosts)


def held(layout: Alike, shape: tuple[int, int]) -> numpy.ndarray:
    """The matrix that a layout holds."""
    made, at = numpy.zeros(shape, layout.values.dtype), 0
    for s, k in enumerate(layout.which):
        values = layout.values[layout.begins[k] : layout.begins[k + 1]]
        side = layout.columns[at : at + 8 * len(values)].reshape(-1, 8)
        for lane in range(8):
            made[layout.order[8 * s + lane], side[:, lane]] = values
        at += side.size
    for r, i in enumerate(layout.order[8 * len(layout.which) :]):
        elements = slice(layout.ends[r], layout.ends[r + 1])
        made[i, layout.other_columns[elements]] = layout.other_values[elements]
    assert at == len(layout.columns) and sorted(layout.order) == list(range(shape[0]))
    return made


def test_sequences_are_kept_once() -> None:
    rng = numpy.random.default_rng(0)
    matrix = repeating(2000, 500, [rng.random(n) for n in (3, 7, 7, 0, 5)], rng)
    layout = laid_out(matrix)
    assert layout is not None and len(layout.begins) - 1 == 5 and len(layout.which) >= 245
    numpy.testing.assert_array_equal(held(layout, matrix.shape), matrix.toarray())
    assert layouts.nbytes(layout) < 0.6 * (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def test_other_matrices_are_not_alike() -> None:
    rng = numpy.random.default_rng(0)
    assert laid_out(scipy.sparse.random_array((400, 400), density=0.05, rng=0, format="csr")) is None
    assert laid_out(scipy.sparse.csr_array((5, 5))) is None
    assert laid_out(repeating(100, 50, [rng.random(3) for _ in range(60)], rng)) is None, (
        "no eight rows of one sequence"
    )


def test_sequences_whose_sums_are_equal_by_chance_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = numpy.random.default_rng(0)
    monkeypatch.setattr(alike, "_factors", lambda places, words: numpy.zeros((places, words), numpy.uint64))
    matrix = repeating(300, 40, [numpy.ones(4), numpy.arange(1.0, 5)], rng)
    monkeypatch.setattr(alike, "_MOST", 0.2)
    layout = laid_out(matrix)
    assert layout is not None
    numpy.testing.assert_array_equal(held(layout, matrix.shape), matrix.toarray())


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_rows_of_like_values(data: st.DataObject) -> None:
    rng = numpy.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = data.draw(st.sampled_from(["f4", "f8", "c8", "c16"]))
    sequences = [(10 * rng.random(rng.integers(0, 9))).astype(dtype) for _ in range(rng.integers(1, 5))]
    matrix = repeating(int(rng.integers(1, 90)), int(rng.integers(9, 60)), sequences, rng)
    layout = laid_out(matrix)
    if layout is not None:
        numpy.testing.assert_array_equal(held(layout, matrix.shape), matrix.toarray())
    x = rng.random(matrix.shape[1]).astype(dtype)
    made = sparse.csr_array(matrix) @ np.asarray(x)
    numpy.testing.assert_allclose(numpy.asarray(made), matrix @ x, rtol=1e-5 if dtype in ("f4", "c8") else 1e-13)


RANKS = """
import numpy, scipy.sparse
import diffuse_trace as diffuse, diffuse_trace.numpy as np, diffuse_trace.sparse as sparse
from diffuse_trace.sparse import product
rng = numpy.random.default_rng(0)
for dtype in ("f4", "f8", "c8", "c16", "i8"):
    for rows in (3, 100, 2000):
        indices = numpy.stack([numpy.sort(rng.choice(rows, 3, replace=False)) for _ in range(rows)])
        kind = rng.integers(3, size=rows)
        data = (numpy.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]) * 1.5).astype(dtype)[kind]
        host = scipy.sparse.csr_array((data.ravel(), indices.ravel(), numpy.arange(rows + 1) * 3), shape=(rows, rows))
        x = (10 * rng.random(rows)).astype(dtype)
        matrix = sparse.csr_array(host)
        times = diffuse.jit(lambda x: matrix @ x)
        numpy.testing.assert_array_equal(numpy.asarray(times(np.asarray(x))), host @ x)
        if rows == 2000 and dtype == "f8":
            print(type(product.laid_out(matrix, numpy.dtype(dtype)).data.buffer).__name__)
        # Other values of the same structure, of which no two rows are alike.
        other = (10 * rng.random(host.nnz)).astype(dtype)
        host.data[:] = other
        matrix = sparse.csr_array(host)
        numpy.testing.assert_array_equal(numpy.asarray(times(np.asarray(x))), host @ x)
"""


@pytest.mark.ranks(1, 2, 3)
def test_products_on_ranks(ranks: int) -> None:
    done = launch(RANKS, ranks)
    assert done.stdout.split() == ["Alike"], done.stderr
