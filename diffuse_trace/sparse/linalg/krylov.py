"""Krylov methods whose every iteration is the same: conjugate gradients and their relatives, in NumPy style.

Each is written as a person would write it on whole arrays; the loop, the products and the reductions become one
executable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import recording
from ...numpy import core
from ...numpy.array import ndarray
from ...numpy.elementwise import where
from .solves import BROKEN, INDEFINITE, RUNNING, Problem, State, begin, dot, norm, root, solve, squared

Callback = Callable[[Any], Any] | None


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback = None,
    progress: bool = False,
) -> tuple[ndarray, Any]:
    """Conjugate gradients, for Hermitian positive definite matrices (Hestenes and Stiefel, 1952).

    Args:
        A: n x n matrix, `LinearOperator` or function of vectors.
        b: right-hand side, n elements.
        x0: start, by default zeros.
        rtol, atol: stops when the norm of the residual is at most ``max(rtol * norm(b), atol)``.
        maxiter: iterations at most, by default 10 n.
        M: approximates the inverse of A, Hermitian positive definite (not checked beyond the sign of ``r @ M r``).
        callback: called with the solution after each iteration.
        progress: show a line with the iteration and the residual.

    Returns:
        The solution and ``info``: 0 if it converged, the number of iterations if ``maxiter`` was reached, negative
        otherwise; `last_result` tells more.

    Raises:
        ValueError, TypeError: shapes or arguments do not fit.
    """
    p = Problem.of(A, b, x0, rtol, atol, maxiter, M)
    with recording.one_operation():
        r = p.b - p.a.matvec(p.x) if x0 is not None else p.b.copy()
        z = p.m.matvec(r) if p.preconditioned else r
        rr = squared(r)
        rz = dot(r, z).real if p.preconditioned else rr
        state: State = (*begin(), p.x, root(rr), r, z.copy(), rz)

        def step(state: State) -> State:
            k, _, x, _, r, d, rz = state
            q = p.a.matvec(d)
            curvature = dot(d, q).real
            alpha = rz / curvature
            x = x + alpha * d
            r = r - alpha * q
            rr = squared(r)
            if p.preconditioned:
                z = p.m.matvec(r)
                new = dot(r, z).real
            else:
                z, new = r, rr
            d = z + (new / rz) * d
            definite = (curvature > 0) & (rz > 0) if p.preconditioned else curvature > 0
            status = where(definite, RUNNING, INDEFINITE)
            return k + 1, status, x, root(rr), r, d, new

        return solve("cg", p, state, step, callback, progress)


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback = None,
    progress: bool = False,
) -> tuple[ndarray, Any]:
    """Stabilised biconjugate gradients (van der Vorst, 1992), for any matrix.  Arguments and results as of `cg`."""
    p = Problem.of(A, b, x0, rtol, atol, maxiter, M)
    with recording.one_operation():
        r = p.b - p.a.matvec(p.x) if x0 is not None else p.b.copy()
        shadow = r.copy()
        rho = dot(shadow, r)
        state: State = (*begin(), p.x, norm(r), r, r.copy(), rho)

        def step(state: State) -> State:
            k, _, x, _, r, d, rho = state
            ahead = p.m.matvec(d)
            v = p.a.matvec(ahead)
            across = dot(shadow, v)
            alpha = rho / across
            s = r - alpha * v
            corrected = p.m.matvec(s)
            t = p.a.matvec(corrected)
            tt, ts = squared(t), dot(t, s)
            omega = where(tt > 0, ts / tt, ts * 0)  # s, and so t, is zero when the half step has solved it
            x = x + alpha * ahead + omega * corrected
            r = s - omega * t
            new = dot(shadow, r)
            beta = (new / rho) * (alpha / omega)
            d = r + beta * (d - omega * v)
            broken = (across == 0) | (rho == 0) | ((tt > 0) & (ts == 0))
            return k + 1, where(broken, BROKEN, RUNNING), x, norm(r), r, d, new

        return solve("bicgstab", p, state, step, callback, progress)


def cgs(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback = None,
    progress: bool = False,
) -> tuple[ndarray, Any]:
    """Conjugate gradients squared (Sonneveld, 1989), for any matrix.  Arguments and results as of `cg`."""
    p = Problem.of(A, b, x0, rtol, atol, maxiter, M)
    with recording.one_operation():
        r = p.b - p.a.matvec(p.x) if x0 is not None else p.b.copy()
        shadow = r.copy()
        rho = dot(shadow, r)
        state: State = (*begin(), p.x, norm(r), r, r.copy(), r.copy(), rho)

        def step(state: State) -> State:
            k, _, x, _, r, u, d, rho = state
            v = p.a.matvec(p.m.matvec(d))
            across = dot(shadow, v)
            alpha = rho / across
            q = u - alpha * v
            both = p.m.matvec(u + q)
            x = x + alpha * both
            r = r - alpha * p.a.matvec(both)
            new = dot(shadow, r)
            beta = new / rho
            u = r + beta * q
            d = u + beta * (q + beta * d)
            return k + 1, where((across == 0) | (rho == 0), BROKEN, RUNNING), x, norm(r), r, u, d, new

        return solve("cgs", p, state, step, callback, progress)


def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback = None,
    progress: bool = False,
) -> tuple[ndarray, Any]:
    """Minimal residuals (Paige and Saunders, 1975), for symmetric matrices that may be indefinite.

    Solves ``(A - shift I) x = b``; stops when the norm of the residual is at most ``rtol`` times those of A and x, as
    the method estimates them.  Arguments and results otherwise as of `cg`; M must be positive definite.
    """
    p = Problem.of(A, b, x0, rtol, 0.0, 5 * core.as_array(b).shape[0] if maxiter is None else maxiter, M)
    with recording.one_operation():
        r = p.b - p.a.matvec(p.x) + shift * p.x if x0 is not None else p.b.copy()
        y = p.m.matvec(r)
        beta = root(dot(r, y).real)
        nothing = r * 0
        zero, one = beta * 0, beta * 0 + 1
        # What is compared is the residual relative to the norms of the matrix and of the solution, as they are known.
        p.tolerance = where(beta > 0, rtol, np.inf) + zero
        lanczos = (nothing, r, y, one, beta)
        directions = (nothing.copy(), nothing.copy())
        rotation = (zero, -one, zero, beta, zero)
        huge = one * np.finfo(one.dtype).max
        state: State = (*begin(), p.x, huge, *lanczos, *directions, *rotation, zero)

        def step(state: State) -> State:
            k, _, x, _, r1, r2, y, old, beta, w, w2, dbar, cs, sn, phibar, epsilon, size = state
            v = y / beta
            y = p.a.matvec(v) - shift * v
            y = where(k > 0, y - (beta / old) * r1, y)
            alpha = dot(v, y).real
            y = y - (alpha / beta) * r2
            r1, r2 = r2, y
            y = p.m.matvec(r2)
            inner = dot(r2, y).real
            size = size + alpha * alpha + beta * beta
            old, beta = beta, root(where(inner > 0, inner, 0.0))
            size = where(k > 0, size, alpha * alpha)
            before = epsilon
            delta = cs * dbar + sn * alpha
            gbar = sn * dbar - cs * alpha
            epsilon = sn * beta
            dbar = -cs * beta
            gamma = root(gbar * gbar + beta * beta)
            gamma = where(gamma > 0, gamma, 1e-300)
            cs, sn = gbar / gamma, beta / gamma
            phi, phibar = cs * phibar, sn * phibar
            w1, w2 = w2, w
            w = (v - before * w1 - delta * w2) / gamma
            x = x + phi * w
            compared = phibar / (root(size + beta * beta) * norm(x))
            status = where(inner < 0, INDEFINITE, RUNNING)
            return k + 1, status, x, compared, r1, r2, y, old, beta, w, w2, dbar, cs, sn, phibar, epsilon, size

        return solve("minres", p, state, step, callback, progress)
