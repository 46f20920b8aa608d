"""Distributed rows: what each rank holds of a sparse matrix on the host, and how rows travel.

Rank r holds a balanced block of rows as a SciPy CSR array with global column numbers.  All local work is SciPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import config, recording
from ..ir import canonical
from ..runtime import agree, dynamic
from ..runtime.ranks import world

_TRIPLES, _ROWS, _ALL = 0x5A01, 0x5A02, 0x5A03

#: Bytes of the largest matrix that is gathered on every rank.
MOST_BYTES = 1 << 31


class Structure:
    """Where a matrix has elements: an identity that matrices with equal structure share; ``pattern`` is what products
    need to know of it (`product.py`)."""

    __slots__ = ("__weakref__", "pattern")

    def __init__(self) -> None:
        self.pattern: Any = None


def blocks(rows: int) -> list[tuple[int, int]]:
    """The rows of each rank."""
    partition = canonical((rows,), world().size, config.get("grid") or ())
    if partition.replicated:
        return [(0, rows)] + [(rows, rows)] * (world().size - 1)
    return [partition.block((rows,), partition.coordinates(rank))[0] for rank in range(world().size)]


def own(rows: int) -> tuple[int, int]:
    """The rows of this rank."""
    return blocks(rows)[world().rank]


def everyone(array: np.ndarray, digest: int = _ALL) -> list[np.ndarray]:
    """The arrays of all ranks."""
    if world().size == 1:
        return [array]
    agree.agree(world(), digest, recording.user_line())
    return agree.allgather_blocks(world(), array)


def to_ranks(pieces: list[list[np.ndarray]], digest: int) -> list[np.ndarray]:
    """Give each rank its piece of several arrays, and join what comes."""
    if world().size == 1:
        return [array[0] for array in pieces]
    agree.agree(world(), digest, recording.user_line())
    return [np.concatenate(agree.alltoall_blocks(world(), array)) for array in pieces]


def index_dtype(shape: tuple[int, ...]) -> np.dtype:
    """The type of column numbers."""
    return np.dtype(np.int32 if max(shape, default=0) < 2**31 else np.int64)


def check_indices(shape: tuple[int, int], rows: np.ndarray, columns: np.ndarray) -> None:
    """Raise ValueError, on every rank, where an index lies outside the shape."""
    problem = ""
    for name, index, extent in (("row", rows, shape[0]), ("column", columns, shape[1])):
        if index.size and int(index.max()) >= extent:
            problem = problem or f"{name} index {int(index.max())} exceeds matrix dimension {extent}"
        if index.size and int(index.min()) < 0:
            problem = problem or f"negative {name} index found"
    agree_on(problem)


def agree_on(problem: str) -> None:
    """Raise ValueError on all ranks where one has a problem."""
    told = everyone(np.frombuffer(problem.encode(), np.uint8))
    first = next((t.tobytes().decode() for t in told if t.size), "")
    if first:
        raise ValueError(f"{first} ({recording.user_line()})")


def from_triples(shape: tuple[int, int], rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> sp.csr_array:
    """The own rows of a matrix given as triples that the ranks hold in any order; duplicates are added."""
    rows, columns = np.asarray(rows), np.asarray(columns)
    if not len(rows) == len(columns) == len(values):
        raise ValueError(
            f"row, column, and data array must all be the same length: {len(rows)}, {len(columns)}, {len(values)} "
            f"({recording.user_line()})"
        )
    check_indices(shape, rows, columns)
    if world().size > 1:
        cuts = np.array([low for low, _ in blocks(shape[0])[1:]], np.int64)
        owner = np.searchsorted(cuts, rows, side="right")
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(world().size + 1))
        parts = [order[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
        pieces = [[array[p] for p in parts] for array in (rows.astype(np.int64), columns.astype(np.int64), values)]
        rows, columns, values = to_ranks(pieces, _TRIPLES)
    low, high = own(shape[0])
    kind = index_dtype(shape)
    made = sp.coo_array((values, ((rows - low).astype(kind), columns.astype(kind))), shape=(high - low, shape[1]))
    return made.tocsr()


def from_whole(matrix: Any) -> sp.csr_array:
    """The own rows of a SciPy matrix that all ranks hold."""
    low, high = own(matrix.shape[0])
    made = sp.csr_array(matrix.tocsr()[low:high])
    made.sum_duplicates()
    return made


def fetch(local: sp.csr_array, rows: int, wanted: np.ndarray) -> sp.csr_array:
    """Rows by number (sorted, global), from the ranks that hold them.  A collective."""
    columns = local.shape[1]
    if world().size == 1:
        return sp.csr_array(local[wanted])
    where = blocks(rows)
    requests = [wanted[np.searchsorted(wanted, low) : np.searchsorted(wanted, high)] for low, high in where]
    agree.agree(world(), _ROWS, recording.user_line())
    asked = agree.alltoall_blocks(world(), requests)
    mine = where[world().rank][0]
    parts = [local[a - mine] for a in asked]
    lengths = agree.alltoall_blocks(world(), [np.diff(p.indptr).astype(np.int64) for p in parts])
    indices = agree.alltoall_blocks(world(), [p.indices for p in parts])
    data = agree.alltoall_blocks(world(), [p.data for p in parts])
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return sp.csr_array(
        (np.concatenate(data), np.concatenate(indices), indptr.astype(np.int64)), shape=(len(wanted), columns)
    )


def transposed(local: sp.csr_array, shape: tuple[int, int]) -> sp.csr_array:
    """The own rows of the transpose."""
    low, _ = own(shape[0])
    if world().size == 1:
        made = sp.csr_array(local.T.tocsr())
        made.sort_indices()
        return made
    found = local.tocoo()
    return from_triples((shape[1], shape[0]), found.col, found.row.astype(np.int64) + low, found.data)


def product(a: sp.csr_array, b: sp.csr_array, inner: int) -> sp.csr_array:
    """The own rows of a product of two sparse matrices; columns come in any order, as in SciPy's."""
    if world().size == 1:
        made = sp.csr_array(a @ b)
    else:
        wanted = np.unique(a.indices).astype(np.int64)
        rows = fetch(b, inner, wanted)
        kind = index_dtype((len(wanted), b.shape[1]))
        compressed = sp.csr_array(
            (a.data, np.searchsorted(wanted, a.indices).astype(kind), a.indptr), shape=(a.shape[0], len(wanted))
        )
        made = sp.csr_array(compressed @ rows)
    return made


