"""Elementwise functions: NumPy's ufuncs, and selection, rounding, comparison within tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import recording
from ..lower.kernels import registered
from ..recording import Array
from . import core

#: NumPy's functions of one result for which a kernel is registered.
_NAMES = [n for n in registered() if isinstance(getattr(np, n, None), np.ufunc)]


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
        self.identity, self.types, self.ntypes = self._numpy.identity, self._numpy.types, self._numpy.ntypes
        self.signature = self._numpy.signature

    def __repr__(self) -> str:
        return f"<ufunc '{self._name}'>"

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: str = "K",
        subok: bool = True,
    ) -> Any:
        if len(args) == self.nargs and out is None:
            *args, out = args  # type: ignore[assignment]
        self._check(args)
        return core.ufunc(self._name, *args, out=out, where=where, dtype=dtype, casting=casting)

    def _check(self, args: Any) -> None:
        if len(args) != self.nin:
            raise TypeError(
                f"{self._name}() takes from {self.nin} to {self.nargs} positional arguments but {len(args)} were given"
            )

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any
    ) -> Any:
        """Combine along axes, with ``initial`` and ``where`` as NumPy has them.

        For add, multiply, maximum, minimum, logical_and, logical_or, and bitwise_and and bitwise_or of booleans.
        """
        more |= {"axis": axis, "dtype": dtype, "keepdims": keepdims} | ({} if out is None else {"out": (out,)})
        return self._method("reduce", (array,), more)

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        """Combine along an axis keeping all partial results; for add and multiply."""
        return self._method("accumulate", (array,), {"axis": axis})

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """The function of all pairs."""
        return self._method("outer", (a, b), kwargs)

    def at(self, a: Any, indices: Any, *b: Any) -> None:
        """Not supported: raises NotSupportedError."""
        self._method("at", (a, indices, *b), {})

    def reduceat(self, array: Any, indices: Any, **kwargs: Any) -> Any:
        """Not supported: raises NotSupportedError."""
        return self._method("reduceat", (array, indices), kwargs)

    def _method(self, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from .protocols import call_ufunc

        return call_ufunc(self._numpy, method, (core.as_array(inputs[0]), *inputs[1:]), kwargs)


class _Pair(Ufunc):
    """An elementwise function with two results, each of which is an operation of its own."""

    def __init__(self, name: str, *parts: str) -> None:
        super().__init__(name)
        self._parts = parts

    def __call__(
        self,
        *args: Any,
        out: Any = (None, None),
        where: Any = True,
        dtype: Any = None,
        casting: str = "same_kind",
        order: str = "K",
        subok: bool = True,
    ) -> Any:
        if len(args) > self.nin:
            args, out = args[: self.nin], (*args[self.nin :], None, None)[:2]
        self._check(args)
        if not isinstance(out, tuple) or len(out) != 2:
            raise TypeError("'out' must be a tuple of arrays, one for each result")
        inputs = [core.operand(x) for x in args]
        loop = core.resolve(self._numpy, tuple(map(core.kind_of, inputs)), None if dtype is None else np.dtype(dtype))
        inputs = [
            x if core.kind_of(x) == d else core.as_array(x, d) if isinstance(x, Array) else d.type(x)
            for x, d in zip(inputs, loop)
        ]
        with recording.one_operation():
            return tuple(
                core.apply(part, inputs, result, out=o, where=where, casting=casting)
                for part, result, o in zip(self._parts, loop[self.nin :], out)
            )


_ufuncs = {name: Ufunc(name) for name in _NAMES}
globals().update(_ufuncs)
modf = _Pair("modf", "modf_0", "modf_1")
frexp = _Pair("frexp", "frexp_0", "frexp_1")
divmod = _Pair("divmod", "floor_divide", "remainder")
abs = _ufuncs["absolute"]
mod = _ufuncs["remainder"]
true_divide = _ufuncs["divide"]
pow = _ufuncs["power"]
conj = _ufuncs["conjugate"]
bitwise_not = bitwise_invert = _ufuncs["invert"]
acos, asin, atan, atan2 = (_ufuncs[n] for n in ("arccos", "arcsin", "arctan", "arctan2"))
acosh, asinh, atanh = (_ufuncs[n] for n in ("arccosh", "arcsinh", "arctanh"))
bitwise_left_shift, bitwise_right_shift = _ufuncs["left_shift"], _ufuncs["right_shift"]

__all__ = [*_NAMES]
__all__ += ["abs", "mod", "true_divide", "pow", "conj", "bitwise_not", "bitwise_invert", "modf", "frexp", "divmod"]
__all__ += ["acos", "asin", "atan", "atan2", "acosh", "asinh", "atanh", "bitwise_left_shift", "bitwise_right_shift"]
__all__ += ["where", "clip", "real", "imag", "angle", "nan_to_num", "isclose", "round", "around", "fix", "sinc"]
__all__ += ["isreal", "iscomplex", "isposinf", "isneginf", "result_type"]


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype of an operation on these by NumPy's promotion; Python's scalars are weak."""
    return np.result_type(
        *(
            (x.weak(0) if x.weak is not None else x.store.ir.dtype) if isinstance(x, Array) else x
            for x in arrays_and_dtypes
        )
    )


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of ``x`` where the condition is true, of ``y`` elsewhere; with a condition only, its true indices."""
    if x is None and y is None:
        from .indexing import nonzero

        return tuple(nonzero(core.as_array(condition) != 0))
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    condition, x, y = core.operand(condition), core.operand(x), core.operand(y)
    result = result_type(x, y)
    x, y = (v if isinstance(v, Array) else np.asarray(v).astype(result)[()] for v in (x, y))
    return core.apply("where", [condition, x, y], result)


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """Limit the elements to ``[a_min, a_max]``; None is no limit."""
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    a = core.operand(a)
    low, high = (None if v is None else _nearest(core.operand(v), core.kind_of(a)) for v in (low, high))
    if low is None and high is None:
        return core.ufunc("positive", a, out=out)
    if low is None:
        return core.ufunc("minimum", a, high, out=out)
    if high is None:
        return core.ufunc("maximum", a, low, out=out)
    result = result_type(a, low, high)
    inputs = [v if isinstance(v, Array) else result.type(v) for v in (a, low, high)]
    return core.apply("clip", inputs, result, out=out)


def _nearest(limit: Any, kind: core.Kind) -> Any:
    """A Python integer, or the end of the dtype's range that it is beyond."""
    if type(limit) is not int or not isinstance(kind, np.dtype) or kind.kind not in "iu":
        return limit
    info = np.iinfo(kind)
    return int(info.max) if limit > info.max else int(info.min) if limit < info.min else limit


def _part_dtype(x: Any) -> np.dtype:
    return np.zeros(0, x.dtype).real.dtype


def real(val: Any) -> Any:
    """The real part; the array itself where it is real."""
    x = core.as_array(val)
    return x if x.dtype.kind != "c" else _part("real", x)


def imag(val: Any) -> Any:
    """The imaginary part."""
    return _part("imag", core.as_array(val))


def _part(name: str, x: Any) -> Any:
    made = core.apply(name, [x], _part_dtype(x))
    # NumPy's is a view: code that writes to it must fail instead of losing what it writes.
    made._readonly = f"x.{name} is a copy here, where NumPy's is a view; use x.{name}.copy()"
    return made


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
