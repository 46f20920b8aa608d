"""Operators and methods of arrays: each is a function of the library on the array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NotSupportedError
from ..recording import Array
from . import core


def library(name: str) -> Any:
    """A function of `diffuse_trace.numpy`, looked up when it is called: the library's modules need the array first."""
    from .. import numpy as functions

    return getattr(functions, name)


class NotOfferedError(NotSupportedError, AttributeError):
    """A name of NumPy's that is not offered; ``hasattr`` says so."""


_WEAK = (int, float, complex)
_WEAK_OF = {"i": int, "f": float, "c": complex}
_OPERANDS = (Array, int, float, complex, np.generic, np.ndarray, list, tuple)


def _is_operand(x: Any) -> bool:
    return isinstance(x, _OPERANDS)


def _apply(name: str, *inputs: Any) -> Any:
    made = core.ufunc(name, *inputs)
    for x in inputs:
        if x.weak is None if isinstance(x, Array) else type(x) not in _WEAK:
            return made
    # An operator of Python's numbers gives one of them, where NumPy's function would give a NumPy scalar.
    made.weak = _WEAK_OF.get(made.dtype.kind)
    return made


def _binary(name: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        return _apply(name, self, other) if _is_operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        return _apply(name, other, self) if _is_operand(other) else NotImplemented

    return method


def _in_place(name: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if self.weak is not None:
            return _apply(name, self, other)  # it stands for a number of Python's, which never changes
        return core.ufunc(name, self, other, out=self)

    return method


def _equality(name: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        if other is None or isinstance(other, str):
            # Equal to no number; NumPy says so element by element.
            return library("full")(self.shape, name == "not_equal")
        return core.ufunc(name, self, other) if _is_operand(other) else NotImplemented

    return method


def _unary(name: str) -> Any:
    def method(self: Array) -> Any:
        return _apply(name, self)

    return method


def _method(name: str) -> Any:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return library(name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"The function ``{name}`` of the library, on this array."
    return method


def _with_shape(name: str) -> Any:
    """A method that takes a shape or axes as one tuple or as several integers."""

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if len(args) == 1 and (args[0] is None or isinstance(args[0], tuple | list)) else args
        return library(name)(self, given if args else None, **kwargs)

    method.__name__ = name
    method.__doc__ = f"The function ``{name}`` of the library, on this array."
    return method


class Operators(Array):
    """What arrays inherit: NumPy's operators, and those methods that are functions too."""

    __slots__ = ()

    __hash__ = None  # type: ignore[assignment]

    __add__ = _binary("add")
    __sub__ = _binary("subtract")
    __mul__ = _binary("multiply")
    __truediv__ = _binary("divide")
    __floordiv__ = _binary("floor_divide")
    __mod__ = _binary("remainder")
    __pow__ = _binary("power")
    __and__ = _binary("bitwise_and")
    __or__ = _binary("bitwise_or")
    __xor__ = _binary("bitwise_xor")
    __lshift__ = _binary("left_shift")
    __rshift__ = _binary("right_shift")
    __radd__ = _reflected("add")
    __rsub__ = _reflected("subtract")
    __rmul__ = _reflected("multiply")
    __rtruediv__ = _reflected("divide")
    __rfloordiv__ = _reflected("floor_divide")
    __rmod__ = _reflected("remainder")
    __rpow__ = _reflected("power")
    __rand__ = _reflected("bitwise_and")
    __ror__ = _reflected("bitwise_or")
    __rxor__ = _reflected("bitwise_xor")
    __rlshift__ = _reflected("left_shift")
    __rrshift__ = _reflected("right_shift")
    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("power")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("left_shift")
    __irshift__ = _in_place("right_shift")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __eq__ = _equality("equal")
    __ne__ = _equality("not_equal")
    __pos__ = _unary("positive")
    __neg__ = _unary("negative")
    __abs__ = _unary("absolute")
    __invert__ = _unary("invert")

    def __matmul__(self, other: Any) -> Any:
        # Others that know arrays (sparse matrices, operators) have their turn, as with NumPy.
        return library("matmul")(self, other) if _is_operand(other) else NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        return library("matmul")(other, self) if _is_operand(other) else NotImplemented

    def __imatmul__(self, other: Any) -> Any:
        return library("matmul")(self, other, out=self)

    def __divmod__(self, other: Any) -> Any:
        return library("divmod")(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return library("divmod")(other, self)

    @property
    def real(self) -> Any:
        """The real part; of complex arrays a copy that cannot be written to, where NumPy gives a view."""
        return library("real")(self)

    @property
    def imag(self) -> Any:
        """The imaginary part, a copy that cannot be written to."""
        return library("imag")(self)

    @property
    def mT(self) -> Any:
        """The view with the last two axes exchanged."""
        return library("swapaxes")(self, -1, -2)

    sum = _method("sum")
    prod = _method("prod")
    min = _method("min")
    max = _method("max")
    mean = _method("mean")
    var = _method("var")
    std = _method("std")
    any = _method("any")
    all = _method("all")
    argmin = _method("argmin")
    argmax = _method("argmax")
    ptp = _method("ptp")
    cumsum = _method("cumsum")
    cumprod = _method("cumprod")
    ravel = _method("ravel")
    squeeze = _method("squeeze")
    swapaxes = _method("swapaxes")
    repeat = _method("repeat")
    round = _method("round")
    clip = _method("clip")
    dot = _method("dot")
    trace = _method("trace")
    nonzero = _method("nonzero")
    conj = _method("conj")
    diagonal = _method("diagonal")
    take = _method("take")
    conjugate = _method("conj")
    reshape = _with_shape("reshape")
    transpose = _with_shape("transpose")

    def flatten(self, order: str = "C") -> Any:
        """A copy in one dimension."""
        return library("ravel")(self, order).copy()

    def broadcast_to(self, shape: Any) -> Any:
        """The view that repeats the elements to ``shape``."""
        return library("broadcast_to")(self, shape)
