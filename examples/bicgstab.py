"""Stabilised biconjugate gradients (van der Vorst, 1992), written as `cg.py` is.

diffuse run -n 2 examples/bicgstab.py --size 1000 --steps 200
diffuse run -n 2 examples/bicgstab.py --size 64 --steps 1000 --check
"""

from __future__ import annotations

import cg


def start(np, a, b):
    """The state at x = 0: x, residual, direction, shadow residual, and its product with the residual."""
    return np.zeros(b.shape[0]), b.copy(), b.copy(), b.copy(), np.dot(b, b)


def iterate(np, a, x, r, d, shadow, rho):
    """One iteration."""
    v = a @ d
    alpha = rho / np.dot(shadow, v)
    s = r - alpha * v
    t = a @ s
    omega = np.dot(t, s) / np.dot(t, t)
    x = x + alpha * d + omega * s
    r = s - omega * t
    new = np.dot(shadow, r)
    d = r + (new / rho) * (alpha / omega) * (d - omega * v)
    return x, r, d, shadow, new


if __name__ == "__main__":
    cg.main("bicgstab", __doc__, start, iterate)
