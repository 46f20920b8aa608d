"""Expressions of sparse matrices, evaluated with SciPy and with this package on ranks, and compared.

Run on ranks: ``diffuse run -n N matrices.py`` prints what differs, then OK.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy
import scipy.sparse as scipy_sparse

import diffuse_trace.numpy as dnp
import diffuse_trace.sparse as diffuse_sparse

rng = numpy.random.default_rng(7)
n, m = 23, 17
TRIPLES = (rng.integers(0, n, 90), rng.integers(0, m, 90), rng.random(90))
UNSORTED = (numpy.array([1.0, 2, 3, 4, 5]), numpy.array([2, 0, 1, 1, 1]), numpy.array([0, 2, 2, 5]))
DENSE = numpy.where(rng.random((n, m)) < 0.3, rng.random((n, m)), 0)
SQUARE = scipy_sparse.random_array((n, n), density=0.2, rng=3).tocsr()
INTEGERS = (SQUARE * 10).astype(numpy.int64)
COMPLEX = SQUARE * (1 + 2j)
TALL = scipy_sparse.random_array((n, 2), density=0.5, rng=4).tocsr()
X, Y, XX = rng.random(m), rng.random(n), rng.random((m, 3))
TOY = (2.0, -1.0, 0.5)

EXPRESSIONS = """
sp.coo_array((TRIPLES[2], (TRIPLES[0], TRIPLES[1])), shape=(n, m))
sp.csr_array(DENSE)
sp.csc_matrix(DENSE)
sp.csr_array(UNSORTED, shape=(3, 4))
sp.csc_array(UNSORTED, shape=(4, 3))
sp.csr_array((5, 4))
sp.csr_array((0, 4))
sp.csr_array((3, 0))
sp.csr_array(SQUARE, dtype="f4")
sp.csr_array(INTEGERS)
sp.csr_array(COMPLEX)
sp.dia_array((DENSE[:3], [0, -2, 1]), shape=(m, m))
sp.coo_array((TRIPLES[2], (TRIPLES[0], TRIPLES[1])))
sp.csr_array(SQUARE).T
sp.csr_array(DENSE).T
sp.csr_array(COMPLEX).conj()
sp.csr_array(COMPLEX).real
sp.csr_array(COMPLEX).imag
abs(sp.csr_array(-SQUARE))
-sp.csr_array(DENSE)
sp.csr_array(SQUARE).power(2)
sp.csr_array(DENSE).diagonal()
sp.csr_array(DENSE).diagonal(3)
sp.csr_array(DENSE).diagonal(-5)
sp.csr_array(DENSE).diagonal(-22)
sp.csr_array(DENSE).diagonal(40)
sp.csr_array(DENSE.T.copy()).diagonal(-3)
sp.csr_array(DENSE).sum()
sp.csr_array(DENSE).sum(axis=0)
sp.csr_array(DENSE).sum(axis=1)
sp.csr_array(DENSE).mean()
sp.csr_array(DENSE).mean(axis=1)
sp.csr_array(DENSE).max()
sp.csr_array(-DENSE).min()
sp.csr_matrix(DENSE).sum(axis=1)
sp.csr_array(INTEGERS).sum(axis=0)
sp.csr_array(SQUARE) + sp.csr_array(INTEGERS)
sp.csr_array(SQUARE) - sp.csr_array(COMPLEX)
sp.csr_array(SQUARE) * 2.5
3 * sp.csr_array(SQUARE)
sp.csr_array(SQUARE) / 4
sp.csr_matrix(SQUARE) * sp.csr_matrix(SQUARE)
sp.csr_array(SQUARE) * sp.csr_array(INTEGERS)
sp.csr_array(SQUARE).multiply(Y)
sp.csr_array(SQUARE).multiply(Y[:, None])
sp.csr_array(DENSE).multiply(DENSE)
sp.csr_array(SQUARE) @ sp.csr_array(DENSE)
sp.csr_array(DENSE).T @ sp.csr_array(DENSE)
sp.csr_array(DENSE) @ X
sp.csr_array(DENSE) @ XX
Y @ sp.csr_array(DENSE)
sp.csr_array(INTEGERS) @ numpy.arange(n)
sp.csr_array(COMPLEX) @ Y
sp.csr_array(SQUARE.astype("f4")) @ Y.astype("f4")
sp.csr_array(SQUARE != 0) @ (Y > 0.5)
sp.csr_array(TALL) @ X[:2]
TALL @ sp.csr_array(DENSE[:2])
sp.csr_matrix(SQUARE) * Y
sp.csr_array(DENSE).dot(X)
sp.csr_array(DENSE)[3, 4]
sp.csr_array(DENSE)[-1, -2]
sp.csr_array(DENSE)[2:9]
sp.csr_array(DENSE)[::-2]
sp.csr_array(DENSE)[1:20:3, 2:8]
sp.csr_array(DENSE)[[4, 0, 4]]
sp.csr_array(DENSE)[:, [3, 3, 0]]
sp.csr_array(DENSE)[5:5]
sp.csr_array(DENSE)[..., 3:5]
sp.csr_array(DENSE)[numpy.ix_([4, 0, 4], [1, 2])]
sp.csr_array(DENSE)[:, numpy.arange(m) % 3 == 0]
sp.csr_matrix(DENSE)[3]
sp.csr_matrix(DENSE)[:, -2]
sp.csr_matrix(DENSE)[numpy.ix_([4, 0, 4], [1, 2])]
Y @ sp.csr_array(COMPLEX)
sp.csr_array(COMPLEX).T @ Y
sp.diags_array(TOY, offsets=[0, 2, -3], shape=(n, n))
sp.diags([Y, Y[:-1]], [0, 1])
sp.diags_array([1, 2, 3], offsets=1)
sp.diags_array([[5.0]], offsets=[-1], shape=(4, 6))
sp.eye_array(6)
sp.eye_array(5, 8, k=2)
sp.eye(4, k=-1)
sp.identity(3)
sp.kron(sp.csr_array(SQUARE), sp.eye_array(3))
sp.kron(sp.eye_array(3), sp.csr_array(TALL))
sp.tril(sp.csr_array(SQUARE), -1)
sp.triu(sp.csr_array(DENSE), 1)
sp.hstack([sp.csr_array(SQUARE), sp.csr_array(TALL)])
sp.vstack([sp.csr_array(DENSE), sp.csr_array(DENSE)])
sp.block_array([[sp.csr_array(SQUARE), None], [None, sp.csr_array(TALL)]])
sp.block_diag([sp.csr_array(SQUARE), sp.csr_array(TALL)])
sp.csr_array(DENSE).nnz
sp.csr_array(DENSE).shape
sp.csr_array(DENSE).indptr
sp.csr_array(DENSE).indices
sp.csr_array(DENSE).data
sp.csr_array(DENSE).has_canonical_format
sp.csr_array(DENSE).count_nonzero()
sp.csr_matrix(SQUARE).getnnz(axis=0)
sp.find(sp.csr_array(DENSE))[2].sum()
sp.csr_array(DENSE).tocsc().format
sp.csr_array(DENSE).todia().tocoo().tocsr()
sp.csr_array(DENSE).astype("f4").dtype
repr(sp.csr_array(DENSE))
sp.csr_array(SQUARE).max(axis=1)
sp.csr_array(SQUARE).min(axis=0)
changed(sp.csr_array(SQUARE), "setdiag", 7.0)
changed(sp.csr_array(DENSE), "setdiag", X[:4], -2)
changed(sp.csr_array(SQUARE * 0), "eliminate_zeros")
changed(sp.csr_array(UNSORTED, shape=(3, 4)), "sum_duplicates")
sp.random_array((9, 8), density=0.3, rng=5)
sp.csr_array(SQUARE) ** 2
sp.csr_matrix(SQUARE) ** 2
sp.csr_array(SQUARE) - 0
"""

ERRORS = """
sp.csr_array(DENSE) @ Y
sp.csr_array(DENSE) @ sp.csr_array(DENSE)
sp.csr_array(SQUARE) + sp.csr_array(DENSE)
sp.csr_array(DENSE)[99, 0]
sp.csr_array(DENSE)[[99]]
sp.csr_array(DENSE)[1, 2, 3]
sp.coo_array((TRIPLES[2], (TRIPLES[0], TRIPLES[1])), shape=(3, 3))
sp.csr_array(DENSE) @ 3
len(sp.csr_array(DENSE))
bool(sp.csr_array(DENSE))
sp.csr_array(DENSE).power([1, 2])
sp.coo_array((TRIPLES[2], (TRIPLES[0][1:], TRIPLES[1])))
sp.csr_array((3, -1))
sp.csr_array(SQUARE) + 1
"""


def changed(matrix: Any, method: str, *args: Any) -> Any:
    """The matrix after a method that changes it."""
    getattr(matrix, method)(*args)
    return matrix


def plain(value: Any) -> Any:
    """What is compared."""
    if scipy_sparse.issparse(value) or diffuse_sparse.issparse(value):
        value = value.toarray()
    return str(value) if isinstance(value, str | numpy.dtype | tuple) else numpy.asarray(value)


def evaluate(text: str, sp: Any) -> Any:
    return eval(text, {**globals(), "sp": sp})


def expressions(text: str) -> list[str]:
    """The expressions of a text."""
    return text.strip().splitlines()


def main() -> int:
    """Evaluate everything; the number of differences."""
    wrong = []
    for text in expressions(EXPRESSIONS):
        expected = evaluate(text, scipy_sparse)
        got = evaluate(text, diffuse_sparse)
        want, have = plain(expected), plain(got)
        if isinstance(want, str):
            if want != have:
                wrong.append(f"{text}: {have!r} instead of {want!r}")
        elif want.shape != have.shape or want.dtype != have.dtype and want.dtype.kind != "i":
            wrong.append(f"{text}: {have.dtype}{have.shape} instead of {want.dtype}{want.shape}")
        elif not numpy.allclose(want, have, rtol=1e-5 if want.dtype == numpy.float32 else 1e-12):
            wrong.append(f"{text}: {have} instead of {want}")
    for text in expressions(ERRORS):
        try:
            evaluate(text, scipy_sparse)
        except Exception as error:
            expected = type(error)
        else:
            raise AssertionError(f"SciPy accepts {text}")
        try:
            evaluate(text, diffuse_sparse)
            wrong.append(f"{text}: no error instead of {expected.__name__}")
        except expected:
            pass
        except Exception as error:
            wrong.append(f"{text}: {type(error).__name__} ({error}) instead of {expected.__name__}")
    print("\n".join(wrong) or "OK")
    return len(wrong)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    dnp.zeros(1)
    sys.exit(bool(main()))
