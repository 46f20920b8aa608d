"""Generalised minimal residuals.

The basis grows from step to step, so that a step is no trip of a loop: each is a program of its own, with the small
least squares problem on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import recording
from ...errors import TracingError
from ...numpy.array import ndarray
from .solves import BROKEN, RUNNING, Problem, dot, finish, norm


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], Any] | None = None,
    callback_type: str | None = None,
    progress: bool = False,
) -> tuple[ndarray, Any]:
    """Restarted GMRES (Saad and Schultz, 1986), for any matrix; M preconditions from the right, as in SciPy.

    Args:
        restart: steps between restarts, by default ``min(20, n)``; as many vectors are kept.
        maxiter: restarts at most, by default 10 n.
        callback_type: what ``callback`` is given: the relative residual after each step (``"pr_norm"``, ``"legacy"``,
            the default), or the solution after each restart (``"x"``).
        others: as of `cg`.

    Returns:
        The solution and ``info``, as `cg`; the iterations of ``info`` count steps.

    Raises:
        ValueError, TypeError: shapes or arguments do not fit.
        TracingError: it is called in a traced function.
    """
    if recording.tracing():
        raise TracingError(
            f"{recording.user_line()}: gmres needs values while it runs, and {recording.tracing()} is being traced; "
            "call it outside, or use bicgstab"
        )
    if callback_type not in (None, "x", "pr_norm", "legacy"):
        raise ValueError(f"unknown callback_type: {callback_type!r} ({recording.user_line()})")
    p = Problem.of(A, b, x0, rtol, atol, maxiter, M)
    if maxiter is not None and restart is None:
        restart = 20
    steps = max(1, min(restart or 20, p.n))
    scale = float(norm(p.b)) or 1.0
    tolerance = float(p.tolerance)
    x, k, status = p.x, 0, RUNNING
    r = p.b - p.a.matvec(x) if x0 is not None else p.b.copy()
    residual = float(norm(r))
    for _ in range(p.maxiter):
        if not residual > tolerance or status != RUNNING:
            break
        with recording.one_operation():
            y, basis, done, status, estimate = _cycle(p, r, residual, steps, tolerance, scale, callback, callback_type)
            k += done
            change = y[0] * basis[0]
            for factor, v in zip(y[1:], basis[1:], strict=False):
                change = change + factor * v
            x = x + p.m.matvec(change)
            r = p.b - p.a.matvec(x)
            before, residual = residual, float(norm(r))
            if callback is not None and callback_type == "x":
                callback(x)
            if not residual < before and residual > tolerance:
                status = BROKEN  # nothing is gained any more
    return x, finish("gmres", k, status, residual, tolerance)


def _cycle(
    p: Problem,
    r: ndarray,
    residual: float,
    steps: int,
    tolerance: float,
    scale: float,
    callback: Callable[[Any], Any] | None,
    kind: str | None,
) -> tuple[np.ndarray, list[ndarray], int, int, float]:
    """The steps between two restarts: the solution in the basis, the basis, how many, the status, the residual."""
    dtype = p.b.dtype
    basis = [r / residual]
    h = np.zeros((steps + 1, steps), dtype)
    rotations: list[tuple[Any, Any]] = []
    g = np.zeros(steps + 1, dtype)
    g[0] = residual
    done, status = 0, RUNNING
    for j in range(steps):
        w = p.a.matvec(p.m.matvec(basis[j]))
        before = norm(w)
        # Gram and Schmidt's method twice: all products of a round travel in one message, and twice is enough.
        for _ in range(2):
            products = [dot(v, w) for v in basis]
            for v, product in zip(basis, products, strict=True):
                w = w - product * v
            h[: j + 1, j] += [complex(x) if dtype.kind == "c" else float(x) for x in products]
        length = float(norm(w))
        h[j + 1, j] = length
        done = j + 1
        broke = not length > 1e-14 * float(before)
        for i, (c, s) in enumerate(rotations):
            h[i, j], h[i + 1, j] = c * h[i, j] + s * h[i + 1, j], -np.conj(s) * h[i, j] + c * h[i + 1, j]
        size = float(np.hypot(abs(h[j, j]), abs(h[j + 1, j])))
        if not size > 0:
            status = BROKEN
            done = j
            break
        c, s = abs(h[j, j]) / size, (h[j, j] / abs(h[j, j]) if h[j, j] else 1.0) * np.conj(h[j + 1, j]) / size
        rotations.append((c, s))
        h[j, j], h[j + 1, j] = c * h[j, j] + s * h[j + 1, j], 0
        g[j], g[j + 1] = c * g[j], -np.conj(s) * g[j]
        if callback is not None and kind != "x":
            callback(abs(g[j + 1]) / scale)
        if not abs(g[j + 1]) > tolerance or broke:
            break
        basis.append(w / length)
    y = np.linalg.solve(h[:done, :done], g[:done]) if done else np.zeros(1, dtype)
    return y, basis[: max(done, 1)], done, status, float(abs(g[done]))
