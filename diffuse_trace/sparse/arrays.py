"""Sparse matrices with SciPy's names, distributed by rows."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from .. import recording
from ..errors import NotSupportedError, TracingError
from ..numpy import core
from ..numpy.array import ndarray
from ..recording import Array
from . import rows as distributed
from .rows import Structure

_NAMES = {
    "csr": "Compressed Sparse Row",
    "csc": "Compressed Sparse Column",
    "coo": "COOrdinate",
    "dia": "DIAgonal",
}


class SparseArray:
    """The base of all sparse matrices: the own rows of this rank, a structure, and a format, which is only a name.

    Whatever the format, rank r holds a balanced block of rows in CSR form.  Arithmetic and conversions follow SciPy;
    everything is collective.
    """

    format: ClassVar[str] = "csr"
    is_matrix: ClassVar[bool] = False
    ndim = 2
    __array_ufunc__ = None
    __array_priority__ = 100.0

    shape: tuple[int, int]

    def __init__(self, arg: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> None:
        self.shape, local = _constructed(self.format, arg, shape)
        if dtype is not None:
            local = local.astype(dtype)
        self._set(local, Structure())

    def _set(self, local: Any, structure: Structure) -> None:
        self._rows, self._structure, self._version = sp.csr_array(local), structure, 0
        self._count: int | None = None
        self._transpose: tuple[int, Any] | None = None

    @classmethod
    def _made(cls, shape: tuple[int, int], local: Any, structure: Structure | None = None) -> Any:
        made = cls.__new__(cls)
        made.shape = (int(shape[0]), int(shape[1]))
        made._set(local, structure or Structure())
        return made

    @classmethod
    def from_local_triples(cls, shape: tuple[int, int], rows: Any, columns: Any, values: Any) -> Any:
        """A matrix from triples of which each rank gives its own, in any order; duplicates are added."""
        arrays = (np.asarray(a) for a in (rows, columns, values))
        return cls._made(shape, distributed.from_triples(_shape(shape), *arrays))

    def _like(self, local: Any, same: bool = False, shape: tuple[int, int] | None = None) -> Any:
        return type(self)._made(shape or self.shape, local, self._structure if same else None)

    @property
    def __diffuse_version__(self) -> int:
        return self._version

    @property
    def _local(self) -> Any:
        """The own rows; a function that is being traced depends on them from now on."""
        recording.depend(self)
        return self._rows

    # --- what it is --------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._local.dtype

    @property
    def nnz(self) -> int:
        """Stored elements, explicit zeros included."""
        if self._count is None:
            self._count = int(sum(int(n[0]) for n in distributed.everyone(np.array([self._local.nnz], np.int64))))
        return self._count

    @property
    def size(self) -> int:
        """As `nnz`."""
        return self.nnz

    @property
    def local(self) -> Any:
        """This rank's rows as a SciPy CSR array, with global column numbers."""
        return self._local.copy()

    @property
    def data(self) -> ndarray:
        """The values, row after row."""
        return _joined(self._local.data)

    @data.setter
    def data(self, values: Any) -> None:
        if self.nnz != core.as_array(values).size:
            raise ValueError(f"{self.nnz} values are stored, not {core.as_array(values).size} ({_line()})")
        counts = [int(n[0]) for n in distributed.everyone(np.array([self._local.nnz], np.int64))]
        start = sum(counts[: distributed.world().rank])
        whole = np.asarray(values if isinstance(values, np.ndarray) else np.asarray(values))
        self._changed(whole[start : start + self._local.nnz])

    def _changed(self, data: np.ndarray) -> None:
        _refuse_tracing()
        local = self._rows
        self._rows = sp.csr_array((np.array(data), local.indices, local.indptr), shape=local.shape)
        self._version += 1

    @property
    def indices(self) -> ndarray:
        """The column of each value."""
        return _joined(self._local.indices)

    @property
    def indptr(self) -> ndarray:
        """Where the values of each row begin."""
        lengths = np.concatenate(distributed.everyone(np.diff(self._local.indptr).astype(np.int64)))
        return core.as_array(np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def row(self) -> ndarray:
        """The row of each value."""
        first = distributed.own(self.shape[0])[0]
        return _joined(self._local.tocoo().row.astype(np.int64) + first)

    @property
    def col(self) -> ndarray:
        """The column of each value."""
        return self.indices

    @property
    def has_sorted_indices(self) -> bool:
        """Whether columns ascend in each row."""
        return all(distributed.everyone_agrees(bool(self._local.has_sorted_indices)))

    @property
    def has_canonical_format(self) -> bool:
        """Whether columns ascend in each row and none comes twice."""
        return all(distributed.everyone_agrees(bool(self._local.has_canonical_format)))

    def __repr__(self) -> str:
        kind = "matrix" if self.is_matrix else "array"
        return (
            f"<{_NAMES[self.format]} sparse {kind} of dtype '{self.dtype}'\n\twith {self.nnz} stored elements and "
            f"shape {self.shape}>"
        )

    def __len__(self) -> int:
        raise TypeError("sparse array length is ambiguous; use getnnz() or shape[0]")

    def __bool__(self) -> bool:
        if self.shape == (1, 1):
            return self.nnz != 0
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all().")

    def getnnz(self, axis: int | None = None) -> Any:
        """Stored elements, of all or of each row or column."""
        if axis is None:
            return self.nnz
        ones = self._like(self._local._with_data(np.ones(self._local.nnz, np.int64)))
        return ones.sum(axis=axis).ravel()

    def count_nonzero(self) -> int:
        """Elements that are not zero."""
        return int(sum(int(n[0]) for n in distributed.everyone(np.array([self._local.count_nonzero()], np.int64))))

    # --- conversions -------------------------------------------------------------------------

    def _as(self, format: str, copy: bool) -> Any:
        cls = _CLASSES[format, self.is_matrix]
        if type(self) is cls and not copy:
            return self
        return cls._made(self.shape, self._local.copy() if copy else self._local, self._structure)

    def tocsr(self, copy: bool = False) -> Any:
        """The same matrix under the name CSR."""
        return self._as("csr", copy)

    def tocsc(self, copy: bool = False) -> Any:
        """The same matrix under the name CSC."""
        return self._as("csc", copy)

    def tocoo(self, copy: bool = False) -> Any:
        """The same matrix under the name COO."""
        return self._as("coo", copy)

    def todia(self, copy: bool = False) -> Any:
        """The same matrix under the name DIA."""
        return self._as("dia", copy)

    def asformat(self, format: str | None, copy: bool = False) -> Any:
        """The same matrix under another name."""
        if format is None or format == self.format:
            return self
        if (format, self.is_matrix) not in _CLASSES:
            raise NotSupportedError(f"{_line()}: the format {format} is not supported; use csr, csc, coo or dia")
        return self._as(format, copy)

    def toarray(self) -> ndarray:
        """A dense distributed array."""
        return distributed.dense(self._local.toarray(), self.shape)

    todense = toarray

    def toscipy(self) -> Any:
        """The whole as a SciPy matrix on every rank.  Raises MemoryError above 2 GiB."""
        whole = distributed.gather(self._local, self.shape)
        made = sp.csr_matrix(whole) if self.is_matrix else sp.csr_array(whole)
        return made.asformat(self.format)

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> Any:
        """The elements as another type."""
        return self._like(self._local.astype(dtype, casting=casting, copy=copy), same=True)

    def copy(self) -> Any:
        """A copy."""
        return self._like(self._local.copy(), same=True)

    # --- structure ---------------------------------------------------------------------------

    def _restructure(self, local: Any) -> None:
        _refuse_tracing()
        self._rows, self._structure, self._count = sp.csr_array(local), Structure(), None
        self._version += 1

    def eliminate_zeros(self) -> None:
        """Remove stored zeros, in place."""
        local = self._local.copy()
        local.eliminate_zeros()
        self._restructure(local)

    def sum_duplicates(self) -> None:
        """Add elements at the same place, in place."""
        local = self._local.copy()
        local.sum_duplicates()
        self._restructure(local)

    def sort_indices(self) -> None:
        """Bring the columns of each row into order, in place."""
        local = self._local.copy()
        local.sort_indices()
        self._restructure(local)

    def sorted_indices(self) -> Any:
        """A copy whose columns ascend."""
        made = self.copy()
        made.sort_indices()
        return made

    def transpose(self, axes: Any = None, copy: bool = False) -> Any:
        """The transpose."""
        if axes not in (None, (1, 0)):
            raise ValueError(f"sparse arrays have two axes, which are swapped: axes={axes!r} ({_line()})")
        # Kept: `A.T @ x` in a loop transposes, and lays out, once.
        local, kept = self._local, self._transpose
        if kept is None or kept[0] != self._version or kept[1]._version:
            made = self._like(distributed.transposed(local, self.shape), shape=self.shape[::-1])
            kept = self._transpose = self._version, made
        return kept[1].copy() if copy else kept[1]

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    def conj(self, copy: bool = True) -> Any:
        """The complex conjugate."""
        return self._like(self._local.conj(copy=True), same=True)

    conjugate = conj

    @property
    def real(self) -> Any:
        """The real parts."""
        return self._with(self._local.data.real.copy())

    @property
    def imag(self) -> Any:
        """The imaginary parts."""
        return self._with(self._local.data.imag.copy())

    def _with(self, data: np.ndarray) -> Any:
        return self._like(self._local._with_data(data, copy=True), same=True)

    def diagonal(self, k: int = 0) -> ndarray:
        """The elements of a diagonal."""
        m, n = self.shape
        low, high = distributed.own(m)
        if k <= -m or k >= n:
            return core.as_array(np.empty(0, self.dtype))
        count = min(m + min(k, 0), n - max(k, 0))
        first = max(low, -min(k, 0))
        last = min(high, -min(k, 0) + count)
        piece = self._local.diagonal(low + k)
        offset = max(0, -(low + k))
        piece = piece[first - low - offset : last - low - offset] if last > first else np.empty(0, self.dtype)
        return _joined(piece)

    def setdiag(self, values: Any, k: int = 0) -> None:
        """Set a diagonal, in place."""
        m, n = self.shape
        low, high = distributed.own(m)
        if k <= -m or k >= n:
            raise ValueError(f"k exceeds array dimensions ({_line()})")
        count = min(m + min(k, 0), n - max(k, 0))
        whole = np.asarray(np.asarray(values), self.dtype)
        if whole.ndim == 0:
            whole = np.full(count, whole)
        start = -min(k, 0)
        first, last = max(low, start), min(high, start + min(count, len(whole)))
        local = self._local.tolil()
        for r in range(first, last):
            local[r - low, r + k] = whole[r - start]
        self._restructure(local.tocsr())

    # --- reductions --------------------------------------------------------------------------

    def sum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        """The sum of all elements, of each column (axis 0) or of each row (axis 1)."""
        if axis is None:
            return sum(part[()] for part in distributed.everyone(np.asarray(self._local.sum(dtype=dtype))))
        axis = operator.index(axis)
        if axis not in (-2, -1, 0, 1):
            raise ValueError(f"axis out of range ({_line()})")
        if axis % 2:
            made = distributed.dense(np.asarray(self._local.sum(axis=1, dtype=dtype)).ravel(), (self.shape[0],))
        else:
            made = core.as_array(sum(distributed.everyone(np.asarray(self._local.sum(axis=0, dtype=dtype)).ravel())))
        if self.is_matrix:
            return made[:, None] if axis % 2 else made[None, :]
        return made

    def mean(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
        """The mean of all elements, of each column or of each row."""
        wanted = dtype or (np.float64 if self.dtype.kind in "biu" else self.dtype)
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[axis]
        return self.astype(wanted).sum(axis) / count

    def _extreme(self, name: str, axis: int | None) -> Any:
        fold = np.maximum if name == "max" else np.minimum
        if axis is None:
            if not self.shape[0] * self.shape[1]:
                raise ValueError("zero-size array to reduction operation")
            mine = [getattr(self._local, name)()] if self._local.shape[0] else []
            parts = distributed.everyone(np.array(mine, self.dtype))
            return fold.reduce(np.concatenate(parts))
        if axis % 2:
            block = (
                getattr(self._local, name)(axis=1).toarray().ravel()
                if self._local.shape[0]
                else np.empty(0, self.dtype)
            )
            return distributed.dense(block, (self.shape[0],))
        return self.T._extreme(name, 1)

    def max(self, axis: int | None = None, out: Any = None) -> Any:
        """The largest element (zeros count), of all, each column or each row; dense here."""
        return self._extreme("max", axis)

    def min(self, axis: int | None = None, out: Any = None) -> Any:
        """The smallest element (zeros count), of all, each column or each row; dense here."""
        return self._extreme("min", axis)

    # --- arithmetic --------------------------------------------------------------------------

    def __abs__(self) -> Any:
        return self._with(np.abs(self._local.data))

    def __neg__(self) -> Any:
        return self._with(-self._local.data)

    def _scaled(self, other: Any, name: str) -> Any:
        return self._with(getattr(operator, name)(self._local.data, other))

    def __add__(self, other: Any) -> Any:
        return self._sum(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._sum(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._sum(other, 1)

    def _sum(self, other: Any, sign: int) -> Any:
        if _is_scalar(other):
            if other == 0:
                return self.copy()
            raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
        if isinstance(other, Array | np.ndarray):
            return self.toarray() + core.as_array(other) if sign > 0 else self.toarray() - core.as_array(other)
        other = as_sparse(other)
        if other.shape != self.shape:
            raise ValueError(f"inconsistent shapes: {self.shape} and {other.shape} ({_line()})")
        return self._like(self._local + other._local if sign > 0 else self._local - other._local)

    def multiply(self, other: Any) -> Any:
        """Elementwise products with a scalar, a sparse matrix, or a dense one (rows and columns broadcast)."""
        if _is_scalar(other):
            return self._scaled(other, "mul")
        low, high = distributed.own(self.shape[0])
        if issparse(other) or sp.issparse(other):
            other = as_sparse(other)
            if other.shape != self.shape:
                raise ValueError(f"inconsistent shapes: {self.shape} and {other.shape} ({_line()})")
            return self._like(self._local.multiply(other._local))
        host = np.asarray(np.asarray(other))
        try:
            fits = np.broadcast_shapes(host.shape, self.shape) == self.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"inconsistent shapes: {self.shape} and {host.shape} ({_line()})")
        host = host.reshape((1,) * (2 - host.ndim) + host.shape)
        rows: Any = 0
        if host.shape[0] > 1:
            host, rows = host[low:high], np.repeat(np.arange(high - low), np.diff(self._local.indptr))
        return self._with(self._local.data * host[rows, self._local.indices if host.shape[1] > 1 else 0])

    def __mul__(self, other: Any) -> Any:
        return self @ other if self.is_matrix and not _is_scalar(other) else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if self.is_matrix and not _is_scalar(other):
            return other @ self
        return self.multiply(other)

    def __truediv__(self, other: Any) -> Any:
        if _is_scalar(other):
            return self._with(self._local.data / other)
        return self.multiply(1 / np.asarray(other))

    def __pow__(self, exponent: Any) -> Any:
        return self.power(exponent) if not self.is_matrix else self._matrix_power(exponent)

    def _matrix_power(self, exponent: int) -> Any:
        made = self
        for _ in range(operator.index(exponent) - 1):
            made = made @ self
        return made

    def power(self, n: Any, dtype: Any = None) -> Any:
        """Each element to a power."""
        if not _is_scalar(n):
            raise NotImplementedError("input is not scalar")
        if not n:
            raise NotImplementedError("zero power is not supported as it would densify the matrix")
        data = self._local.data if dtype is None else self._local.data.astype(dtype)
        return self._with(data**n)

    def dot(self, other: Any) -> Any:
        """The product; with a scalar each element times it."""
        return self.multiply(other) if _is_scalar(other) else self @ other

    def __matmul__(self, other: Any) -> Any:
        if _is_scalar(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        if issparse(other) or sp.issparse(other):
            other = as_sparse(other)
            if self.shape[1] != other.shape[0]:
                raise ValueError(
                    f"matmul: dimension mismatch with signature (n,k={self.shape[1]}),(k={other.shape[0]},m)->(n,m) "
                    f"({_line()})"
                )
            local = distributed.product(self._local, other._local, self.shape[1])
            return self._like(local, shape=(self.shape[0], other.shape[1]))
        from .product import multiply

        return multiply(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        if _is_scalar(other):
            raise ValueError("Scalar operands are not allowed, use '*' instead")
        if sp.issparse(other):
            return as_sparse(other) @ self
        from .product import multiply_left

        return multiply_left(other, self)

    # --- indexing ----------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        row, column = _row_and_column(key)
        if _is_index(row) and _is_index(column):
            return self._element(_within(row, self.shape[0]), _within(column, self.shape[1]))
        if not self.is_matrix and (_is_index(row) or _is_index(column)):
            raise NotSupportedError(
                f"{_line()}: a single row or column would have one dimension, which sparse arrays do not have here; "
                "use a slice of one, A[i:i+1]"
            )
        rows, columns = _selected(row, self.shape[0]), _selected(column, self.shape[1])
        low, high = distributed.own(len(rows))
        unique, back = np.unique(rows[low:high], return_inverse=True)
        found = distributed.fetch(self._local, self.shape[0], unique.astype(np.int64))[back]
        if not (isinstance(column, slice) and column == slice(None)):
            found = found[:, columns]
        return self._like(sp.csr_array(found), shape=(len(rows), len(columns)))

    def _element(self, i: int, j: int) -> Any:
        low, high = distributed.own(self.shape[0])
        mine = np.array([self._local[i - low, j]] if low <= i < high else [], self.dtype)
        return np.concatenate(distributed.everyone(mine))[0]


def _refuse_tracing() -> None:
    if recording.tracing():
        raise TracingError(
            f"{_line()}: a sparse matrix is changed while {recording.tracing()} is being traced; change it outside"
        )


def _line() -> str:
    return recording.user_line()


def _is_scalar(x: Any) -> bool:
    return np.isscalar(x) or (isinstance(x, np.ndarray) and x.ndim == 0)


def _is_index(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _row_and_column(key: Any) -> tuple[Any, Any]:
    """The rows and columns that a key selects independently of each other.

    Raises:
        IndexError: there are more than two indices.
        NotSupportedError: the key names places one by one.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    if any(item is None for item in items):
        raise NotSupportedError(f"{_line()}: a sparse matrix has two dimensions, and np.newaxis would add one")
    if sum(item is Ellipsis for item in items) == 1:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (3 - len(items))
    if len(items) > 2:
        raise IndexError(f"too many indices: a sparse matrix has two dimensions, not {len(items)} ({_line()})")
    row, column = [*items, slice(None)][:2]
    if not any(isinstance(x, slice) or _is_index(x) for x in (row, column)):
        # Two arrays of indices: NumPy pairs them, unless the first is a column and the second a row.
        row, column = (np.asarray(np.asarray(x)) for x in (row, column))
        if not (row.ndim == 2 and row.shape[1] == 1 and (column.ndim < 2 or column.shape[0] == 1)):
            raise NotSupportedError(
                f"{_line()}: two arrays of indices select single places, which sparse matrices do not do here; "
                "A[numpy.ix_(rows, columns)] selects all their combinations"
            )
        row, column = row[:, 0], column.ravel()
    for x in (row, column):
        if not isinstance(x, slice) and np.ndim(x) > 1:
            raise NotSupportedError(f"{_line()}: an array of indices has one dimension here, not {np.ndim(x)}")
    return row, column


def _within(i: Any, n: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index ({i}) out of range ({_line()})")
    return int(i) % n


def _selected(key: Any, n: int) -> np.ndarray:
    if _is_index(key):
        return np.array([_within(key, n)])
    if isinstance(key, slice):
        return np.arange(n)[key]
    index = np.asarray(np.asarray(key))
    if index.dtype == bool:
        index = np.flatnonzero(index)
    if index.size and (int(index.max()) >= n or int(index.min()) < -n):
        raise IndexError(f"index ({int(index.max())}) out of range ({_line()})")
    return index % n if n else index


def _joined(block: np.ndarray) -> ndarray:
    """A distributed vector of which each rank has a piece, one after the other."""
    from ..runtime.dynamic import from_block, select
    from ..runtime.stores import LogicalStore

    counts = [int(n[0]) for n in distributed.everyone(np.array([block.size], np.int64))]
    start = sum(counts[: distributed.world().rank])
    total, mine = select(np.arange(start, start + block.size), block, sum(counts), _line())
    store = LogicalStore((total,), block.dtype)
    store.data = from_block((total,), mine)
    return recording.array_class(store)  # type: ignore[return-value]


def _shape(shape: Any) -> tuple[int, int]:
    try:
        m, n = (operator.index(x) for x in shape)
    except (TypeError, ValueError):
        raise TypeError(f"invalid shape {shape!r}; a sparse matrix has two dimensions ({_line()})") from None
    if m < 0 or n < 0:
        raise ValueError(f"'shape' elements cannot be negative ({_line()})")
    return m, n


def issparse(x: Any) -> bool:
    """Whether ``x`` is a sparse matrix of this package."""
    return isinstance(x, SparseArray)


def as_sparse(x: Any) -> SparseArray:
    """``x``, sparse of this package's or SciPy's, as one of this package's."""
    return x if isinstance(x, SparseArray) else csr_array(x)


def _constructed(format: str, arg: Any, shape: Any) -> tuple[tuple[int, int], Any]:
    """The shape and the own rows of what a constructor was given."""
    if isinstance(arg, SparseArray):
        return arg.shape, arg._local
    if sp.issparse(arg):
        if arg.ndim != 2:
            raise ValueError(f"a sparse matrix has two dimensions, not {arg.ndim} ({_line()})")
        return arg.shape, distributed.from_whole(arg)
    if isinstance(arg, tuple) and len(arg) == 2 and all(_is_index(x) for x in arg):
        size = _shape(arg)
        low, high = distributed.own(size[0])
        return size, sp.csr_array((high - low, size[1]))
    if isinstance(arg, tuple) and format == "dia" and len(arg) == 2 and not isinstance(arg[1], tuple):
        made = sp.dia_array((np.asarray(arg[0]), np.asarray(arg[1])), shape=_shape(shape))
        return made.shape, distributed.from_whole(made)
    if isinstance(arg, tuple) and len(arg) == 2:
        return _from_triples(arg, shape)
    if isinstance(arg, tuple) and len(arg) == 3:
        parts = tuple(np.asarray(x) for x in arg)
        kind = sp.csc_array if format == "csc" else sp.csr_array
        try:
            made = kind(parts, shape=None if shape is None else _shape(shape))
            made.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"{error} ({_line()})") from None
        return made.shape, distributed.from_whole(made)
    if isinstance(arg, Array):
        if arg.ndim != 2:
            raise ValueError(f"a sparse matrix has two dimensions, not {arg.ndim} ({_line()})")
        return arg.shape, distributed.from_whole(sp.csr_array(np.asarray(arg)))  # type: ignore[return-value]
    made = sp.coo_array(np.atleast_2d(np.asarray(arg)))
    return made.shape, distributed.from_whole(made)


def _from_triples(arg: Any, shape: Any) -> tuple[tuple[int, int], Any]:
    values, places = arg
    try:
        rows, columns = places
    except (TypeError, ValueError):
        raise TypeError(f"invalid input format: expected (data, (row, col)) ({_line()})") from None
    given = [values, rows, columns]
    if all(isinstance(x, Array) for x in given):
        parts = [_own_elements(x) for x in given]  # each rank its own
    else:
        parts = [np.asarray(x) for x in given]
        if distributed.world().rank:
            parts = [x[:0] for x in parts]  # all have the same
    values, rows, columns = parts
    if shape is None:
        ends = [int(x.max()) + 1 if x.size else 0 for x in (rows, columns)]
        shape = tuple(np.max(distributed.everyone(np.array(ends, np.int64)), axis=0))
    size = _shape(shape)
    return size, distributed.from_triples(size, rows, columns, values)


def _own_elements(x: Any) -> np.ndarray:
    return recording.owned(x.store, recording.ready(x.store, "the triples of a matrix"), x.view)[0].ravel()


class csr_array(SparseArray):
    """A sparse array by rows, with SciPy's interface; ``*`` multiplies elements, ``@`` matrices."""


class csc_array(SparseArray):
    """A sparse array under the name CSC; it is held by rows all the same."""

    format = "csc"


class coo_array(SparseArray):
    """A sparse array under the name COO; it is held by rows, without duplicates."""

    format = "coo"


class dia_array(SparseArray):
    """A sparse array under the name DIA; it is held by rows."""

    format = "dia"


class csr_matrix(SparseArray):
    """A sparse matrix by rows: ``*`` is the matrix product, as in SciPy."""

    is_matrix = True


class csc_matrix(csr_matrix):
    """A sparse matrix under the name CSC."""

    format = "csc"


class coo_matrix(csr_matrix):
    """A sparse matrix under the name COO."""

    format = "coo"


class dia_matrix(csr_matrix):
    """A sparse matrix under the name DIA."""

    format = "dia"


_CLASSES: dict[tuple[str, bool], Any] = {
    (cls.format, cls.is_matrix): cls
    for cls in (csr_array, csc_array, coo_array, dia_array, csr_matrix, csc_matrix, coo_matrix, dia_matrix)
}
