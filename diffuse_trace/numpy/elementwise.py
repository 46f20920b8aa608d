"""Elementwise functions: NumPy's ufuncs, and selection, rounding, comparison within tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..recording import Array
from . import core

_NAMES = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "fmod",
    "power",
    "float_power",
    "negative",
    "positive",
    "absolute",
    "fabs",
    "sign",
    "rint",
    "floor",
    "ceil",
    "trunc",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "square",
    "cbrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "arctan2",
    "hypot",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "degrees",
    "radians",
    "deg2rad",
    "rad2deg",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "equal",
    "not_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "copysign",
    "nextafter",
    "spacing",
    "heaviside",
    "logaddexp",
    "logaddexp2",
    "ldexp",
    "conjugate",
    "bitwise_count",
]


class Ufunc:
    """An elementwise function with NumPy's name, signature and result types.

    ``f(x, ..., out=None, where=True, dtype=None, casting="same_kind")``; arguments broadcast against each other.
    ``out`` gets the result; where ``where`` is False its elements stay (a new ``out`` holds 0 there).
    """

    def __init__(self, name: str) -> None:
        self._numpy: np.ufunc = getattr(np, name)
        self.__name__ = self._name = name
        self.__doc__ = (self._numpy.__doc__ or "").split("\n\n")[1:2][0] if self._numpy.__doc__ else None
        self.nin, self.nout, self.nargs = self._numpy.nin, self._numpy.nout, self._numpy.nargs
        self.identity, self.types = self._numpy.identity, self._numpy.types

    def __repr__(self) -> str:
        return f"<ufunc '{self._name}'>"

    def __call__(self, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, **kwargs: Any) -> Any:
        if len(args) == self.nin + 1 and out is None:
            *args, out = args  # type: ignore[assignment]
        if len(args) != self.nin:
            raise TypeError(
                f"{self._name}() takes from {self.nin} to {self.nargs} positional arguments but {len(args)} were given"
            )
        return core.ufunc(self._name, *args, out=out, where=where, dtype=dtype, **kwargs)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Combine along axes; for add, multiply, maximum, minimum, logical_and and logical_or."""
        return core.as_array(array).__array_ufunc__(
            self._numpy, "reduce", array, axis=axis, dtype=dtype, out=None if out is None else (out,), keepdims=keepdims
        )

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        """Combine along an axis keeping all partial results; for add and multiply."""
        return core.as_array(array).__array_ufunc__(self._numpy, "accumulate", array, axis=axis)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """The function of all pairs."""
        return core.as_array(a).__array_ufunc__(self._numpy, "outer", a, b, **kwargs)


_ufuncs = {name: Ufunc(name) for name in _NAMES}
globals().update(_ufuncs)
abs = _ufuncs["absolute"]
mod = _ufuncs["remainder"]
true_divide = _ufuncs["divide"]
pow = _ufuncs["power"]
conj = _ufuncs["conjugate"]
bitwise_not = bitwise_invert = _ufuncs["invert"]
acos, asin, atan, atan2 = (_ufuncs[n] for n in ("arccos", "arcsin", "arctan", "arctan2"))
acosh, asinh, atanh = (_ufuncs[n] for n in ("arccosh", "arcsinh", "arctanh"))
bitwise_left_shift, bitwise_right_shift = _ufuncs["left_shift"], _ufuncs["right_shift"]

__all__ = [
    *_NAMES,
    *[
        "abs",
        "mod",
        "true_divide",
        "pow",
        "conj",
        "bitwise_not",
        "bitwise_invert",
        "acos",
        "asin",
        "atan",
        "atan2",
        "acosh",
        "asinh",
        "atanh",
    ],
    *[
        "bitwise_left_shift",
        "bitwise_right_shift",
        "where",
        "clip",
        "real",
        "imag",
        "angle",
        "nan_to_num",
        "isclose",
        "round",
        "around",
        "fix",
        "modf",
        "frexp",
    ],
    *["divmod", "sinc", "isreal", "iscomplex", "isposinf", "isneginf"],
]


