"""Conjugate gradients (Hestenes and Stiefel, 1952) as a person writes them: a Python loop around whole arrays.

    diffuse run -n 2 examples/cg.py --size 1000 --steps 500
    diffuse run -n 2 examples/cg.py --size 64 --steps 1000 --check

The matrix is that of Poisson's equation on the unit square.  The product, the updates and the dot products of an
iteration are fused with each other, though they come from two libraries.
"""

from __future__ import annotations

import numpy
from poisson import laplacian
from running import Options, check, difference, package, picture, repeat


def start(np, a, b):
    """The state at x = 0: x, residual, direction, square of the residual's norm."""
    x = np.zeros(b.shape[0])
    return x, b.copy(), b.copy(), np.dot(b, b)


def iterate(np, a, x, r, d, rr):
    """One iteration."""
    q = a @ d
    alpha = rr / np.dot(d, q)
    x = x + alpha * d
    r = r - alpha * q
    new = np.dot(r, r)
    d = r + (new / rr) * d
    return x, r, d, new


def main(method: str = "cg", doc: str = __doc__, begin=start, iteration=iterate) -> None:
    parser = Options(doc, f"compare with SciPy's {method} and a direct solution")
    parser.count("--size", 500, "points along each axis", least=2)
    parser.count("--steps", 300, "iterations at most")
    parser.add_argument("--rtol", type=float, default=1e-8, help="of the residual (default 1e-8)")
    parser.count("--every", 10, "iterations between looks at the residual")
    options = parser.parse()
    p = package(options.package)
    np = p.np
    a = laplacian(p.sparse, options.size, 2)
    b = np.random.default_rng(3).random(options.size**2)
    advance = p.jit(lambda *state: iteration(np, a, *state))
    state = begin(np, a, b)
    limit = options.rtol * float(np.linalg.norm(b))
    float(np.linalg.norm(advance(*state)[1]))  # compiles
    history = []

    def step(k):
        nonlocal state
        state = advance(*state)
        if k % options.every == 0 or k == options.steps - 1:
            history.append(float(np.linalg.norm(state[1])))
            return history[-1] <= limit
        return False

    done = repeat(p, options.steps, step)
    done.show(p, a.shape[0], "unknowns", "iteration")
    converged = history[-1] <= limit
    print(f"residual {history[-1]:.2e}, {'converged' if converged else 'not converged: give more --steps'}")
    if options.check:
        import scipy.sparse
        import scipy.sparse.linalg as linalg

        host, right = laplacian(scipy.sparse, options.size, 2), numpy.asarray(b)
        x, _ = getattr(linalg, method)(host, right, rtol=0, atol=0, maxiter=done.steps)
        if converged:
            x = linalg.spsolve(host.tocsc(), right)
            check("against a direct solution", difference(state[0], x), 1e3 * options.rtol)
        else:
            check(f"against SciPy's {method} after as many iterations", difference(state[0], x), 1e-6)
    if options.plot:

        def draw(figure, ax):
            ax.semilogy(numpy.arange(len(history)) * options.every, history, ".-")
            ax.set(
                xlabel="iteration", ylabel="norm of the residual", title=f"{method}, {options.size} x {options.size}"
            )

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
