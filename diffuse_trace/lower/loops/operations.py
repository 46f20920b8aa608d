"""The operations of loops as LLVM instructions on vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from .body import Value

_BIT, _BYTE, _INT = ir.IntType(1), ir.IntType(8), ir.IntType(32)


def element(dtype: np.dtype, memory: bool = False) -> Any:
    """The type of one value; booleans are a bit, and a byte in ``memory``."""
    if dtype.kind == "f":
        return ir.DoubleType() if dtype.itemsize == 8 else ir.FloatType()
    if dtype.kind == "b":
        return _BYTE if memory else _BIT
    return ir.IntType(8 * dtype.itemsize)


def vector(dtype: np.dtype, lanes: int, memory: bool = False) -> Any:
    """The type of ``lanes`` values."""
    return ir.VectorType(element(dtype, memory), lanes)


def splat(builder: Any, value: Any, lanes: int, kind: Any = None) -> Any:
    """A vector of equal values: of a NumPy scalar, or of an LLVM value whose vector is of type ``kind``."""
    if isinstance(value, np.generic):
        return constant(value, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_INT, 0))
    zeros = ir.Constant(ir.VectorType(_INT, lanes), [0] * lanes)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def constant(value: np.generic, lanes: int) -> Any:
    """A vector of equal constants."""
    dtype = value.dtype
    kind = vector(dtype, lanes)
    python = float(value) if dtype.kind == "f" else int(value)
    return ir.Constant(kind, [ir.Constant(kind.element, python)] * lanes)


def identity(operator: str, dtype: np.dtype) -> np.generic:
    """What changes nothing when it is combined with a value."""
    if operator in ("sum", "prod"):
        return dtype.type(operator == "prod")
    high = operator == "min"
    if dtype.kind == "b":
        return np.bool_(high)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).max if high else np.iinfo(dtype).min)
    return dtype.type(np.inf if high else -np.inf)


def combined(builder: Any, operator: str, dtype: np.dtype, a: Any, b: Any) -> Any:
    """Two values combined by an operator of reductions."""
    if dtype.kind == "b":
        return builder.or_(a, b) if operator in ("sum", "max") else builder.and_(a, b)
    if operator in ("min", "max"):
        return _extreme(builder, operator, dtype, a, b)
    if dtype.kind == "f":
        return builder.fadd(a, b) if operator == "sum" else builder.fmul(a, b)
    return builder.add(a, b) if operator == "sum" else builder.mul(a, b)


def _extreme(builder: Any, operator: str, dtype: np.dtype, a: Any, b: Any) -> Any:
    sign = ">" if operator == "max" else "<"
    if dtype.kind == "b":
        return builder.or_(a, b) if operator == "max" else builder.and_(a, b)
    if dtype.kind in "iu":
        return builder.select(_compared(builder, sign, dtype, a, b), a, b)
    first = builder.or_(builder.fcmp_ordered(sign, a, b), builder.fcmp_unordered("uno", a, a))
    return builder.select(first, a, b)  # what is no number wins


def _compared(builder: Any, sign: str, dtype: np.dtype, a: Any, b: Any) -> Any:
    if dtype.kind == "f":
        return builder.fcmp_unordered(sign, a, b) if sign == "!=" else builder.fcmp_ordered(sign, a, b)
    if dtype.kind == "i":
        return builder.icmp_signed(sign, a, b)
    return builder.icmp_unsigned(sign, a, b)


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PLAIN = {
    "add": ("fadd", "add"),
    "sub": ("fsub", "sub"),
    "mul": ("fmul", "mul"),
    "div": ("fdiv", ""),
    "and": ("", "and_"),
    "or": ("", "or_"),
    "xor": ("", "xor"),
    "shift_left": ("", "shl"),
    "shift_right_logical": ("", "lshr"),
    "shift_right_arithmetic": ("", "ashr"),
}
_CALLED = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "rint": "rint", "abs": "fabs"}


def operate(emitter: Any, builder: Any, value: Value, args: list[Any], have: list[np.dtype]) -> Any:
    """Emit an operation of `expressions` on values of the dtypes ``have``."""
    op, first, dtype = value.op, args[0], have[0]
    floating = dtype.kind == "f"
    if op in _PLAIN:
        return getattr(builder, _PLAIN[op][0 if floating else 1])(*args)
    if op in _SIGNS:
        return _compared(builder, _SIGNS[op], dtype, *args)
    if op in ("min", "max"):
        return _extreme(builder, op, dtype, *args)
    if op == "select":
        return builder.select(*args)
    if op == "convert":
        return _convert(builder, first, dtype, value.dtype)
    if op == "bitcast":
        return builder.bitcast(first, vector(value.dtype, first.type.count))
    if op == "not":
        return builder.not_(first)
    zero = constant(dtype.type(0), first.type.count)
    if op == "neg":
        return builder.fneg(first) if floating else builder.neg(first)
    if op == "sign":
        one, minus = (constant(dtype.type(x), first.type.count) for x in (1, -1))
        below = builder.select(_compared(builder, "<", dtype, first, zero), minus, first)
        return builder.select(_compared(builder, ">", dtype, first, zero), one, below)
    if op == "abs" and not floating:
        return builder.select(builder.icmp_signed("<", first, zero), builder.neg(first), first)
    if op == "is_finite":
        size = _call(emitter, builder, "fabs", first, dtype)
        return builder.fcmp_ordered("<", size, constant(dtype.type(np.inf), first.type.count))
    return _call(emitter, builder, _CALLED[op], first, dtype)


def _call(emitter: Any, builder: Any, name: str, x: Any, dtype: np.dtype) -> Any:
    function = emitter.intrinsic(f"llvm.{name}.v{x.type.count}f{8 * dtype.itemsize}", x.type, [x.type])
    return builder.call(function, [x])


def _convert(builder: Any, x: Any, have: np.dtype, want: np.dtype) -> Any:
    kind = vector(want, x.type.count)
    if want.kind == "b":
        return _compared(builder, "!=", have, x, constant(have.type(0), x.type.count))
    if have.kind == "f":
        return builder.fpext(x, kind) if want.itemsize > have.itemsize else builder.fptrunc(x, kind)
    if want.kind == "f":
        return builder.sitofp(x, kind) if have.kind == "i" else builder.uitofp(x, kind)
    if have.kind != "b" and want.itemsize <= have.itemsize:
        return builder.trunc(x, kind) if want.itemsize < have.itemsize else x
    return builder.sext(x, kind) if have.kind == "i" else builder.zext(x, kind)
