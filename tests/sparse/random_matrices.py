"""Random uses of sparse matrices, against SciPy on the ranks of this job: ``random_matrices.py SEEDS``.

A case is made from a source of choices: a seed, the same on every rank, or Hypothesis, which then finds the smallest
one that fails.  Elements are small integers, so that every order of additions gives the same sum.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import scipy.sparse as scipy_sparse
from matrices import changed

import diffuse_trace.numpy as dnp
import diffuse_trace.sparse as diffuse_sparse

DTYPES = ["int32", "int64", "float32", "float64", "complex64", "complex128"]


def triples(choose: random.Random, m: int, n: int, dtype: str) -> tuple[Any, ...]:
    """Values (of whole magnitude), rows and columns in any order, with duplicates and with stored zeros."""
    count = choose.randint(0, 3 * (m + n)) if m * n else 0
    at = [[choose.randrange(extent) for _ in range(count)] for extent in (m, n)]
    values = [choose.randint(-3, 3) * (3 + 4j if dtype.startswith("c") else 1) for _ in range(count)]
    return numpy.array(values, dtype), *(numpy.array(x, numpy.int32) for x in at)


def make(choose: random.Random) -> tuple[dict[str, Any], list[str]]:
    """Inputs, and expressions over their names: ``A`` and ``B`` of one shape, a square ``S``, vectors and matrices."""
    m, n = choose.choice([1, 2, 5, 9, 13]), choose.choice([1, 3, 4, 8, 17])
    inputs: dict[str, Any] = {}
    formats = ["csr", "csc", "coo"] if min(m, n) > 1 else ["csr", "csc"]  # SciPy's COO of one row gives scalars
    for name, shape in (("A", (m, n)), ("B", (m, n)), ("S", (n, n))):
        inputs[name] = (*triples(choose, *shape, choose.choice(DTYPES)), shape, choose.choice(formats))
    for name, dims in (("x", (n,)), ("y", (m,)), ("X", (n, 2)), ("Y", (m, 3))):
        size = int(numpy.prod(dims))
        elements = numpy.array([choose.randint(-3, 3) for _ in range(size)]).reshape(dims)
        inputs[name] = elements.astype(choose.choice(DTYPES))
    return inputs, [expression(choose, m, n) for _ in range(choose.randint(1, 4))]


def expression(choose: random.Random, m: int, n: int) -> str:
    """Something that is done with the inputs."""

    def index(extent: int) -> str:
        kind = choose.randrange(3)
        if kind == 0:
            return str([choose.randrange(extent) for _ in range(choose.randint(1, 4))])
        ends = [choose.choice([None, *range(-extent, extent)]) for _ in range(2)]
        return f"{ends[0]}:{ends[1]}:{choose.choice([None, 2, -1])}".replace("None", "")

    matrix = choose.choice(["A", "A", "B", "(A + B)", "(A - 2 * B)", "A.multiply(B)", "abs(A)", "-A", "A.T.T"])
    square = choose.choice(["S", "S.T", "(A.T @ B)", "(S + S.T)"])
    i, j = choose.randrange(-m, m), choose.randrange(-n, n)
    slices = f"{index(m)}, :" if choose.random() < 0.5 else f":, {index(n)}"
    return choose.choice(
        [
            f"{matrix} @ x",
            f"y @ {matrix}",
            f"{matrix}.T @ y",
            f"{matrix} @ X",
            f"{matrix}.T @ Y",
            f"{matrix} @ ({square} @ x)",
            f"{matrix} @ {square}",
            f"{square} + {square}.T",
            f"{matrix}.multiply(x)",
            f"{matrix}.multiply(y[:, None])",
            f"{matrix}.sum(axis={choose.choice([None, 0, 1])})",
            f"{matrix}.max()",
            f"{matrix}[{i}, {j}]",
            f"{matrix}[{slices}]",
            f"{matrix}.diagonal({choose.randint(-m, n)})",
            f"{square}.astype('complex128').conj()",
            f"{matrix}.power(2)",
            f"sp.hstack([{matrix}, A])",
            f"sp.vstack([{square}, B])",
            f"sp.kron({square}, sp.eye_array(2))",
            f"changed({matrix}.copy(), 'eliminate_zeros')",
            f"changed({square}.tocsr().copy(), 'setdiag', 4)",
        ]
    )


def plain(value: Any) -> numpy.ndarray:
    """What is compared."""
    return numpy.asarray(value.toarray() if hasattr(value, "toarray") else value)


def evaluate(inputs: dict[str, Any], text: str, sp: Any, array: Callable[[Any], Any]) -> numpy.ndarray:
    """The value of an expression with one library."""
    names: dict[str, Any] = {}
    for name, given in inputs.items():
        if isinstance(given, tuple):
            values, rows, columns, shape, format = given
            names[name] = sp.coo_array((values, (rows, columns)), shape=shape).asformat(format)
        else:
            names[name] = array(given) if isinstance(given, numpy.ndarray) else given
    return plain(eval(text, {"sp": sp, "changed": changed, **names}))


def differences(choose: random.Random) -> list[str]:
    """What differs in one case."""
    inputs, expressions = make(choose)
    wrong = []
    for text in expressions:
        want = evaluate(inputs, text, scipy_sparse, lambda x: x)
        have = evaluate(inputs, text, diffuse_sparse, dnp.asarray)
        if want.shape != have.shape or want.dtype != have.dtype or not numpy.array_equal(want, have):
            given = {name: x for name, x in inputs.items() if name in text}
            wrong.append(f"{text} with {given}: {have.dtype} {have} instead of {want.dtype} {want}")
    return wrong


def main() -> int:
    """Run the cases of some seeds; the number of differences."""
    first, last = (int(x) for x in sys.argv[1].split("-"))
    wrong = [f"seed {seed}: {w}" for seed in range(first, last) for w in differences(random.Random(seed))]
    print("\n".join(wrong) or "OK")
    return len(wrong)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(bool(main()))
