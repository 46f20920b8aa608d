"""Finite elements on unstructured meshes, solved by preconditioned conjugate gradients.

    diffuse run -n 2 examples/fem.py --refine 6 --element P2 --check
    diffuse run -n 2 examples/fem.py --matrix airfoil --check

Either a Poisson problem on a disc (-laplace(u) = 1, u = 0 on the border; u = (1 - r^2) / 4), assembled with scikit-fem,
or one of PyAMG's example matrices.  Needs `pip install 'diffuse-trace[fem]'`.
"""

from __future__ import annotations

import sys

import numpy
import scipy.sparse
import scipy.sparse.linalg
from running import Options, check, difference, package, picture, solve

EXAMPLES = ("airfoil", "bar", "knot", "local_disc_galerkin_diffusion", "unit_square", "unit_cube")


def disc(refine: int, element: str):
    """Stiffness matrix and load of the free unknowns, their places (2 x n), and the triangulation."""
    try:
        import skfem
        from skfem.models.poisson import laplace, unit_load
    except ImportError:
        sys.exit("scikit-fem is needed: pip install 'diffuse-trace[fem]'")
    mesh = skfem.MeshTri.init_circle(refine)
    basis = skfem.Basis(mesh, {"P1": skfem.ElementTriP1, "P2": skfem.ElementTriP2}[element]())
    stiffness, load = laplace.assemble(basis), unit_load.assemble(basis)
    a, b, _, free = skfem.condense(stiffness, load, D=basis.get_dofs())
    return a.tocsr(), b, basis.doflocs[:, free]


def example(name: str):
    """One of PyAMG's matrices, and a right-hand side whose solution is all ones."""
    try:
        from pyamg.gallery import load_example
    except ImportError:
        sys.exit("PyAMG is needed: pip install 'diffuse-trace[fem]'")
    found = load_example(name)
    a = scipy.sparse.csr_array(found["A"])
    return a, a @ numpy.ones(a.shape[0]), numpy.asarray(found["vertices"]).T


def main() -> None:
    parser = Options(__doc__, "compare with SciPy's direct solver")
    parser.count("--refine", 6, "refinements of the disc's mesh; each has four times the triangles", least=1)
    parser.add_argument("--element", choices=("P1", "P2"), default="P1", help="on the disc (default P1)")
    parser.add_argument("--matrix", choices=EXAMPLES, help="solve with this matrix instead")
    parser.add_argument("--rtol", type=float, default=1e-8, help="of the residual (default 1e-8)")
    parser.add_argument("--preconditioner", choices=("none", "jacobi", "chebyshev"), default="jacobi")
    options = parser.parse()
    p = package(options.package)
    if p.name == "numpy" and options.preconditioner != "none":
        parser.error("SciPy has none of these preconditioners; give --preconditioner none")

    # Every rank assembles all of it; where a mesh is too large for that, `coo_array.from_local_triples` takes the
    # triples of each rank's own triangles.
    host, load, places = example(options.matrix) if options.matrix else disc(options.refine, options.element)
    a, b = p.sparse.csr_array(host), p.np.asarray(load)
    m = None if options.preconditioner == "none" else getattr(p.linalg, options.preconditioner)(a)
    print(f"{a.shape[0]} unknowns, {a.nnz} elements, preconditioner: {options.preconditioner}")
    x, converged = solve(p, a, b, options.rtol, 10 * a.shape[0], m)
    if not converged:
        sys.exit("no convergence")

    whole = numpy.asarray(x)
    if not options.matrix:
        error = float(numpy.abs(whole - (1 - (places**2).sum(axis=0)) / 4).max())
        print(f"largest error against the analytic solution {error:.2e}")
    if options.check:
        right = scipy.sparse.linalg.spsolve(host.tocsc(), load)
        check("against SciPy's spsolve", difference(whole, right), 1e4 * options.rtol)
    if options.plot:

        def draw(figure, ax):
            if len(places) == 2 and places.shape[1] == len(whole):
                figure.colorbar(ax.tripcolor(places[0], places[1], whole, shading="gouraud"), ax=ax)
                ax.set_aspect("equal")
            else:
                ax.plot(whole, ",")
            ax.set_title(f"{options.matrix or options.element}, {len(whole)} unknowns")

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
