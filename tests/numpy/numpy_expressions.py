"""Expressions evaluated with NumPy and with the library, many at a time so that they are compiled together."""

from __future__ import annotations

from typing import Any

import numpy

import diffuse_trace.numpy as dnp
from diffuse_trace import recording

INPUTS = {
    "a": numpy.random.default_rng(0).random((4, 5)) - 0.3,
    "b": numpy.random.default_rng(1).random((4, 5)) + 0.1,
    "c": numpy.random.default_rng(2).random((3, 4, 2)),
    "v": numpy.arange(5.0) - 1.5,
    "w": numpy.random.default_rng(3).random(7),
    "i": numpy.array([[3, -7, 0], [5, 2, 9]]),
    "j": numpy.array([4, 1, 3, 1, 0, 2, 2], dtype=numpy.int16),
    "t": numpy.array([True, False, True, True]),
    "z": numpy.random.default_rng(4).random(6) - 0.5 + 1j * numpy.random.default_rng(5).random(6),
    "f": numpy.random.default_rng(6).random((3, 6)).astype(numpy.float32),
    "q": numpy.array([1.0, numpy.nan, -2.0, numpy.inf, 0.0, -0.0]),
    "e": numpy.zeros((0, 3)),
}


def names(module: Any) -> dict[str, Any]:
    """The inputs as arrays of a module, anew."""
    make = numpy.array if module is numpy else dnp.array
    return {name: make(value) for name, value in INPUTS.items()} | {"np": module}


def evaluate(expression: str, module: Any) -> Any:
    """The value of an expression (or of its last line), or the exception it raises."""
    scope = names(module)
    *before, last = expression.split("; ")
    try:
        with numpy.errstate(all="ignore"):
            for statement in before:
                exec(statement, scope)
            return eval(last, scope)
    except Exception as error:
        return error


def check(expressions: list[str], tolerance: float = 1e-13) -> None:
    """Every expression has NumPy's value, shape and dtype, or raises an exception of NumPy's type."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = [evaluate(e, numpy) for e in expressions]
        got = [evaluate(e, dnp) for e in expressions]
        recording.flush()
        wrong = [text for e, g, r in zip(expressions, got, right, strict=True) if (text := compare(g, r, tolerance, e))]
    assert not wrong, "\n".join(wrong)


def compare(got: Any, right: Any, tolerance: float, where: str) -> str:
    """What is wrong with a value; empty if nothing is."""
    if isinstance(right, Exception):
        # NumPy's private exception types are subclasses of TypeError.
        kind = TypeError if isinstance(right, TypeError) else type(right)
        return "" if isinstance(got, kind) else f"{where}: {got!r}, where NumPy raises {right!r}"
    if isinstance(got, Exception):
        return f"{where}: raises {got!r}, where NumPy gives {right!r}"
    if isinstance(right, tuple | list):
        if len(got) != len(right):
            return f"{where}: {len(got)} values, not {len(right)}"
        return "\n".join(
            filter(
                None,
                (compare(g, r, tolerance, f"{where} [{n}]") for n, (g, r) in enumerate(zip(got, right, strict=True))),
            )
        )
    if isinstance(right, numpy.dtype):
        return "" if got == right else f"{where}: {got}, not {right}"
    have, want = numpy.asarray(got), numpy.asarray(right)
    if have.shape != want.shape:
        return f"{where}: shape {have.shape}, not {want.shape}"
    if isinstance(right, numpy.ndarray | numpy.generic) and have.dtype != want.dtype:
        return f"{where}: dtype {have.dtype}, not {want.dtype}"
    scale = {4: 5e7, 2: 1e11}.get(numpy.zeros(0, want.dtype).real.dtype.itemsize, 1) if want.dtype.kind in "fc" else 0
    try:
        numpy.testing.assert_allclose(have, want, rtol=tolerance * scale, atol=tolerance * scale)
    except AssertionError as error:
        return f"{where}: {str(error).strip()}"
    return ""
