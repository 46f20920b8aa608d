"""Linear operators: matrices, functions, and what is built from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import recording
from ...numpy import core
from ...numpy.array import ndarray


class LinearOperator:
    """A linear map given by functions in NumPy style, which are recorded into the programs that use it.

    Args:
        shape: (rows, columns).
        matvec: the product with a vector of as many elements as there are columns.
        rmatvec: that with the adjoint.
        dtype: of the results; by default found when it is first needed.
    """

    __array_ufunc__ = None

    def __init__(
        self,
        shape: tuple[int, int],
        matvec: Callable[[Any], Any],
        rmatvec: Callable[[Any], Any] | None = None,
        matmat: Callable[[Any], Any] | None = None,
        dtype: Any = None,
        rmatmat: Callable[[Any], Any] | None = None,
    ) -> None:
        if len(shape) != 2 or min(shape) < 0:
            raise ValueError(f"invalid shape {shape!r} (must be 2-d) ({recording.user_line()})")
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = None if dtype is None else np.dtype(dtype)
        self._matvec, self._rmatvec, self._matmat, self._rmatmat = matvec, rmatvec, matmat, rmatmat

    ndim = 2

    def matvec(self, x: Any) -> ndarray:
        """The product with a vector, (n,) or (n, 1)."""
        x = core.as_array(x)
        if x.shape not in ((self.shape[1],), (self.shape[1], 1)):
            raise ValueError(f"dimension mismatch: {self.shape} and {x.shape} ({recording.user_line()})")
        return core.as_array(self._matvec(x if x.ndim == 1 else x[:, 0])).reshape(self.shape[0], *x.shape[1:])

    def rmatvec(self, x: Any) -> ndarray:
        """The product of the adjoint with a vector."""
        if self._rmatvec is None:
            raise NotImplementedError("rmatvec is not defined")
        return core.as_array(self._rmatvec(core.as_array(x)))

    def matmat(self, x: Any) -> ndarray:
        """The product with a matrix, column by column where no function for it was given."""
        x = core.as_array(x)
        if self._matmat is not None:
            return core.as_array(self._matmat(x))
        from ...numpy.joining import stack

        return stack([self.matvec(x[:, k]) for k in range(x.shape[1])], axis=1)

    def dot(self, x: Any) -> Any:
        """The product with a vector, a matrix, a scalar or another operator."""
        if isinstance(x, LinearOperator):
            other = x
            if self.shape[1] != other.shape[0]:
                raise ValueError(f"cannot multiply {self} and {other}: shape mismatch")
            return LinearOperator((self.shape[0], other.shape[1]), lambda v: self.matvec(other.matvec(v)))
        if np.isscalar(x):
            return LinearOperator(self.shape, lambda v: self.matvec(v) * x, dtype=self.dtype)
        x = core.as_array(x)
        return self.matvec(x) if x.ndim == 1 else self.matmat(x)

    __call__ = dot

    def __matmul__(self, x: Any) -> Any:
        if np.isscalar(x):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        return self.dot(x)

    def __mul__(self, x: Any) -> Any:
        return self.dot(x)

    def __rmul__(self, x: Any) -> Any:
        return self.dot(x) if np.isscalar(x) else NotImplemented

    def __add__(self, other: Any) -> LinearOperator:
        other = aslinearoperator(other)
        if self.shape != other.shape:
            raise ValueError(f"cannot add {self} and {other}: shape mismatch")
        return LinearOperator(self.shape, lambda v: self.matvec(v) + other.matvec(v))

    def __neg__(self) -> LinearOperator:
        return LinearOperator(self.shape, lambda v: -self.matvec(v), dtype=self.dtype)

    def __sub__(self, other: Any) -> LinearOperator:
        return self + (-aslinearoperator(other))

    def adjoint(self) -> LinearOperator:
        """The adjoint, where `rmatvec` is known."""
        return LinearOperator(self.shape[::-1], self.rmatvec, self.matvec, dtype=self.dtype)

    H = property(adjoint)

    def __repr__(self) -> str:
        kind = "unspecified dtype" if self.dtype is None else f"dtype={self.dtype}"
        return f"<{self.shape[0]}x{self.shape[1]} LinearOperator with {kind}>"


def aslinearoperator(a: Any) -> LinearOperator:
    """A matrix of this package, a dense array or an operator as a `LinearOperator`.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(a, LinearOperator):
        return a
    if hasattr(a, "_local") and hasattr(a, "shape"):
        return LinearOperator(a.shape, lambda x: a @ x, lambda x: _adjoint_product(a, x), lambda x: a @ x, a.dtype)
    if hasattr(a, "matvec") and hasattr(a, "shape"):
        return LinearOperator(a.shape, a.matvec, getattr(a, "rmatvec", None), None, getattr(a, "dtype", None))
    if isinstance(a, ndarray | np.ndarray):
        dense = core.as_array(a)
        if dense.ndim != 2:
            raise ValueError(f"array must have ndim = 2, not {dense.ndim} ({recording.user_line()})")
        m, n = dense.shape
        return LinearOperator(
            (m, n), lambda x: dense @ x, lambda x: dense.conj().T @ x, lambda x: dense @ x, dense.dtype
        )
    raise TypeError(f"{recording.user_line()}: {type(a).__name__} objects are no linear operators")


def operator_of(a: Any, n: int, what: str) -> LinearOperator:
    """A matrix, an operator or a function of vectors as an n x n operator.

    Raises:
        ValueError: it is not n x n.
    """
    if a is None:
        return LinearOperator((n, n), lambda x: x)
    if callable(a) and not hasattr(a, "shape"):
        return LinearOperator((n, n), a)
    made = aslinearoperator(a)
    if made.shape != (n, n):
        raise ValueError(f"{what} has the shape {made.shape}, and must be {n} x {n} ({recording.user_line()})")
    return made


def _adjoint_product(matrix: Any, x: Any) -> Any:
    """The product with the adjoint, by way of the transpose, which the matrix keeps."""
    return matrix.T @ x if matrix.dtype.kind != "c" else (matrix.T @ core.as_array(x).conj()).conj()
