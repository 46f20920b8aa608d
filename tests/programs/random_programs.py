"""Random programs against NumPy on the ranks of this job: ``random_programs.py SEEDS FUSE``.

A program is a list of statements made from a seed, the same on every rank: updates of views of two or three arrays by
shifted, strided, reversed, transposed or broadcast views of others, functions, masks, reductions that are used again.
It runs undecorated, and as one jitted function that is called three times with other scalars.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy

Statement = str


def make(seed: int) -> tuple[dict[str, Any], list[Statement]]:
    """Inputs, and statements over their names, ``k`` (a scalar) and ``np``."""
    choose = random.Random(seed)
    ndim = choose.choice([1, 1, 2, 2, 3])
    shape = tuple(choose.choice([1, 2, 3, 4, 5, 7, 9]) for _ in range(ndim))
    dtype = choose.choice(["float64", "float64", "float64", "float32", "int64"])
    generator = numpy.random.default_rng(seed)
    names = ["a", "b", "c"][: choose.choice([2, 3])]
    inputs = {n: (generator.integers(-4, 5, shape) / (1 if dtype == "int64" else 2)).astype(dtype) for n in names}
    statements = []
    scalars = ["k", "2", "1"]
    for number in range(choose.randint(2, 7)):
        kind = choose.random()
        target, source = choose.choice(names), choose.choice(names)
        if kind < 0.55:
            into = key(choose, shape)
            extent = numpy.empty(shape)[eval(f"numpy.s_[{into}]")].shape
            value = expression(choose, names, shape, extent, scalars)
            statements.append(f"{target}[{into}] {choose.choice(['=', '=', '+=', '-='])} {value}")
        elif kind < 0.7:
            axis = choose.choice([None, *range(ndim)])
            reduction = choose.choice(["sum", "max", "min"])
            statements.append(f"s{number} = {source}.{reduction}(axis={axis})")
            if axis is None:
                scalars.append(f"s{number}")
        elif kind < 0.8:
            statements.append(f"{target} = np.where({source} > k, {source}, {target})")
        elif kind < 0.9:
            statements.append(f"{target}[{source} > 0] = {choose.choice(scalars)}")
        else:
            axis = choose.randrange(ndim)
            whole = choose.choice([f"np.roll({source}, {choose.randint(-3, 3)}, {axis})", f"np.flip({source}, {axis})"])
            statements.append(f"{target} = {whole} + {choose.choice(scalars)} * {target}")
    return inputs, statements


def key(choose: random.Random, shape: tuple[int, ...]) -> str:
    """A key of slices and integers."""
    items = []
    for n in shape:
        what = choose.random()
        if what < 0.2:
            items.append(":")
        elif what < 0.35:
            items.append(str(choose.randrange(-n, n)))
        else:
            step = choose.choice([1, 1, 1, 2, -1, -2, 3])
            bounds = sorted((choose.randint(0, n), choose.randint(0, n)), reverse=step < 0)
            items.append(f"{bounds[0]}:{bounds[1]}:{step}")
    return ", ".join(items)


def expression(
    choose: random.Random, names: list[str], shape: tuple[int, ...], extent: tuple[int, ...], scalars: list[str]
) -> str:
    """A value of the extents ``extent`` (or one that broadcasts to them)."""
    if choose.random() < 0.1:
        return choose.choice(scalars)
    text = ""
    for n in range(choose.randint(1, 3)):
        part = view(choose, choose.choice(names), shape, extent)
        factor = choose.choice(["", "", f"{choose.choice(scalars)} * "])
        text += (choose.choice([" + ", " - "]) if n else "") + factor + part
    return text


def view(choose: random.Random, name: str, shape: tuple[int, ...], extent: tuple[int, ...]) -> str:
    """A view of an array with these extents, or with ones in places: any offset, sometimes backwards or transposed."""
    order = list(range(len(shape)))
    if choose.random() < 0.2:
        choose.shuffle(order)
    turned = [shape[d] for d in order]
    items = []
    fixed = len(shape) - len(extent)
    axes = list(range(len(shape)))
    dropped = sorted(choose.sample(axes, fixed))
    wanted = iter(extent)
    for d in axes:
        n = turned[d]
        if d in dropped:
            items.append(str(choose.randrange(n)))
            continue
        m = next(wanted)
        if m > n or (m and choose.random() < 0.1):
            items.append(slice_of_one(choose, n))
            continue
        start = choose.randint(0, n - m)
        if m and choose.random() < 0.2:
            items.append(f"{start + m - 1}:{start - 1 if start else ''}:-1")
        else:
            items.append(f"{start}:{start + m}")
    transposed = f".transpose({', '.join(map(str, order))})" if order != sorted(order) else ""
    return f"{name}{transposed}[{', '.join(items)}]"


def slice_of_one(choose: random.Random, n: int) -> str:
    """A slice of one element, which broadcasts."""
    start = choose.randrange(n)
    return f"{start}:{start + 1}"


def run(module: Any, jit: Any, inputs: dict[str, Any], statements: list[Statement], calls: list[float]) -> list[Any]:
    """All values that a program leaves, after each call."""
    names = list(inputs)
    scope: dict[str, Any] = {"np": module}
    made = [s.split(" = ")[0] for s in statements if s.startswith("s")]
    body = "\n    ".join([*statements, f"return {', '.join([*names, *made])},"])
    exec(f"def program({', '.join(names)}, k):\n    {body}\n", scope)
    program = jit(scope["program"])
    arrays = {n: module.array(v) for n, v in inputs.items()}
    results = []
    for k in calls:
        left = program(**arrays, k=k)
        results.append([numpy.array(v) for v in left] + [numpy.array(v) for v in arrays.values()])
    return results


def main(first: int, last: int, fuse: str) -> None:
    import diffuse_trace as diffuse
    import diffuse_trace.numpy as dnp
    from diffuse_trace import config

    for seed in range(first, last):
        inputs, statements = make(seed)
        calls = [2, 3, -1] if next(iter(inputs.values())).dtype == numpy.int64 else [0.5, 2.0, -0.25]
        with numpy.errstate(all="ignore"):
            right = run(numpy, lambda f: f, inputs, statements, calls)
        for name, jit in (("jit", diffuse.jit), ("plain", lambda f: f)):
            try:
                with config.override(fuse=fuse):
                    got = run(dnp, jit, inputs, statements, calls)
                for mine, theirs in zip(got, right, strict=True):
                    for g, r in zip(mine, theirs, strict=True):
                        assert g.dtype == r.dtype and g.shape == r.shape, (g.dtype, r.dtype, g.shape, r.shape)
                        numpy.testing.assert_allclose(g, r, rtol=1e-9 if r.dtype != numpy.float32 else 1e-3, atol=1e-6)
            except Exception as error:
                shape = next(iter(inputs.values())).shape
                text = "\n".join(statements)
                raise AssertionError(f"seed {seed}, {name}, fuse={fuse}, arrays of {shape}:\n{text}") from error


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
