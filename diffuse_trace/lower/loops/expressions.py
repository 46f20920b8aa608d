"""Kernels as operations on single values.

A pointwise kernel generator is traced once, by JAX, on blocks of one element.  What comes out are a few dozen
primitives, of which those in the tables here can be put into a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...ir import IndexTask
from .. import jax_compat
from ..kernels import Context, kernel
from ..kernels.casts import cast
from .body import Value, Values


class Unsupported(Exception):
    """What a loop of ours cannot do; XLA does it."""


#: Primitives that change the shape only.
_SAME = {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "copy", "stop_gradient", "optimization_barrier"}
_CALLS = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"}
#: For each kind of dtype of the first operand the primitives that a loop can compute.
_FLOAT = {"add", "sub", "mul", "div", "neg", "abs", "max", "min", "sqrt", "floor", "ceil", "sign", "is_finite"}
_INTEGER = {"add", "sub", "mul", "neg", "abs", "max", "min", "and", "or", "xor", "not", "sign"}
_SHIFTS = {"shift_left", "shift_right_logical", "shift_right_arithmetic"}
_COMPARE = {"eq", "ne", "lt", "le", "gt", "ge"}
OPERATIONS = {
    "f": _FLOAT | _COMPARE,
    "i": _INTEGER | _COMPARE | _SHIFTS,
    "u": (_INTEGER - {"neg", "abs", "sign"}) | _COMPARE | _SHIFTS,
    "b": {"and", "or", "xor", "not", "eq", "ne", "max", "min"},
}


def holds(dtype: np.dtype) -> bool:
    """Whether loops handle values of a dtype."""
    return dtype.kind in "biu" or dtype in (np.float32, np.float64)


def apply(task: IndexTask, args: Sequence[int], values: Values) -> int:
    """Add what a task's kernel makes of some values.  Raises `Unsupported`."""
    if not kernel(task.op).pointwise:
        raise Unsupported(task.op)
    dtypes = tuple(values.dtype(a) for a in args)
    closed = _trace(task.op, task.spelled, dtypes, task.output.store.dtype, len(task.shape), _Alike(task))
    return _run(closed.jaxpr, closed.consts, args, values)


def evaluate(function: Callable[..., Any], args: Sequence[int], values: Values) -> int:
    """Add what a function of JAX makes of some values, as scalars.  Raises `Unsupported`."""
    if not all(holds(values.dtype(a)) for a in args):
        raise Unsupported("a dtype")
    closed = jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct((), values.dtype(a)) for a in args))
    return _run(closed.jaxpr, closed.consts, args, values)


def converted(number: int, dtype: np.dtype, values: Values) -> int:
    """Add a value cast to a dtype."""
    if values.dtype(number) == dtype:
        return number
    closed = _cast(values.dtype(number), dtype)
    return _run(closed.jaxpr, closed.consts, [number], values)


@lru_cache(maxsize=1024)
def _cast(have: np.dtype, want: np.dtype) -> Any:
    return jax.make_jaxpr(lambda x: cast(x, want))(jax.ShapeDtypeStruct((), have))


class _Alike:
    """A task that stands for all that are traced alike, to a cache whose key is the rest."""

    def __init__(self, task: IndexTask) -> None:
        self.task = task

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Alike)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4096)
def _trace(op: str, params: str, dtypes: tuple[np.dtype, ...], out: np.dtype, ndim: int, alike: _Alike) -> Any:
    region = ((0, 1),) * ndim
    context = Context(alike.task, region, region, jnp)

    def compute(*blocks: Any) -> Any:
        return jnp.asarray(kernel(op).generate(context, *blocks)).astype(out)

    return jax.make_jaxpr(compute)(*(jax.ShapeDtypeStruct((1,) * ndim, d) for d in dtypes))


def _run(jaxpr: Any, consts: Sequence[Any], args: Sequence[int], values: Values) -> int:
    known: dict[Any, int] = dict(zip(jaxpr.invars, args, strict=True))
    for variable, constant in zip(jaxpr.constvars, consts, strict=True):
        known[variable] = _constant(constant, values)

    def number(atom: Any) -> int:
        return _constant(atom.val, values) if jax_compat.is_literal(atom) else known[atom]

    for equation in jaxpr.eqns:
        name, inputs = equation.primitive.name, [number(a) for a in equation.invars]
        if name in _CALLS:
            inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
            if inner is None or len(equation.outvars) != 1:
                raise Unsupported(name)
            known[equation.outvars[0]] = _run(inner.jaxpr, inner.consts, inputs, values)
            continue
        known[equation.outvars[0]] = _operation(name, equation, inputs, values)
    return number(jaxpr.outvars[0])


def _constant(value: Any, values: Values) -> int:
    array = np.asarray(value)
    if array.size != 1 or not holds(array.dtype):
        raise Unsupported("constant")
    return values.add(Value("constant", array.dtype, (), array.reshape(())[()]))


def _operation(name: str, equation: Any, inputs: list[int], values: Values) -> int:
    dtype = np.dtype(equation.outvars[0].aval.dtype)
    if name in _SAME:
        return inputs[0]
    if not inputs or not holds(dtype) or not all(holds(values.dtype(n)) for n in inputs):
        raise Unsupported(str(dtype))
    have = values.dtype(inputs[0])
    if name == "convert_element_type":
        if have == dtype:
            return inputs[0]
        if have.kind == "f" and dtype.kind in "iu":
            raise Unsupported("conversion")  # what does not fit would be undefined
        return values.add(Value("convert", dtype, tuple(inputs)))
    if name == "select_n" and len(inputs) == 3 and have.kind == "b":
        return values.add(Value("select", dtype, (inputs[0], inputs[2], inputs[1])))
    if name == "square":
        return values.add(Value("mul", dtype, (inputs[0], inputs[0])))
    if name == "integer_pow" and 0 < equation.params["y"] <= 4:
        return _power(inputs[0], equation.params["y"], dtype, values)
    if name == "round" and have.kind == "f" and equation.params["rounding_method"] == 1:
        return values.add(Value("rint", dtype, tuple(inputs)))
    if name == "bitcast_convert_type" and have.itemsize == dtype.itemsize and "b" not in have.kind + dtype.kind:
        return values.add(Value("bitcast", dtype, tuple(inputs)))
    if name == "clamp" and have.kind in "fiu":
        low = values.add(Value("max", dtype, (inputs[1], inputs[0])))
        return values.add(Value("min", dtype, (low, inputs[2])))
    if name not in OPERATIONS[have.kind] or len(equation.outvars) != 1:
        raise Unsupported(name)
    if name in _SHIFTS:
        by = values.all[inputs[1]]
        if by.op != "constant" or not 0 <= int(by.extra) < 8 * dtype.itemsize:
            raise Unsupported(name)  # the processor takes the number modulo the bits
    return values.add(Value(name, dtype, tuple(inputs)))


def _power(base: int, exponent: int, dtype: np.dtype, values: Values) -> int:
    result = base
    for _ in range(exponent - 1):
        result = values.add(Value("mul", dtype, (result, base)))
    return result
