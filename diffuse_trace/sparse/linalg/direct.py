"""What needs the whole matrix: direct solution, and norms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse.linalg

from ... import recording
from ...errors import NotSupportedError
from ...numpy import core
from ...numpy.array import ndarray
from .. import rows as distributed
from ..arrays import as_sparse

#: Unknowns of the largest system that every rank solves for itself.
MOST_UNKNOWNS = 100_000


def spsolve(A: Any, b: Any) -> ndarray:
    """The solution of ``A x = b`` by factorisation; every rank gathers the matrix and solves it by itself, with SciPy.

    Args:
        A: n x n, at most `MOST_UNKNOWNS` rows.
        b: n, or n x k, elements.

    Raises:
        ValueError: shapes do not fit.
        NotSupportedError: the matrix is larger.
    """
    a = as_sparse(A)
    b = core.as_array(b)
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"matrix must be square (has shape {a.shape}) ({recording.user_line()})")
    if a.shape[0] != b.shape[0]:
        raise ValueError(f"matrix - rhs dimension mismatch ({a.shape} - {b.shape[0]}) ({recording.user_line()})")
    if a.shape[0] > MOST_UNKNOWNS:
        raise NotSupportedError(
            f"{recording.user_line()}: spsolve gathers the matrix, and does so up to {MOST_UNKNOWNS} unknowns, not "
            f"{a.shape[0]}; use cg, bicgstab or gmres with a preconditioner"
        )
    whole = distributed.gather(a._local, a.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        return core.as_array(scipy.sparse.linalg.spsolve(whole.tocsc(), np.asarray(b)))


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """The norm of a sparse matrix: Frobenius (by default), 1, -1, inf, -inf; with ``axis`` 2-norms of rows or columns.

    Raises:
        NotImplementedError: norms that need singular values.
        ValueError: an unknown norm.
    """
    a = as_sparse(x)
    if axis is not None:
        if ord not in (None, 2):
            raise NotImplementedError("only 2-norms of rows and columns are supported")
        return core.ufunc("sqrt", core.as_array(abs(a).power(2).sum(axis=axis)))
    if ord in (None, "fro", "f"):
        parts = distributed.everyone(np.array([np.sum(np.abs(a._local.data) ** 2)]))
        return np.sqrt(np.sum(np.concatenate(parts)))
    if ord in (2, -2, "nuc"):
        raise NotImplementedError
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    sums = abs(a).sum(axis=0 if abs(ord) == 1 else 1)
    return sums.max()[()] if ord > 0 else sums.min()[()]
