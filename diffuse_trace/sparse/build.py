"""Building sparse matrices: each rank makes its own rows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import recording
from . import rows as distributed
from .arrays import _CLASSES, SparseArray, as_sparse, coo_array, csr_array, dia_array, dia_matrix, issparse


def _named(made: csr_array, format: str | None, like_matrix: bool = False) -> Any:
    cls = _CLASSES.get((format or made.format, like_matrix))
    if cls is None:
        raise ValueError(f"the format {format!r} is not supported; use csr, csc, coo or dia ({recording.user_line()})")
    return cls._made(made.shape, made._local, made._structure)


def _from_diagonals(diagonals: Any, offsets: Any, shape: Any, dtype: Any) -> csr_array:
    if np.isscalar(offsets) or np.ndim(offsets) == 0:
        offsets = [offsets]
        diagonals = diagonals if len(diagonals) and np.ndim(diagonals[0]) else [diagonals]
    values = [np.atleast_1d(np.asarray(d)) for d in diagonals]
    places = [operator.index(o) for o in offsets]
    if len(values) != len(places):
        raise ValueError(f"number of diagonals ({len(values)}) does not match the number of offsets ({len(places)})")
    if len(set(places)) != len(places):
        raise ValueError("offset array contains duplicate values")
    if shape is None:
        m = len(values[0]) + abs(places[0])
        shape = (m, m)
    m, n = (operator.index(x) for x in shape)
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*values, np.float32) if values else np.dtype(float)
    low, high = distributed.own(m)
    columns, numbers, data = [], [], []
    for value, k in zip(values, places, strict=True):
        count = min(m + min(k, 0), n - max(k, 0))
        if count < 0:
            raise ValueError(f"Offset {k} (index {places.index(k)}) out of bounds")
        if len(value) not in (1, count) and not (len(value) > count and shape is not None):
            raise ValueError(
                f"Diagonal length (index {places.index(k)}: {len(value)} at offset {k}) does not agree with array size "
                f"({m}, {n})."
            )
        start = -min(k, 0)
        first, last = max(low, start), min(high, start + count)
        if first >= last:
            continue
        index = np.arange(first, last)
        numbers.append(index - low)
        columns.append(index + k)
        data.append(np.full(last - first, value[0]) if len(value) == 1 else value[first - start : last - start])
    if data:
        index_kind = distributed.index_dtype((m, n))
        triples = tuple(np.concatenate(a).astype(index_kind) for a in (numbers, columns))
        local = sp.coo_array((np.concatenate(data).astype(kind), triples), shape=(high - low, n)).tocsr()
    else:
        local = sp.csr_array((high - low, n), dtype=kind)
    return csr_array._made((m, n), local)


def diags_array(
    diagonals: Any, /, *, offsets: Any = 0, shape: Any = None, format: str | None = None, dtype: Any = None
) -> Any:
    """A matrix from its diagonals: ``diagonals[k]`` lies ``offsets[k]`` from the main one, its first element first."""
    return _named(_from_diagonals(diagonals, offsets, shape, dtype), format or "dia")


def diags(diagonals: Any, offsets: Any = 0, shape: Any = None, format: str | None = None, dtype: Any = None) -> Any:
    """As `diags_array`, as a ``_matrix``."""
    return _named(_from_diagonals(diagonals, offsets, shape, dtype), format or "dia", True)


def eye_array(m: int, n: int | None = None, *, k: int = 0, dtype: Any = float, format: str | None = None) -> Any:
    """Ones on a diagonal."""
    return _named(_eye(m, n, k, dtype), format or "dia")


def eye(m: int, n: int | None = None, k: int = 0, dtype: Any = float, format: str | None = None) -> Any:
    """As `eye_array`, as a ``_matrix``."""
    return _named(_eye(m, n, k, dtype), format or "dia", True)


def identity(n: int, dtype: Any = "d", format: str | None = None) -> Any:
    """The identity, as a ``_matrix``."""
    return eye(n, dtype=dtype, format=format)


def _eye(m: int, n: int | None, k: int, dtype: Any) -> csr_array:
    size = (m, m if n is None else n)
    if k <= -size[0] or k >= size[1]:
        low, high = distributed.own(size[0])
        return csr_array._made(size, sp.csr_array((high - low, size[1]), dtype=dtype))
    return _from_diagonals([np.ones(1, dtype)], [k], size, dtype)


def kron(A: Any, B: Any, format: str | None = None) -> Any:
    """The Kronecker product.  Each rank needs all of B and those rows of A that its own come from."""
    a, b = as_sparse(A), as_sparse(B)
    (m, n), (p, q) = a.shape, b.shape
    shape = (m * p, n * q)
    low, high = distributed.own(shape[0])
    whole = distributed.gather(b._local, b.shape)
    first, last = (low // p, -(-high // p)) if p and low < high else (0, 0)
    part = distributed.fetch(a._local, m, np.arange(first, last, dtype=np.int64))
    local = (
        sp.csr_array(sp.kron(part, whole, format="csr"))[low - first * p : high - first * p] if last > first else None
    )
    if local is None:
        local = sp.csr_array((high - low, shape[1]), dtype=np.result_type(a.dtype, b.dtype))
    return _named(csr_array._made(shape, local), format or "csr", a.is_matrix and b.is_matrix)


def block_array(blocks: Any, *, format: str | None = None, dtype: Any = None) -> Any:
    """A matrix from a table of blocks; None stands for zeros."""
    table = [[None if x is None else as_sparse(x) for x in row] for row in blocks]
    if not table or any(len(row) != len(table[0]) for row in table):
        raise ValueError("blocks must be 2-D")
    heights = [_extent([x.shape[0] for x in row if x is not None], f"row {i}") for i, row in enumerate(table)]
    columns_of = [[x for row in table if (x := row[j]) is not None] for j in range(len(table[0]))]
    widths = [_extent([x.shape[1] for x in column], f"column {j}") for j, column in enumerate(columns_of)]
    tops, lefts = np.concatenate([[0], np.cumsum(heights)]), np.concatenate([[0], np.cumsum(widths)])
    rows, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], []
    kinds = [x.dtype for row in table for x in row if x is not None]
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*kinds)
    values.append(np.zeros(0, kind))
    for i, row in enumerate(table):
        for j, x in enumerate(row):
            if x is not None:
                found = x._local.tocoo()
                rows.append(found.row.astype(np.int64) + distributed.own(x.shape[0])[0] + tops[i])
                columns.append(found.col.astype(np.int64) + lefts[j])
                values.append(found.data.astype(kind))
    shape = (int(tops[-1]), int(lefts[-1]))
    local = distributed.from_triples(shape, *(np.concatenate(a) for a in (rows, columns, values)))
    matrices = all(x.is_matrix for row in table for x in row if x is not None)
    return _named(csr_array._made(shape, local), format or "csr", matrices)


def _extent(found: Sequence[int], where: str) -> int:
    if not found:
        raise ValueError(f"blocks in {where} are all None ({recording.user_line()})")
    if len(set(found)) != 1:
        raise ValueError(
            f"blocks in {where} have incompatible dimensions: {sorted(set(found))} ({recording.user_line()})"
        )
    return found[0]


bmat = block_array


def hstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Matrices side by side."""
    return block_array([list(blocks)], format=format, dtype=dtype)


