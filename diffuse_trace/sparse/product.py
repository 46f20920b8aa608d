"""Products of sparse matrices with vectors: tasks that fuse with what is around them.

A matrix is laid out for products when it is first multiplied: each rank picks a layout for its rows (`layouts.py`),
and the ranks agree on what they need of a vector from each other, once for each structure.  New values need neither
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .. import config, recording
from ..ir import Partition, View, canonical
from ..ir.view import Axis
from ..lower.blocks import Gathered, Piece
from ..lower.kernels import Context, Row, register
from ..lower.patterns import Lists, register_pattern
from ..numpy import core
from ..numpy.array import ndarray
from ..runtime import agree, device, dynamic
from ..runtime.ranks import world
from ..runtime.stores import Data, LogicalStore
from . import layouts
from .alike import Alike, by_values
from .kinds import Kinds, by_kinds

if TYPE_CHECKING:
    from .arrays import SparseArray

_DIGEST = 0x5BA2
_WORK: dict[tuple[str, int], np.dtype] = {
    ("f", 2): np.dtype(np.float32),
    ("f", 4): np.dtype(np.float32),
    ("f", 8): np.dtype(np.float64),
    ("c", 8): np.dtype(np.complex64),
    ("c", 16): np.dtype(np.complex128),
}


def multiply(matrix: SparseArray, x: Any) -> ndarray:
    """``matrix @ x`` for a dense vector of m elements or an m x k matrix; n, or n x k, elements.

    Raises:
        ValueError: the dimensions do not fit.
    """
    x = core.as_array(x)
    n, m = matrix.shape
    if x.ndim not in (1, 2):
        raise ValueError(f"matmul: a sparse matrix is multiplied with 1 or 2 dimensions, not {x.ndim} ({_line()})")
    if x.shape[0] != m:
        raise ValueError(f"matmul: dimension mismatch with signature (n,k={m}),(k={x.shape[0]},m?)->(n,m?) ({_line()})")
    dtype = np.result_type(matrix.dtype, x.dtype)
    if x.ndim == 2:
        made = core.empty((n, x.shape[1]), dtype)
        with recording.one_operation():
            for k in range(x.shape[1]):
                made[:, k] = multiply(matrix, x[:, k])
        return made
    if not matrix.nnz or not n:
        from ..numpy.creation import zeros

        return zeros(n, dtype)
    work = _work(dtype)
    store = laid_out(matrix, work)
    with recording.one_operation():
        operand = x.astype(work, copy=False)
        made = core.empty((n,), work)
        recording.record(
            "sparse_product",
            (n, m),
            [(store, View.identity((n, m))), (operand.store, operand.view.expanded(0, n))],
            (made.store, View((n, m), (Axis(0),))),
            reduction="sum",
        )
        return made if dtype == work else (made != 0 if dtype.kind == "b" else made.astype(dtype))


def multiply_left(x: Any, matrix: SparseArray) -> ndarray:
    """``x @ matrix`` for a dense vector or matrix, by way of the transpose, which the matrix keeps."""
    x = core.as_array(x)
    if x.ndim not in (1, 2) or x.shape[-1] != matrix.shape[0]:
        raise ValueError(f"matmul: dimension mismatch: {x.shape} and {matrix.shape} ({_line()})")
    return matrix.T @ x if x.ndim == 1 else (matrix.T @ x.T).T


def _line() -> str:
    return recording.user_line()


def _work(dtype: np.dtype) -> np.dtype:
    """The dtype in which products are computed."""
    return _WORK.get((dtype.kind, dtype.itemsize), np.dtype(np.int64))


# --- layouts -------------------------------------------------------------------------------------


def laid_out(matrix: SparseArray, dtype: np.dtype) -> LogicalStore:
    """The matrix as a sparse store with values of ``dtype``.  A collective where its structure is new."""
    recording.depend(matrix)
    kept = matrix.__dict__.setdefault("_stores", {})
    known = kept.get(dtype)
    if known is not None and known[0] == matrix._version:
        return known[1]
    local = matrix._local
    if not local.has_sorted_indices or not local.has_canonical_format:
        local = local.copy()
        local.sum_duplicates()
    structure = matrix._structure
    if structure.pattern is None:
        structure.pattern = _Plan(matrix.shape, local, dtype)
    plan: _Plan = structure.pattern
    partition = Partition(canonical((matrix.shape[0],), world().size, config.get("grid") or ()).dims)
    data = Data(device.put(plan.layout(local, dtype)), partition, (0, 0))
    store = LogicalStore(matrix.shape, dtype, data, plan.pattern)
    kept[dtype] = matrix._version, store
    return store


class _Plan:
    """How matrices of one structure are held and what their products need from other ranks."""

    def __init__(self, shape: tuple[int, int], local: Any, dtype: np.dtype) -> None:
        self.rows = dynamic.own_block((shape[0],))[0]
        self.own = dynamic.own_block((shape[1],))[0]
        offsets = None
        if shape[0] == shape[1]:
            offsets = layouts.diagonal_offsets(local.indptr, local.indices, self.rows[0], dtype.itemsize)
        columns = local.indices
        outside = columns[(columns < self.own[0]) | (columns >= self.own[1])]
        self.ghosts = np.unique(outside).astype(np.int64)
        low, high = (min(offsets, default=0), max(offsets, default=0)) if offsets is not None else (0, 0)
        below, above = max(0, -low), max(0, high)
        wide = below + above > 4 * len(self.ghosts) + 1024 and world().size > 1
        facts = np.array([offsets is None or wide, below, above, len(self.ghosts)], np.int64)
        everyone = np.stack(agree_all(facts))
        halo = None if everyone[:, 0].any() else (int(everyone[:, 1].max()), int(everyone[:, 2].max()))
        self.offsets = offsets if halo is not None else None
        lists = self._lists(shape[1]) if halo is None else None
        made = self.layout(local, dtype)
        nbytes = max(int(size[0]) for size in agree_all(np.array([layouts.nbytes(made)], np.int64)))
        self.pattern = register_pattern(
            halo, lists, ghosts=int(everyone[:, 3].max()), nbytes=nbytes, layout=layouts.describe(made)
        )

    def layout(self, local: Any, dtype: np.dtype) -> layouts.Layout:
        """The own rows with the values of ``local``, whose structure is that of this plan."""
        data = local.data.astype(dtype, copy=False)
        if self.offsets is not None:
            return layouts.by_diagonals(local.indptr, local.indices, data, self.rows[0], self.offsets)
        columns = local.indices.astype(np.int64)
        mine = (columns >= self.own[0]) & (columns < self.own[1])
        count = self.own[1] - self.own[0]
        columns = np.where(mine, columns - self.own[0], count + np.searchsorted(self.ghosts, columns))
        given = local.indptr, columns, data, self.own, self.ghosts
        return by_kinds(*given) or by_values(*given) or layouts.by_rows(*given)

    def _lists(self, columns: int) -> Lists:
        """Tell the ranks that own elements which of them are needed here."""
        size = world().size
        if size == 1:
            return Lists(np.zeros(0, np.int32), (), ())
        partition = canonical((columns,), size, config.get("grid") or ())
        blocks = [partition.block((columns,), partition.coordinates(rank))[0] for rank in range(size)]
        if partition.replicated:
            blocks = [(0, 0)] * size
        cuts = [np.searchsorted(self.ghosts, block) for block in blocks]
        wanted = [self.ghosts[low:high] for low, high in cuts]
        asked = agree.alltoall_blocks(world(), wanted)
        indices = np.concatenate([a - self.own[0] for a in asked]).astype(np.int32)
        return Lists(
            indices,
            tuple((rank, len(a)) for rank, a in enumerate(asked) if len(a)),
            tuple((rank, len(w)) for rank, w in enumerate(wanted) if len(w)),
        )


def agree_all(facts: np.ndarray) -> list[np.ndarray]:
    """The arrays of all ranks."""
    if world().size == 1:
        return [facts]
    agree.agree(world(), _DIGEST, _line())
    return agree.allgather_blocks(world(), facts)


# --- the kernel ----------------------------------------------------------------------------------


def _generate(context: Context, matrix: Piece, x: Piece | Gathered) -> Any:
    layout: layouts.Layout = matrix.array
    (low, high), _ = context.own
    rows = high - low
    if isinstance(layout, layouts.Rows | Alike | Kinds):
        if isinstance(x, Gathered):
            vector = x.array
        else:  # all of it is here
            start = x.region[0][0]
            own = x.array[layout.own[0] - start : layout.own[1] - start]
            ghosts = x.array.at[layout.ghosts - start].get(mode="promise_in_bounds")
            vector = jnp.concatenate([own, ghosts]) if layout.ghosts.shape[0] else own
        return layout.product(vector, rows)[:, None]
    assert isinstance(x, Piece)
    return layout.product(x.array, x.region[0][0], rows)[:, None]


def _reference(context: Context, matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (matrix @ x.reshape(-1))[:, None].astype(context.dtype)


def _row(layout: layouts.Layout) -> Row | None:
    return layout.row() if isinstance(layout, layouts.Rows | Alike | Kinds) or layout.offsets else None


register("sparse_product", _generate, _reference, exact=True, whole=True, row=_row)
