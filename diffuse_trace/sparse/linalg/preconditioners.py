"""Preconditioners: operators that approximate the inverse of a matrix, to be given as ``M``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import recording
from ...numpy.array import ndarray
from ..arrays import as_sparse
from .operators import LinearOperator


def jacobi(A: Any) -> LinearOperator:
    """Division by the diagonal of a sparse matrix.

    Raises:
        ValueError: the matrix is not square, or an element of its diagonal is zero.
    """
    a = as_sparse(A)
    scale = _inverse_diagonal(a)
    return LinearOperator(a.shape, lambda x: scale * x, lambda x: scale.conj() * x, dtype=a.dtype)


def chebyshev(A: Any, degree: int = 3, bounds: tuple[float, float] | None = None) -> LinearOperator:
    """A Chebyshev polynomial of the matrix scaled by its diagonal, for Hermitian positive definite ones.

    Args:
        degree: products with A that an application takes, plus one.
        bounds: the interval of eigenvalues of ``inv(D) A`` that is damped; by default up to what row sums of absolute
            values bound them by, from a thirtieth of that.

    Source: Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, section 12.3, algorithm 12.1.

    Raises:
        ValueError: the matrix is not square, a diagonal element is zero, or the degree or the bounds are impossible.
    """
    a = as_sparse(A)
    scale = _inverse_diagonal(a)
    if degree < 1:
        raise ValueError(f"degree is {degree}, and must be at least 1 ({recording.user_line()})")
    if bounds is None:
        high = float(abs(scale * abs(a).sum(axis=1)).max()) if a.shape[0] else 1.0
        bounds = high / 30, high
    low, high = bounds
    if not 0 < low < high:
        raise ValueError(f"the bounds {bounds} must be positive and ascend ({recording.user_line()})")
    center, half = (high + low) / 2, (high - low) / 2
    sigma = center / half

    def apply(r: ndarray) -> ndarray:
        rho = 1 / sigma
        d = (scale * r) * (1 / center)
        z = d
        for _ in range(degree - 1):
            following = 1 / (2 * sigma - rho)
            d = following * rho * d + (2 * following / half) * (scale * (r - a @ z))
            z = z + d
            rho = following
        return z

    return LinearOperator(a.shape, apply, apply, dtype=a.dtype)


def _inverse_diagonal(a: Any) -> ndarray:
    if a.shape[0] != a.shape[1]:
        raise ValueError(f"expected square matrix, but got shape={a.shape} ({recording.user_line()})")
    diagonal = a.diagonal()
    if a.shape[0] and bool((diagonal == 0).any()):
        raise ValueError(f"the diagonal of the matrix has a zero ({recording.user_line()})")
    return (np.float64(1) if diagonal.dtype.kind in "biu" else diagonal.dtype.type(1)) / diagonal
