"""Sparse matrices and solvers against SciPy, and Matrix Market files, on several numbers of ranks."""

from __future__ import annotations

import random
import re
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest
import random_matrices
from launching import launch

import diffuse_trace.sparse as sparse
from diffuse_trace.errors import NotSupportedError

HERE = Path(__file__).parent


@pytest.mark.ranks(1, 2, 3, 4)
def test_matrices_equal_scipys(ranks: int) -> None:
    done = launch(HERE / "matrices.py", ranks, timeout=200)
    assert done.stdout.strip() == "OK", done.stdout + done.stderr


@hypothesis.settings(deadline=None)
@hypothesis.given(st.randoms(use_true_random=False))
def test_random_matrices_equal_scipys(choose: random.Random) -> None:
    assert not random_matrices.differences(choose)


@pytest.mark.ranks(2, 3, 4)
def test_random_matrices_on_ranks(ranks: int) -> None:
    done = launch(HERE / "random_matrices.py", ranks, args=[f"{20 * ranks}-{20 * ranks + 20}"], timeout=200)
    assert done.stdout.strip() == "OK", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (numpy.s_[1], "use a slice of one"),
        (numpy.s_[:, 1], "use a slice of one"),
        (([0, 1], [1, 2]), "A[numpy.ix_(rows, columns)]"),
        (numpy.s_[None], "two dimensions"),
        (numpy.ones((4, 4), bool), "one dimension"),
    ],
)
def test_what_is_not_selected_says_so(key: object, message: str) -> None:
    with pytest.raises(NotSupportedError, match=re.escape(message)) as error:
        sparse.eye_array(4)[key]
    assert "test_sparse.py:" in str(error.value)


def test_the_transpose_is_kept_until_the_matrix_changes() -> None:
    matrix = sparse.csr_array(numpy.arange(6.0).reshape(2, 3))
    assert matrix.T is matrix.T
    matrix.data = numpy.arange(5.0)
    assert numpy.array_equal(numpy.asarray(matrix.T.toarray()), [[0, 2], [0, 3], [1, 4]])
    matrix.T.setdiag(7)
    assert numpy.array_equal(numpy.asarray(matrix.T.toarray()), [[0, 2], [0, 3], [1, 4]])


@pytest.mark.ranks(1, 2, 4)
def test_products(ranks: int) -> None:
    few = ["--few"] if ranks > 1 else []
    done = launch(HERE / "solvers.py", ranks, args=["products", "small", *few], timeout=250)
    assert done.stdout.strip() == "OK", done.stdout + done.stderr


@pytest.mark.ranks(1, 3)
def test_solvers(ranks: int) -> None:
    few = ["--few"] if ranks > 1 else []
    done = launch(HERE / "solvers.py", ranks, args=["solutions", "verdicts", *few], timeout=250)
    assert done.stdout.strip() == "OK", done.stdout + done.stderr


MARKET = """
import sys
import numpy
import scipy.io
import scipy.sparse
import diffuse_trace as diffuse
import diffuse_trace.sparse as sp

right = scipy.sparse.random_array((40, 30), density=0.1, rng=1)
if diffuse.rank() == 0:
    scipy.io.mmwrite("scipys.mtx", right)
    scipy.io.mmwrite("symmetric.mtx", scipy.sparse.csr_array(right @ right.T))
diffuse.numpy.ones(3).sum().item()
a = sp.mmread("scipys.mtx").tocsr()
assert numpy.array_equal(numpy.asarray(a.toarray()), right.toarray())
s = sp.mmread("symmetric.mtx").tocsr()
assert numpy.allclose(numpy.asarray(s.toarray()), (right @ right.T).toarray(), rtol=1e-14)
sp.mmwrite("ours.mtx", a * 3)
assert numpy.allclose(scipy.io.mmread("ours.mtx").toarray(), right.toarray() * 3, rtol=1e-14)
print("OK")
"""


@pytest.mark.ranks(1, 3)
def test_matrix_market_files(ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = launch(MARKET, ranks)
    assert done.stdout.strip() == "OK", done.stderr


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 2.0\n2 2 1.0\n", "is it complete?"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 2.0\n9 2 1.0\n", "outside the 3 x 3 matrix"),
        ("no matrix\n", "not a Matrix Market file"),
        ("", "not a Matrix Market file"),
    ],
)
def test_damaged_files(ranks: int, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.mtx"
    path.write_text(text)
    done = launch(f"import diffuse_trace.sparse as sp\nsp.mmread({str(path)!r})\n", ranks)
    assert done.returncode == 1
    assert message in done.stderr and "damaged.mtx" in done.stderr, done.stderr
    assert done.stderr.count("Traceback") == 1