def _common(*inputs: Any) -> np.dtype:
    examples = [(x.weak(0) if x.weak is not None else x.store.ir.dtype) if isinstance(x, Array) else x for x in inputs]
    return np.result_type(*examples)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of ``x`` where the condition is true, of ``y`` elsewhere; with a condition only, its true indices."""
    if x is None and y is None:
        from .indexing import nonzero

        return tuple(nonzero(core.as_array(condition) != 0))
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    condition, x, y = core.operand(condition), core.operand(x), core.operand(y)
    result = _common(x, y)
    x, y = (v if isinstance(v, Array) else result.type(v) for v in (x, y))
    return core.apply("where", [condition, x, y], result)


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """Limit the elements to ``[a_min, a_max]``; None is no limit."""
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    if low is None and high is None:
        return core.ufunc("positive", a, out=out)
    if low is None:
        return core.ufunc("minimum", a, high, out=out)
    if high is None:
        return core.ufunc("maximum", a, low, out=out)
    inputs = [core.operand(v) for v in (a, low, high)]
    result = _common(*inputs)
    inputs = [v if isinstance(v, Array) else result.type(v) for v in inputs]
    return core.apply("clip", inputs, result, out=out)


def _part_dtype(x: Any) -> np.dtype:
    return np.zeros(0, x.dtype).real.dtype


def real(val: Any) -> Any:
    """The real part; the array itself where it is real."""
    x = core.as_array(val)
    return x if x.dtype.kind != "c" else core.apply("real", [x], _part_dtype(x))


def imag(val: Any) -> Any:
    """The imaginary part."""
    x = core.as_array(val)
    return core.apply("imag", [x], _part_dtype(x))


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers, in radians or degrees."""
    x = core.as_array(z)
    result = _part_dtype(x) if x.dtype.kind in "fc" else np.dtype(np.float64)
    made = core.apply("angle", [x], result)
    return made * (180 / np.pi) if deg else made


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN and infinities replaced by numbers; in place with ``copy=False``."""
    x = core.as_array(x)
    params: dict[str, Any] = {"nan": float(nan)}
    if posinf is not None:
        params["posinf"] = float(posinf)
    if neginf is not None:
        params["neginf"] = float(neginf)
    return core.apply("nan_to_num", [x], x.dtype, out=None if copy else x, **params)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether ``|a - b| <= atol + rtol * |b|``, elementwise."""
    inputs = [core.as_array(v) for v in (a, b)]
    params: dict[str, Any] = {"rtol": float(rtol), "atol": float(atol), "equal_nan": bool(equal_nan)}
    return core.apply("isclose", inputs, np.dtype(bool), **params)


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Rounded to ``decimals`` places, halves to even."""
    x = core.as_array(a)
    result = np.dtype(np.float16) if x.dtype.kind == "b" else x.dtype
    return core.apply("round", [x], result, out=out, decimals=int(decimals))


around = round


def fix(x: Any, out: Any = None) -> Any:
    """Rounded towards zero."""
    return core.ufunc("trunc", x, out=out)


def modf(x: Any) -> tuple[Any, Any]:
    """Fractional and integral parts."""
    x = core.as_array(x)
    result = core.resolve(np.modf, (core.kind_of(x),))[-1]
    return core.apply("modf_0", [x], result), core.apply("modf_1", [x], result)


def frexp(x: Any) -> tuple[Any, Any]:
    """Mantissa and exponent."""
    x = core.as_array(x)
    _, mantissa, exponent = core.resolve(np.frexp, (core.kind_of(x),))
    return core.apply("frexp_0", [x], mantissa), core.apply("frexp_1", [x], exponent)


def divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    """``(x1 // x2, x1 % x2)``."""
    return core.ufunc("floor_divide", x1, x2), core.ufunc("remainder", x1, x2)


def sinc(x: Any) -> Any:
    """``sin(pi x) / (pi x)``, 1 at 0."""
    y = np.pi * core.as_array(x)
    return where(y == 0, 1.0, core.ufunc("sin", y) / where(y == 0, 1.0, y))


def isreal(x: Any) -> Any:
    """Whether the imaginary part is 0."""
    return imag(x) == 0


def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not 0."""
    return imag(x) != 0


def isposinf(x: Any, out: Any = None) -> Any:
    """Whether elements are positive infinity."""
    return core.ufunc("equal", x, np.inf, out=out)


def isneginf(x: Any, out: Any = None) -> Any:
    """Whether elements are negative infinity."""
    return core.ufunc("equal", x, -np.inf, out=out)
