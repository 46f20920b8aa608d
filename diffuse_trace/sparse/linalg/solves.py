"""What iterative solvers share: arguments, the loop in one executable, verdicts, warnings, progress."""

from __future__ import annotations

import enum
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import recording
from ...control import while_loop
from ...numpy import core
from ...numpy.array import ndarray
from ...numpy.creation import zeros
from ...numpy.elementwise import where
from ...numpy.linalg import vdot
from .operators import LinearOperator, operator_of


class Reason(enum.Enum):
    """Why a solver stopped."""

    CONVERGED = "the residual is within the tolerance"
    MAXITER = "the largest number of iterations was reached"
    NAN = "the residual is no number: the matrix, the right-hand side or the start holds NaN or infinities"
    BREAKDOWN = "the method broke down: a quantity that it divides by is zero"
    INDEFINITE = "the matrix or the preconditioner is not positive definite"
    STAGNATION = "the residual no longer changes"


@dataclass(frozen=True)
class Result:
    """How a solve ended: its ``reason``, the iterations, the norm of the last residual and the tolerance."""

    solver: str
    reason: Reason
    iterations: int
    residual: float
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether the residual is within the tolerance."""
        return self.reason is Reason.CONVERGED

    @property
    def info(self) -> int:
        """SciPy's ``info``: 0, the number of iterations where they did not suffice, or negative for a breakdown."""
        if self.converged:
            return 0
        return self.iterations if self.reason is Reason.MAXITER else -10

    def __str__(self) -> str:
        return (
            f"{self.solver}: {self.reason.value}, after {self.iterations} iterations, residual {self.residual:.3e}, "
            f"tolerance {self.tolerance:.3e}"
        )


class SolverWarning(UserWarning):
    """A solver did not converge."""


_last: Result | None = None


def last_result() -> Result | None:
    """How the last solve ended; None before the first one, and for solves inside traced functions."""
    return _last


#: What a state's ``status`` says.
RUNNING, BROKEN, INDEFINITE = 0, 1, 2


@dataclass
class Problem:
    """The checked arguments of a solver.

    Raises on creation:
        ValueError: shapes do not fit, or ``maxiter`` is negative.
        TypeError: A is no operator.
    """

    a: LinearOperator
    m: LinearOperator
    b: ndarray
    x: ndarray
    n: int
    tolerance: ndarray
    maxiter: int
    preconditioned: bool

    @staticmethod
    def of(a: Any, b: Any, x0: Any, rtol: float, atol: float, maxiter: int | None, m: Any) -> Problem:
        """Check the arguments and bring them into one form."""
        if not recording.tracing():
            # What was recorded before is no part of the solve, which so is the same program wherever it is called.
            recording.flush()
        b = core.as_array(b)
        if b.ndim == 2 and b.shape[1] == 1:
            b = b[:, 0]
        if b.ndim != 1:
            raise ValueError(f"the right-hand side must be a vector, not of shape {b.shape} ({recording.user_line()})")
        n = b.shape[0]
        if not callable(a) and getattr(a, "shape", (n, n))[0] != getattr(a, "shape", (n, n))[1]:
            raise ValueError(f"expected square matrix, but got shape={a.shape} ({recording.user_line()})")
        shape = getattr(a, "shape", (n, n))
        if tuple(shape) != (n, n):
            raise ValueError(f"shapes of A {tuple(shape)} and b {b.shape} are incompatible ({recording.user_line()})")
        operator = operator_of(a, n, "A")
        preconditioner = operator_of(m, n, "M")
        if maxiter is not None and maxiter < 0:
            raise ValueError(f"maxiter is {maxiter}, and must not be negative ({recording.user_line()})")
        if rtol < 0 or atol < 0:
            raise ValueError(f"rtol and atol must not be negative ({recording.user_line()})")
        kinds = [d for d in (operator.dtype, b.dtype, np.float32 if b.dtype == np.float32 else None) if d is not None]
        dtype = np.result_type(*kinds) if kinds else np.dtype(float)
        if dtype.kind in "biu":
            dtype = np.dtype(float)
        with recording.one_operation():
            b = b.astype(dtype, copy=False)
            if x0 is None:
                x = zeros(n, dtype)
            else:
                x = core.as_array(x0)
                if x.shape not in ((n,), (n, 1)):
                    raise ValueError(
                        f"shapes of A {(n, n)} and x0 {x.shape} are incompatible ({recording.user_line()})"
                    )
                x = (x if x.ndim == 1 else x[:, 0]).astype(dtype)
            size = norm(b)
            # With a right-hand side of zeros nothing is to be done, whatever the start.
            tolerance = where(size == 0, np.inf, core.ufunc("maximum", size * rtol, float(atol)))
            x = where(size == 0, x.dtype.type(0), x) if x0 is not None else x
        return Problem(
            operator, preconditioner, b, x, n, tolerance, 10 * n if maxiter is None else maxiter, m is not None
        )