def vstack(blocks: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Matrices one above the other."""
    return block_array([[b] for b in blocks], format=format, dtype=dtype)


def block_diag(mats: Sequence[Any], format: str | None = None, dtype: Any = None) -> Any:
    """Matrices along the diagonal."""
    return block_array(
        [[m if i == j else None for j in range(len(mats))] for i, m in enumerate(mats)], format=format, dtype=dtype
    )


def random_array(
    shape: Any,
    *,
    density: float = 0.01,
    format: str = "coo",
    dtype: Any = None,
    rng: Any = None,
    random_state: Any = None,
    data_sampler: Any = None,
) -> Any:
    """A matrix with uniform random values at random places: those that SciPy gives for the same generator or seed."""
    seed = rng if rng is not None else random_state
    if seed is None:
        seed = int(distributed.everyone(np.random.default_rng().integers(0, 2**62, 1))[0][0])
    made = sp.random_array(
        shape, density=density, dtype=dtype, rng=np.random.default_rng(seed), data_sampler=data_sampler
    )
    return _named(csr_array(made), format)


def random(m: int, n: int, density: float = 0.01, format: str = "coo", dtype: Any = None, rng: Any = None) -> Any:
    """As `random_array`, as a ``_matrix``."""
    made = random_array((m, n), density=density, format="csr", dtype=dtype, rng=rng)
    return _named(made, format, True)


def find(A: Any) -> tuple[Any, Any, Any]:
    """Rows, columns and values of the elements that are not zero."""
    a = as_sparse(A).copy()
    a.eliminate_zeros()
    return a.row, a.col, a.data


def _kept(A: Any, keep: Any, format: str | None) -> Any:
    a = as_sparse(A)
    found = a._local.tocoo()
    chosen = keep(found.col.astype(np.int64) - (found.row.astype(np.int64) + distributed.own(a.shape[0])[0]))
    local = sp.coo_array((found.data[chosen], (found.row[chosen], found.col[chosen])), shape=found.shape).tocsr()
    return _named(csr_array._made(a.shape, local), format or "csr", a.is_matrix)


def tril(A: Any, k: int = 0, format: str | None = None) -> Any:
    """The part on and below a diagonal."""
    return _kept(A, lambda offset: offset <= k, format)


def triu(A: Any, k: int = 0, format: str | None = None) -> Any:
    """The part on and above a diagonal."""
    return _kept(A, lambda offset: offset >= k, format)


__all__ = [
    "SparseArray",
    "block_array",
    "block_diag",
    "bmat",
    "coo_array",
    "dia_array",
    "dia_matrix",
    "diags",
    "diags_array",
    "eye",
    "eye_array",
    "find",
    "hstack",
    "identity",
    "issparse",
    "kron",
    "random",
    "random_array",
    "tril",
    "triu",
    "vstack",
]