def gather(local: sp.csr_array, shape: tuple[int, int]) -> sp.csr_array:
    """The whole matrix, on every rank.

    Raises:
        MemoryError: it takes more than `MOST_BYTES`.
    """
    if world().size == 1:
        return local
    sizes = np.concatenate(everyone(np.array([local.data.nbytes + local.indices.nbytes], np.int64)))
    if int(sizes.sum()) > MOST_BYTES:
        raise MemoryError(
            f"{recording.user_line()}: the matrix takes {sizes.sum() / 1e9:.1f} GB, more than may be gathered on every "
            "rank; use its own rows (A.local) or products with it"
        )
    lengths, indices, data = (
        np.concatenate(everyone(a)) for a in (np.diff(local.indptr).astype(np.int64), local.indices, local.data)
    )
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    kind = index_dtype((*shape, len(data)))
    return sp.csr_array((data, indices.astype(kind), indptr.astype(kind)), shape=shape)


def dense(block: np.ndarray, shape: tuple[int, ...]) -> Any:
    """A distributed array of this package from this rank's rows of it."""
    from ..runtime.stores import LogicalStore

    made = LogicalStore(shape, block.dtype)
    partition = canonical(shape, world().size, config.get("grid") or ())
    if partition.replicated:
        made.data = dynamic.from_block(shape, np.concatenate(everyone(block)))
    else:
        wanted = partition.block(shape, partition.coordinates(world().rank))
        rows = wanted[0] == own(shape[0]) and all(w == (0, n) for w, n in zip(wanted[1:], shape[1:], strict=True))
        if not all(everyone_agrees(rows)):
            block = np.concatenate(everyone(block))[tuple(slice(*w) for w in wanted)]
        made.data = dynamic.from_block(shape, block)
    return recording.array_class(made)


def everyone_agrees(fact: bool) -> list[bool]:
    """The fact on each rank."""
    return [bool(f[0]) for f in everyone(np.array([fact]))]
