"""Jacobi's iteration for a dense system of equations.

    diffuse run -n 2 examples/jacobi.py --size 4000 --check
    python examples/jacobi.py --package numpy

The matrix is random with a dominant diagonal.  An iteration reads the whole matrix, so it runs at the speed of memory.
"""

from __future__ import annotations

import numpy
from running import Options, check, difference, package, picture, repeat


def system(np, size):
    """The matrix, its diagonal, and a right-hand side."""
    rng = np.random.default_rng(2)
    a = rng.random((size, size)) / size
    b = rng.random(size)
    diagonal = np.full(size, 1.5)
    a = a * (1 - np.eye(size)) + np.eye(size) * 1.5
    return a, diagonal, b


def iterate(np, a, diagonal, b, x):
    """One iteration; the new x and the largest residual of the old one."""
    residual = b - a @ x
    return x + residual / diagonal, np.abs(residual).max()


def main() -> None:
    parser = Options(__doc__, "compare with numpy.linalg.solve")
    parser.count("--size", 2000, "unknowns")
    parser.count("--steps", 60, "iterations at most")
    parser.add_argument("--tol", type=float, default=1e-12, help="of the largest residual (default 1e-12)")
    parser.count("--every", 10, "iterations between looks at the residual")
    options = parser.parse()
    p = package(options.package)
    a, diagonal, b = system(p.np, options.size)
    x = p.np.zeros(options.size)
    advance = p.jit(lambda *given: iterate(p.np, *given))
    advance(a, diagonal, b, x)  # compiles
    history = []

    def step(k):
        nonlocal x
        x, residual = advance(a, diagonal, b, x)
        if k % options.every == 0 or k == options.steps - 1:
            history.append(float(residual))
            return history[-1] <= options.tol
        return False

    repeat(p, options.steps, step).show(p, options.size**2, "elements", "iteration")
    print(f"largest residual {history[-1]:.2e}")
    if options.check:
        right = numpy.linalg.solve(numpy.asarray(a), numpy.asarray(b))
        check("against numpy.linalg.solve", difference(x, right), max(1e-10, 10 * history[-1]))
    if options.plot:

        def draw(figure, ax):
            ax.semilogy(numpy.arange(len(history)) * options.every, history, ".-")
            ax.set(xlabel="iteration", ylabel="largest residual")

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
