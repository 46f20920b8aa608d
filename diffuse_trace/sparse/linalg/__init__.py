"""Iterative solvers with SciPy's names: each solve is one executable."""

from .krylov import bicgstab, cg, cgs, minres
from .operators import LinearOperator, aslinearoperator
from .solves import Reason, Result, SolverWarning, last_result

__all__ = [
    "LinearOperator",
    "Reason",
    "Result",
    "SolverWarning",
    "aslinearoperator",
    "bicgstab",
    "cg",
    "cgs",
    "last_result",
    "minres",
]
