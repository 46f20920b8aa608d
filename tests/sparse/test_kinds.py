"""Rows of few kinds: that they are found where there are some, take little memory, and hold the matrix."""

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
from diffuse_trace.sparse import layouts
from diffuse_trace.sparse.kinds import Kinds, by_kinds


def laid_out(matrix: Any) -> Kinds | None:
    matrix = matrix.tocsr()
    matrix.sort_indices()
    own, ghosts = (0, matrix.shape[1]), numpy.zeros(0, numpy.int64)
    return by_kinds(matrix.indptr, matrix.indices.astype(numpy.int64), matrix.data, own, ghosts)


def held(layout: Kinds, shape: tuple[int, int]) -> numpy.ndarray:
    """The matrix that a layout holds."""
    made = numpy.zeros(shape, layout.values.dtype)
    for i, kind, first in zip(layout.order, layout.which, layout.firsts, strict=True):
        elements = slice(layout.begins[kind], layout.begins[kind + 1])
        made[i, first + layout.shifts[elements]] = layout.values[elements]
    return made


def prolongation(coarse: int) -> Any:
    line = scipy.sparse.lil_array((2 * coarse + 1, coarse))
    for i in range(coarse):
        line[2 * i : 2 * i + 3, [i]] = numpy.array([[0.5], [1.0], [0.5]])
    return scipy.sparse.kron(line, line).tocsr()


def test_prolongations_have_few_kinds_and_take_less_memory() -> None:
    matrix = prolongation(31)
    for m, kinds in ((matrix, 10), (matrix.T.tocsr(), 1)):
        layout = laid_out(m)
        assert layout is not None and len(layout.begins) - 1 <= kinds
        numpy.testing.assert_array_equal(held(layout, m.shape), m.toarray())
        assert layouts.nbytes(layout) < 0.55 * (m.data.nbytes + m.indices.nbytes + m.indptr.nbytes)


def test_other_matrices_have_none() -> None:
    for density in (0.01, 0.2):
        assert laid_out(scipy.sparse.random_array((400, 400), density=density, rng=0)) is None
    assert laid_out(scipy.sparse.csr_array((5, 5))) is None
    assert laid_out(scipy.sparse.csr_array(numpy.random.default_rng(0).random((200, 300)))) is None, "each row a kind"
    assert laid_out(scipy.sparse.eye_array(100)) is None, "as short as what holds them"


def test_equal_values_of_other_bits_are_kept_apart() -> None:
    rows = numpy.ones((64, 6))
    rows[::2] = -0.0
    layout = laid_out(scipy.sparse.csr_array((rows.ravel(), (numpy.repeat(range(64), 6), numpy.tile(range(6), 64)))))
    assert layout is not None and len(layout.begins) == 3
    assert numpy.signbit(held(layout, (64, 6))[::2]).all()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_rows_of_few_kinds(data: st.DataObject) -> None:
    rng = numpy.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows, columns, kinds = rng.integers(1, 90), rng.integers(12, 60), rng.integers(1, 5)
    patterns = [numpy.sort(rng.choice(12, rng.integers(1, 12), replace=False)) for _ in range(kinds)]
    values = [rng.integers(1, 9, len(p)).astype(float) for p in patterns]
    matrix = numpy.zeros((rows, columns))
    for i in range(rows):
        k = rng.integers(kinds)
        matrix[i, patterns[k] + rng.integers(columns - 11)] = values[k]
    layout = laid_out(scipy.sparse.csr_array(matrix))
    if layout is not None:
        numpy.testing.assert_array_equal(held(layout, matrix.shape), matrix)
    x = rng.random(columns)
    made = sparse.csr_array(scipy.sparse.csr_array(matrix)) @ np.asarray(x)
    numpy.testing.assert_array_equal(numpy.asarray(made), scipy.sparse.csr_array(matrix) @ x)


RANKS = """
import numpy, scipy.sparse
import diffuse_trace as diffuse, diffuse_trace.numpy as np, diffuse_trace.sparse as sparse
from diffuse_trace.sparse import product
for dtype in ("f4", "f8", "c8", "c16", "i8"):
    for coarse in (1, 3, 15, 40):
        line = scipy.sparse.lil_array((2 * coarse + 1, coarse))
        for i in range(coarse):
            line[2 * i : 2 * i + 3, [i]] = numpy.array([[1], [2], [1]])
        p = scipy.sparse.kron(line, line).tocsr().astype(dtype)
        for host in (p, p.T.tocsr()):
            x = (10 * numpy.random.default_rng(0).random(host.shape[1])).astype(dtype)
            matrix = sparse.csr_array(host)
            made = numpy.asarray(diffuse.jit(lambda x: matrix @ x)(np.asarray(x)))
            numpy.testing.assert_array_equal(made, host @ x)
            if coarse == 40 and dtype == "f8":
                print(type(product.laid_out(matrix, made.dtype).data.buffer).__name__)
"""


@pytest.mark.ranks(1, 2, 3, 4)
def test_products_on_ranks(ranks: int) -> None:
    done = launch(RANKS, ranks)
    assert done.stdout.split() == ["Kinds", "Kinds"], done.stderr
