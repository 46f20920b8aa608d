"""SciPy's names for distributed sparse matrices: ``import diffuse_trace.sparse as sp``."""

from . import linalg
from .arrays import (
    SparseArray,
    coo_array,
    coo_matrix,
    csc_array,
    csc_matrix,
    csr_array,
    csr_matrix,
    dia_array,
    dia_matrix,
    issparse,
)
from .build import (
    block_array,
    block_diag,
    bmat,
    diags,
    diags_array,
    eye,
    eye_array,
    find,
    hstack,
    identity,
    kron,
    random,
    random_array,
    tril,
    triu,
    vstack,
)
from .market import mmread, mmwrite

sparray = SparseArray

__all__ = [
    "SparseArray",
    "block_array",
    "block_diag",
    "bmat",
    "coo_array",
    "coo_matrix",
    "csc_array",
    "csc_matrix",
    "csr_array",
    "csr_matrix",
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
    "linalg",
    "mmread",
    "mmwrite",
    "random",
    "random_array",
    "sparray",
    "tril",
    "triu",
    "vstack",
]
