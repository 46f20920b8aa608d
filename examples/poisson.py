"""Poisson's equation on the unit square or cube: conjugate gradients from the library, in one executable.

    diffuse run -n 2 examples/poisson.py --size 1000
    diffuse run -n 2 examples/poisson.py --dimensions 3 --size 80 --preconditioner chebyshev --check

-laplace(u) = f with u = 0 on the border, second-order finite differences.  f is chosen so that the solution is a
product of x (1 - x) exp(x) along each axis, so the error of the discretisation is known.
"""

from __future__ import annotations

import numpy
from running import Options, check, difference, package, picture, solve


def laplacian(sparse, size, dimensions):
    """The matrix of -h^2 laplace on a grid of ``size`` interior points along each axis."""
    second = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
    total = second
    for _ in range(dimensions - 1):
        n = total.shape[0]
        total = sparse.kron(total, sparse.eye_array(size)) + sparse.kron(sparse.eye_array(n), second)
    return total.tocsr()


def right_side(np, size, dimensions):
    """The solution u = product of x_i (1 - x_i) exp(x_i) on the grid, and h^2 f."""
    x = np.arange(1, size + 1) / (size + 1)
    factor, second = x * (1 - x) * np.exp(x), -x * (3 + x) * np.exp(x)
    u, lap = factor, second
    for _ in range(dimensions - 1):
        lap = lap[..., None] * factor + u[..., None] * second
        u = u[..., None] * factor
    return u.reshape(-1), -lap.reshape(-1) / (size + 1) ** 2


def main() -> None:
    parser = Options(__doc__, "compare with SciPy's solver and with the analytic solution")
    parser.count("--size", 500, "interior points along each axis", least=2)
    parser.add_argument("--dimensions", type=int, choices=(1, 2, 3), default=2, help="of the domain (default 2)")
    parser.add_argument("--rtol", type=float, default=1e-8, help="of the residual (default 1e-8)")
    parser.count("--maxiter", 10_000, "iterations at most")
    parser.add_argument("--preconditioner", choices=("none", "jacobi", "chebyshev"), default="none")
    options = parser.parse()
    p = package(options.package)
    if p.name == "numpy" and options.preconditioner != "none":
        parser.error("SciPy has none of these preconditioners")

    a = laplacian(p.sparse, options.size, options.dimensions)
    exact, b = right_side(p.np, options.size, options.dimensions)
    m = None if options.preconditioner == "none" else getattr(p.linalg, options.preconditioner)(a)
    print(f"{a.shape[0]} unknowns, {a.nnz} elements, preconditioner: {options.preconditioner}")
    x, converged = solve(p, a, b, options.rtol, options.maxiter, m)
    if not converged:
        print(f"not converged after {options.maxiter} iterations")
    error = float(abs(x - exact).max())
    print(f"largest error against the analytic solution {error:.2e}")

    if options.check:
        import scipy.sparse as sp
        import scipy.sparse.linalg as linalg

        right = linalg.cg(laplacian(sp, options.size, options.dimensions), numpy.asarray(b), rtol=options.rtol)[0]
        check("against SciPy's cg", difference(x, right), 1e3 * options.rtol)
        check("against the analytic solution", error, options.dimensions / (options.size + 1) ** 2)
    if options.plot:
        whole = numpy.asarray(x).reshape((options.size,) * options.dimensions)
        while whole.ndim > 2:
            whole = whole[len(whole) // 2]

        def draw(figure, ax):
            if whole.ndim == 1:
                ax.plot(whole)
            else:
                figure.colorbar(ax.imshow(whole, origin="lower", extent=(0, 1, 0, 1)), ax=ax)
            ax.set_title("u" if options.dimensions < 3 else "u in the middle")

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