def begin() -> tuple[ndarray, ndarray]:
    """The number of iterations and the status that a state begins with."""
    return zeros((), np.int64), zeros((), np.int64)


def root(x: ndarray) -> ndarray:
    """The square root."""
    return core.ufunc("sqrt", x)


def norm(x: ndarray) -> ndarray:
    """The 2-norm of a vector."""
    return root(squared(x))


def squared(x: ndarray) -> ndarray:
    """The sum of squared magnitudes, real."""
    return dot(x, x) if x.dtype.kind != "c" else dot(x.real, x.real) + dot(x.imag, x.imag)


def dot(x: ndarray, y: ndarray) -> ndarray:
    """The inner product, conjugate linear in the first."""
    return vdot(x, y)


State = tuple[Any, ...]  # (iterations, status, x, norm of the residual, ...)


def solve(
    name: str,
    problem: Problem,
    state: State,
    step: Callable[[State], State],
    callback: Callable[[Any], Any] | None,
    progress: bool,
) -> tuple[ndarray, Any]:
    """Repeat ``step`` until the residual is within the tolerance: one loop in one executable.

    ``state`` begins with the number of iterations, the status, the solution and the norm of the residual.
    """

    def going(limit: Any) -> Callable[[State], Any]:
        def test(state: State) -> Any:
            k, status, _, residual = state[:4]
            # A residual that is no number compares as False.
            return (k < limit) & (status == RUNNING) & (residual > problem.tolerance)

        return test

    if recording.tracing():
        state = while_loop(going(problem.maxiter), step, state)
        k, status, x, residual = state[:4]
        return x, where((residual <= problem.tolerance) & (residual < np.inf), 0, where(status == RUNNING, k, -10))
    if callback is None and not progress:
        state = while_loop(going(problem.maxiter), step, state)
    else:
        state = _watched(name, problem, state, step, going, callback, progress)
    x = state[2]
    k, status, residual, tolerance = int(state[0]), int(state[1]), float(state[3]), float(problem.tolerance)
    return x, finish(name, k, status, residual, tolerance)


def _watched(
    name: str,
    problem: Problem,
    state: State,
    step: Callable[[State], State],
    going: Callable[[Any], Callable[[State], Any]],
    callback: Callable[[Any], Any] | None,
    progress: bool,
) -> State:
    """The same, an iteration (or with only a progress line, some) at a time."""
    from ...runtime.ranks import world

    stride = 1 if callback is not None else 50
    shown = None
    if progress and world().rank == 0:
        from rich.console import Console

        shown = Console(stderr=True).status(name)
        shown.start()
    try:
        while True:
            before = int(state[0])
            state = while_loop(going(min(before + stride, problem.maxiter)), step, state)
            done = int(state[0])
            if done == before:
                return state
            if callback is not None:
                callback(state[2])
            residual = float(state[3]) if progress else 0.0
            if shown is not None:
                shown.update(f"{name}: iteration {done}, residual {residual:.3e}")
    finally:
        if shown is not None:
            shown.stop()


def _outside() -> int:
    """The level on the stack of the user's code, as `warnings.warn` counts from its caller."""
    level, frame = 1, sys._getframe(1)
    home = str(Path(__file__).parents[2])
    while frame.f_back is not None and frame.f_code.co_filename.startswith(home):
        level, frame = level + 1, frame.f_back
    return level


def finish(name: str, iterations: int, status: int, residual: float, tolerance: float) -> int:
    """Note how a solve ended, and warn where it did not converge; SciPy's ``info``."""
    global _last
    if not np.isfinite(residual) or np.isnan(tolerance):
        reason = Reason.NAN
    elif residual <= tolerance:
        reason = Reason.CONVERGED
    elif status == INDEFINITE:
        reason = Reason.INDEFINITE
    else:
        reason = Reason.BREAKDOWN if status == BROKEN else Reason.MAXITER
    _last = Result(name, reason, iterations, residual, tolerance)
    if reason is not Reason.CONVERGED:
        warnings.warn(f"{recording.user_line()}: {_last}", SolverWarning, stacklevel=_outside())
    return _last.info
