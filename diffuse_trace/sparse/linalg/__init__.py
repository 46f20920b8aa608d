"""Solvers with SciPy's names, each solve one executable (but for `gmres`, whose basis grows)."""

from .direct import norm, spsolve
from .gmres import gmres
from .krylov import bicgstab, cg, cgs, minres
from .operators import LinearOperator, aslinearoperator
from .preconditioners import chebyshev, jacobi
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
    "chebyshev",
    "gmres",
    "jacobi",
    "last_result",
    "minres",
    "norm",
    "spsolve",
]
