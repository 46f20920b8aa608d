"""Geometric multigrid for Poisson's equation on the unit square, as a solver and as a preconditioner of CG.

    diffuse run -n 2 examples/multigrid.py --size 511 --check
    diffuse run -n 2 examples/multigrid.py --size 511 --as preconditioner --levels 2

V-cycles with a weighted Jacobi smoother (Briggs, Henson and McCormick, *A Multigrid Tutorial*, 2000).  Prolongation
is bilinear and restriction its transpose, both sparse matrices; the coarse operators are their products with the fine
one.  A whole cycle, all levels and sweeps, is one function.
"""

from __future__ import annotations

import numpy
from poisson import laplacian
from running import Options, check, difference, package, picture, repeat

OMEGA = 0.8  # weight of the smoother, 4/5 for the five-point stencil


def prolongation(sparse, coarse):
    """Linear interpolation from ``coarse`` points to 2 coarse + 1."""
    fine = 2 * coarse + 1
    rows = numpy.concatenate([2 * numpy.arange(coarse) + k for k in (0, 1, 2)])
    values = numpy.repeat([0.5, 1.0, 0.5], coarse)
    return sparse.coo_array((values, (rows, numpy.tile(numpy.arange(coarse), 3))), shape=(fine, coarse)).tocsr()


def hierarchy(sparse, size, levels):
    """For each level, finest first: its matrix, the reciprocal of its diagonal, restriction and prolongation.

    The coarsest has no restriction and prolongation; it is a single sweep's work or as many as it takes.
    """
    a = laplacian(sparse, size, 2)
    found = []
    while True:
        last = len(found) == levels - 1 or size < 3
        inverse = 1 / a.diagonal()
        if last:
            found.append((a, inverse, None, None))
            return found
        coarse = (size - 1) // 2
        line = prolongation(sparse, coarse)
        p = sparse.kron(line, line).tocsr()
        r = p.T.tocsr()
        found.append((a, inverse, r, p))
        a, size = (r @ a @ p).tocsr(), coarse


def cycle(np, levels, b, x, sweeps, coarsest_sweeps):
    """One V-cycle on ``levels`` for ``levels[0] x = b``; x may be None for zeros."""
    a, inverse, restrict, prolong = levels[0]
    last = restrict is None
    for _ in range(coarsest_sweeps if last else sweeps):
        x = OMEGA * inverse * b if x is None else x + OMEGA * inverse * (b - a @ x)
    if last:
        return x
    x = x + prolong @ cycle(np, levels[1:], restrict @ (b - a @ x), None, sweeps, coarsest_sweeps)
    for _ in range(sweeps):
        x = x + OMEGA * inverse * (b - a @ x)
    return x


def main() -> None:
    parser = Options(__doc__, "compare with a direct solution")
    parser.count("--size", 255, "interior points along each axis, odd at every level", least=3)
    parser.count("--levels", 20, "levels at most", least=2)
    parser.count("--sweeps", 2, "of the smoother before and after")
    parser.count("--coarsest-sweeps", 8, "of the smoother on the coarsest level")
    parser.count("--steps", 40, "cycles, or iterations of CG, at most")
    parser.add_argument("--rtol", type=float, default=1e-8, help="of the residual (default 1e-8)")
    parser.add_argument("--as", dest="role", choices=("solver", "preconditioner"), default="solver")
    options = parser.parse()
    p = package(options.package)
    np = p.np
    levels = hierarchy(p.sparse, options.size, levels_possible(parser, options))
    a, b = levels[0][0], np.random.default_rng(4).random(options.size**2)
    norm = float(np.linalg.norm(b))
    sizes = ", ".join(str(level[0].shape[0]) for level in levels)
    print(f"{len(levels)} levels of {sizes} unknowns")
    history = []

    def precondition(r):
        return cycle(np, levels, r, None, options.sweeps, options.coarsest_sweeps)

    if options.role == "solver":

        def advance(x, b):
            x = cycle(np, levels, b, x, options.sweeps, options.coarsest_sweeps)
            return x, np.linalg.norm(b - a @ x)

    else:

        def advance(x, r, d, rz):
            q = a @ d
            alpha = rz / np.dot(d, q)
            x = x + alpha * d
            r = r - alpha * q
            z = precondition(r)
            new = np.dot(r, z)
            return (x, r, z + (new / rz) * d, new), np.linalg.norm(r)

    compiled = p.jit(advance)
    if options.role == "solver":
        state = np.zeros(options.size**2)
    else:
        z = p.jit(precondition)(b)
        state = (np.zeros(options.size**2), b.copy(), z.copy(), np.dot(b, z))

    def call():
        return compiled(state, b) if options.role == "solver" else compiled(*state)

    call()

    def step(k):
        nonlocal state
        state, residual = call()
        history.append(float(residual) / norm)
        return history[-1] <= options.rtol

    repeat(p, options.steps, step).show(p, a.shape[0], "unknowns", "cycle" if options.role == "solver" else "iteration")
    x = state if options.role == "solver" else state[0]
    rate = (history[-1] / history[0]) ** (1 / max(1, len(history) - 1))
    print(f"relative residual {history[-1]:.2e}, reduced by {rate:.3f} each time")
    if history[-1] > options.rtol:
        print("not converged: give more --steps, --levels or --coarsest-sweeps")
    if options.check:
        import scipy.sparse
        from scipy.sparse.linalg import spsolve

        right = spsolve(laplacian(scipy.sparse, options.size, 2).tocsc(), numpy.asarray(b))
        check("against a direct solution", difference(x, right), 1e3 * max(options.rtol, 1e-13))
    if options.plot:

        def draw(figure, ax):
            ax.semilogy(numpy.arange(1, len(history) + 1), history, ".-")
            ax.set(xlabel="cycle", ylabel="relative residual")

        picture(p, options.plot, draw)


def levels_possible(parser, options):
    """How many levels the size allows, up to ``--levels``."""
    levels, size = 1, options.size
    while levels < options.levels and size >= 3:
        if size % 2 == 0:
            break
        levels, size = levels + 1, (size - 1) // 2
    if levels < 2:
        parser.error(f"--size {options.size} cannot be halved; give an odd number, best 2^k - 1")
    return levels


if __name__ == "__main__":
    main()
