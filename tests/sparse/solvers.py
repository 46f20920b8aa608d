"""Solvers and products against SciPy, on the ranks of this job: prints what is wrong, then OK."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy
import scipy.sparse as scipy_sparse
import scipy.sparse.linalg as scipy_linalg

import diffuse_trace as diffuse
import diffuse_trace.numpy as np
import diffuse_trace.sparse as sp
from diffuse_trace.sparse import linalg

rng = numpy.random.default_rng(1)
wrong: list[str] = []


def expect(what: str, fact: Any, *details: Any) -> None:
    if not fact:
        wrong.append(f"{what}: {details}")


def poisson(m: int) -> Any:
    second = scipy_sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    eye = scipy_sparse.eye_array(m)
    return (scipy_sparse.kron(second, eye) + scipy_sparse.kron(eye, second)).tocsr()


def scipy_solution(name: str, a: Any, b: Any, **options: Any) -> tuple[Any, int]:
    """SciPy's solution and how many iterations it took."""
    count = [0]

    def callback(_: Any) -> None:
        count[0] += 1

    kind = {"callback_type": "pr_norm"} if name == "gmres" else {}
    x, _ = getattr(scipy_linalg, name)(a, b, callback=callback, **kind, **options)
    return x, count[0]


def matrices() -> dict[str, Any]:
    """Real and made up, with every layout among them."""
    n = 144
    a = poisson(12)
    varied = a.copy()
    varied.data = varied.data * (1 + 0.1 * rng.random(a.nnz))
    spread = (scipy_sparse.random_array((n, n), density=0.03, rng=2) + 5 * scipy_sparse.eye_array(n)).tocsr()
    uneven = scipy_sparse.lil_array((n, n))
    uneven[3, :] = rng.random(n)
    uneven[:, 7] = rng.random((n, 1))
    uneven.setdiag(20.0)
    coarser = scipy_sparse.kron(scipy_sparse.eye_array(n // 3), numpy.ones((3, 3))).tocsr()
    kinds = coarser + 20 * scipy_sparse.eye_array(n)
    found = {
        "kinds": kinds[numpy.arange(n) // 8 * 8 + (numpy.arange(n) * 3) % 8],
        "stencil": a,
        "diagonals": varied,
        "rows": spread,
        "long rows": uneven.tocsr(),
        "complex": spread * (1 + 1j),
    }
    if "--few" in sys.argv:
        return found
    found["symmetric"] = ((spread + spread.T) / 2).tocsr()
    try:
        import pyamg.gallery

        for name in ("airfoil", "bar", "knot"):
            found[name] = pyamg.gallery.load_example(name)["A"].tocsr()
    except ImportError:
        pass
    try:
        import skfem
        from skfem.models.poisson import laplace, mass

        mesh = skfem.MeshTri.init_circle(3)
        for name, element in (("P1", skfem.ElementTriP1()), ("P2", skfem.ElementTriP2())):
            basis = skfem.Basis(mesh, element)
            found[name] = (laplace.assemble(basis) + mass.assemble(basis)).tocsr()
    except ImportError:
        pass
    return found


def products() -> None:
    for name, a in matrices().items():
        b = sp.csr_array(a)
        x, y = rng.random(a.shape[1]), rng.random(a.shape[0])
        tolerance = 1e-12 * abs(a).sum(axis=1).max()
        for fuse in ("1", "0"):
            with diffuse.config.override(fuse=fuse):
                got = b @ np.asarray(x)
                expect(f"{name} @ x", numpy.allclose(numpy.asarray(got), a @ x, atol=tolerance))
                left = np.asarray(y) @ b
                expect(f"y @ {name}", numpy.allclose(numpy.asarray(left), y @ a, atol=tolerance))
        flipped = b @ np.asarray(x)[::-1]
        expect(f"{name} @ x[::-1]", numpy.allclose(numpy.asarray(flipped), a @ x[::-1], atol=tolerance))
        longer = np.asarray(numpy.concatenate([x, x]))
        expect(
            f"{name} @ part",
            numpy.allclose(numpy.asarray(b @ longer[5 : 5 + len(x)]), a @ numpy.roll(x, -5), atol=tolerance),
        )

        @diffuse.jit
        def residual(u: Any, v: Any, b: Any = b) -> Any:
            r = v - b @ u
            return r, np.abs(r).max(), b @ r

        for _ in range(2):
            r, largest, again = residual(np.asarray(x), np.asarray(y))
            expect(f"traced {name}", numpy.allclose(numpy.asarray(r), y - a @ x, atol=tolerance))
            expect(f"traced {name}", abs(float(largest) - abs(y - a @ x).max()) <= tolerance)
            expect(
                f"traced {name}", numpy.allclose(numpy.asarray(again), a @ (y - a @ x), atol=tolerance**2 + tolerance)
            )
        b.data = numpy.asarray(b.data) * 2
        expect(
            f"new values of {name}", numpy.allclose(numpy.asarray(b @ np.asarray(x)), 2 * (a @ x), atol=2 * tolerance)
        )
        r, _, _ = residual(np.asarray(x), np.asarray(y))
        expect(f"traced, new values of {name}", numpy.allclose(numpy.asarray(r), y - 2 * (a @ x), atol=2 * tolerance))


def solutions() -> None:
    a, n = poisson(12), 144
    b = rng.random(n)
    shifted = (a - 1.3 * scipy_sparse.eye_array(n)).tocsr()
    general = (scipy_sparse.random_array((n, n), density=0.03, rng=2) + 5 * scipy_sparse.eye_array(n)).tocsr()
    cases = [("cg", a), ("bicgstab", a), ("cgs", a), ("minres", a), ("gmres", a), ("minres", shifted)]
    cases += [("bicgstab", general), ("cgs", general), ("gmres", general), ("bicgstab", general * (1 + 0.3j))]
    if "--few" in sys.argv:
        cases = [("cg", a), ("minres", shifted), ("gmres", a), ("bicgstab", general * (1 + 0.3j))]
    for name, m in cases:
        x, count = scipy_solution(name, m, b, rtol=1e-9)
        got, info = getattr(linalg, name)(sp.csr_array(m), b, rtol=1e-9)
        result = linalg.last_result()
        expect(name, info == 0 and result is not None and result.converged, info, result)
        close = 1e-5 if name == "minres" else 1e-6
        expect(name, numpy.allclose(numpy.asarray(got), x, rtol=close, atol=close), abs(numpy.asarray(got) - x).max())
        assert result is not None
        near = 1 + 0.02 * count  # rounding moves the end of a long run
        expect(f"iterations of {name}", abs(result.iterations - count) <= near, result.iterations, count)
    sparse = sp.csr_array(a)
    start = rng.random(n)
    for m in (linalg.jacobi(sparse), linalg.chebyshev(sparse), lambda r: 0.3 * r, sp.eye_array(n) * 0.2):
        x, info = linalg.cg(sparse, b, start, rtol=1e-10, M=m)
        expect(
            "preconditioned cg", info == 0 and numpy.linalg.norm(b - a @ numpy.asarray(x)) < 2e-9 * numpy.linalg.norm(b)
        )
    operator = linalg.LinearOperator((n, n), lambda v: 2 * v + np.roll(v, 1) * 0.5 + np.roll(v, -1) * 0.5)
    x, info = linalg.cg(operator, b, rtol=1e-10)
    expect("operator", info == 0 and numpy.allclose(numpy.asarray(operator @ x), b))
    seen: list[int] = []
    linalg.cg(sparse, b, rtol=1e-9, callback=lambda v: seen.append(v.shape[0]))
    expect("callback", len(seen) == linalg.last_result().iterations and set(seen) == {n})  # type: ignore[union-attr]

    @diffuse.jit
    def both(u: Any) -> Any:
        x, info = linalg.cg(sparse, u, rtol=1e-9)
        y, other = linalg.bicgstab(sparse, x + u, rtol=1e-9, maxiter=3)
        return x, info, y, other

    x, info, _, other = both(np.asarray(b))
    expect(
        "traced", int(info) == 0 and int(other) == 3 and numpy.allclose(numpy.asarray(x), scipy_linalg.spsolve(a, b))
    )
    direct = linalg.spsolve(sparse, b)
    expect("spsolve", numpy.allclose(numpy.asarray(direct), scipy_linalg.spsolve(a, b)))
    for order in (None, "fro", 1, numpy.inf):
        expect("norm", numpy.isclose(linalg.norm(sparse, order), scipy_linalg.norm(a, order)), order)


def verdicts() -> None:
    a, n = sp.csr_array(poisson(6)), 36
    b = rng.random(n)

    def reason(solver: Any, *args: Any, **options: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x, info = solver(*args, **options)
        result = linalg.last_result()
        assert result is not None
        expect("warning", bool(caught) != result.converged, [str(w.message) for w in caught], result)
        if caught:
            expect("warning's place", caught[0].filename.endswith("solvers.py"), caught[0].filename)
        return result.reason, info, numpy.asarray(x)

    zero, exact = numpy.zeros(n), numpy.asarray(linalg.spsolve(a, b))
    for solver in (linalg.cg, linalg.bicgstab, linalg.cgs, linalg.minres, linalg.gmres):
        why, info, x = reason(solver, a, zero, b)
        expect("zero", why is linalg.Reason.CONVERGED and info == 0 and not x.any(), solver, why)
        why, info, x = reason(solver, a, b, maxiter=0)
        expect("maxiter", why is linalg.Reason.MAXITER and info == 0 and not x.any(), solver, why, info)
        why, info, _ = reason(solver, a, numpy.where(numpy.arange(n) == 3, numpy.nan, b))
        expect("nan", why is linalg.Reason.NAN and info < 0, solver, why)
    why, info, x = reason(linalg.cg, a, numpy.asarray(a @ exact), exact)
    expect("exact start", info == 0 and linalg.last_result().iterations == 0 and (x == exact).all())  # type: ignore[union-attr]
    why, info, _ = reason(linalg.cg, a, b, rtol=1e-12, maxiter=3)
    expect("too few", why is linalg.Reason.MAXITER and info == 3, why, info)
    why, info, _ = reason(linalg.cg, a * -1, b)
    expect("indefinite", why is linalg.Reason.INDEFINITE and info < 0, why)
    singular = sp.csr_array((numpy.zeros(n), (numpy.arange(n), numpy.arange(n))), shape=(n, n))
    why, info, _ = reason(linalg.bicgstab, singular, b)
    expect("singular", why in (linalg.Reason.BREAKDOWN, linalg.Reason.NAN) and info < 0, why)
    bad = [
        (lambda: linalg.cg(sp.csr_array(numpy.ones((3, 4))), numpy.ones(3)), ValueError),
        (lambda: linalg.cg(a, numpy.ones(5)), ValueError),
        (lambda: linalg.cg(a, b, numpy.ones(5)), ValueError),
        (lambda: linalg.cg(a, b, maxiter=-1), ValueError),
        (lambda: linalg.cg(a, b, M=sp.eye_array(3)), ValueError),
        (lambda: linalg.cg("a", b), TypeError),
        (lambda: linalg.jacobi(singular), ValueError),
        (lambda: linalg.spsolve(sp.csr_array(numpy.ones((3, 4))), b), ValueError),
    ]
    for call, kind in bad:
        try:
            call()
            wrong.append(f"no {kind.__name__}")
        except kind as error:
            expect("the user's line", "solvers.py:" in str(error), error)


def small() -> None:
    """Case 16 to 18 of the design's table, fewer rows than ranks, empty rows, columns and matrices."""
    a = sp.coo_array((numpy.ones(3), ([0, 1, 1], [1, 0, 0]))).tocsr()
    expect("16", a.nnz == 2 and numpy.asarray(a.toarray()).tolist() == [[0, 1], [2, 0]])
    expect("16", numpy.asarray(a.power(2).toarray()).tolist() == [[0, 1], [4, 0]])
    c = sp.csr_array((numpy.array([2.0, 1, 3]), numpy.array([2, 0, 1]), numpy.array([0, 2, 3])), shape=(2, 3))
    expect("17", numpy.asarray(c @ np.asarray([1.0, 10, 100])).tolist() == [201, 30])
    expect("17", numpy.asarray(c.T @ np.asarray([1.0, 10])).tolist() == [1, 30, 2])
    for shape in ((1, 1), (2, 5), (5, 1), (3, 3)):
        dense = numpy.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
        dense[0] = 0
        got = sp.csr_array(dense) @ np.ones(shape[1])
        expect("small", numpy.array_equal(numpy.asarray(got), dense.sum(axis=1)), shape)
    for shape in ((0, 3), (3, 0), (0, 0), (4, 4)):
        got = sp.csr_array(shape) @ np.ones(shape[1])
        expect("empty", numpy.asarray(got).tolist() == [0.0] * shape[0], shape)
    x, info = linalg.cg(sp.csr_array(numpy.array([[4.0]])), numpy.array([8.0]))
    expect("one unknown", info == 0 and numpy.asarray(x).tolist() == [2.0])
    banded = sp.diags_array([1.0, 2.0], offsets=[0, 1], shape=(6, 6))
    infinite = numpy.array([1, 2, 3, 4, 5, numpy.inf])
    got = numpy.asarray(banded @ np.asarray(infinite))
    expect("infinity stays where it belongs", numpy.isfinite(got[:4]).all() and numpy.isinf(got[4:]).all(), got)
    nan = numpy.array([numpy.nan, 1, 1, 1, 1, 1])
    got = numpy.asarray(sp.csr_array(numpy.eye(6)[::-1].copy()) @ np.asarray(nan))
    expect("nan stays where it belongs", numpy.isnan(got).tolist() == [False] * 5 + [True], got)


if __name__ == "__main__":
    # Parts by name, all where none is; ``--few`` leaves out the matrices that are like others.
    parts = {f.__name__: f for f in (products, solutions, verdicts, small)}
    for name in [a for a in sys.argv[1:] if a in parts] or parts:
        parts[name]()
    print("\n".join(wrong) or "OK")
    sys.exit(bool(wrong))
