"""NumPy's elementwise ufuncs, each under NumPy's name.

Inputs are cast to the dtypes of the loop that NumPy's ufunc resolves (the parameter ``loop``, one name for each input)
and the result to the output's dtype, so that values and dtypes are NumPy's; the tables hold, for each kind of
loop, what XLA has to compute.  Where XLA agrees with NumPy it is one instruction, which fuses with its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import complexes, floats, integers
from .casts import cast, inputs, numpy_cast, reference_inputs
from .registry import Context, register

Function = Callable[..., Any]

# Kinds of loops: b bool, i signed and u unsigned integers, f floats, c complex numbers.
_NUMBERS = "iufc"
_ALL = "biufc"
_loops: dict[str, dict[str, Function]] = {}


def _loop(name: str, kinds: str, function: Function) -> None:
    """How the ufunc ``name`` is computed for these kinds of loops."""
    _loops.setdefault(name, {}).update(dict.fromkeys(kinds, function))


def _nearest(x: Any) -> Any:
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def _same(x: Any) -> Any:
    return x


def _everywhere(value: bool) -> Function:
    return lambda x: jnp.full(x.shape, value)


def _times(numerator: float, denominator: float) -> Function:
    """Multiplication by a quotient that is formed in the dtype of the loop, as in NumPy."""

    def times(x: Any) -> Any:
        return x * np.asarray(np.asarray(numerator, x.dtype) / np.asarray(denominator, x.dtype))

    return floats.widened(times)


# Arithmetic.
_loop("add", _NUMBERS, jnp.add)
_loop("add", "b", jnp.logical_or)
_loop("subtract", _NUMBERS, jnp.subtract)
_loop("multiply", _NUMBERS, jnp.multiply)
_loop("multiply", "b", jnp.logical_and)
_loop("divide", "f", floats.divide)
_loop("divide", "c", complexes.divide)
_loop("floor_divide", "iu", integers.floor_divide)
_loop("floor_divide", "f", floats.floor_divide)
_loop("remainder", "iu", integers.remainder)
_loop("remainder", "f", floats.remainder)
_loop("fmod", "iu", integers.fmod)
_loop("fmod", "f", lambda a, b: lax.rem(*jnp.broadcast_arrays(a, b)))
_loop("power", "iu", integers.power)
_loop("power", "f", jnp.power)
_loop("power", "c", complexes.power)
_loop("float_power", "f", jnp.power)
_loop("float_power", "c", complexes.power)
_loop("negative", _NUMBERS, lax.neg)
_loop("positive", _NUMBERS, _same)
_loop("absolute", "bu", _same)
_loop("absolute", "if", lax.abs)
_loop("absolute", "c", complexes.absolute)
_loop("fabs", "f", lax.abs)
_loop("sign", "iu", lax.sign)
_loop("sign", "f", floats.sign)
_loop("sign", "c", complexes.sign)
_loop("square", _NUMBERS, lambda x: x * x)
_loop("reciprocal", "iu", integers.reciprocal)
_loop("reciprocal", "f", lambda x: np.asarray(1, x.dtype) / x)
_loop("reciprocal", "c", complexes.reciprocal)
_loop("conjugate", "biuf", _same)
_loop("conjugate", "c", lax.conj)
_loop("gcd", "iu", integers.gcd)
_loop("lcm", "iu", integers.lcm)

# Rounding.
_loop("rint", "f", _nearest)
_loop("rint", "c", complexes.rint)
for _name in ("floor", "ceil", "trunc"):
    _loop(_name, "biu", _same)
    _loop(_name, "f", getattr(jnp, _name))

# Exponentials, logarithms and roots.
_loop("exp", "fc", lax.exp)
_loop("exp2", "f", floats.exp2)
_loop("exp2", "c", complexes.exp2)
_loop("expm1", "f", lax.expm1)
_loop("expm1", "c", complexes.expm1)
_loop("log", "f", floats.log)
_loop("log", "c", lax.log)
_loop("log2", "f", floats.log2)
_loop("log2", "c", complexes.log2)
_loop("log10", "f", floats.log10)
_loop("log10", "c", complexes.log10)
_loop("log1p", "f", lax.log1p)
_loop("log1p", "c", complexes.log1p)
_loop("sqrt", "f", lax.sqrt)
_loop("sqrt", "c", complexes.sqrt)
_loop("cbrt", "f", lax.cbrt)
_loop("logaddexp", "f", floats.logaddexp)
_loop("logaddexp2", "f", floats.logaddexp2)
_loop("hypot", "f", floats.hypot)

# Trigonometry.
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    _loop(_name, "fc", getattr(jnp, _name))
_loop("sinh", "f", floats.sinh)
_loop("cosh", "f", floats.cosh)
for _name in ("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"):
    _loop(_name, "f", getattr(jnp, _name))
    _loop(_name, "c", getattr(complexes, _name))
_loop("arctan2", "f", lambda a, b: lax.atan2(*jnp.broadcast_arrays(a, b)))
for _name in ("degrees", "rad2deg"):
    _loop(_name, "f", _times(180, np.pi))
for _name in ("radians", "deg2rad"):
    _loop(_name, "f", _times(np.pi, 180))

# Order.
for _name in ("maximum", "minimum"):
    _loop(_name, "biuf", getattr(jnp, _name))
    _loop(_name, "c", getattr(complexes, _name))
for _name, _of in (("fmax", "maximum"), ("fmin", "minimum")):
    _loop(_name, "biu", getattr(jnp, _of))
    _loop(_name, "f", getattr(floats, _name))
    _loop(_name, "c", getattr(complexes, _name))
for _name in ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"):
    _loop(_name, "bf", getattr(jnp, _name))
    _loop(_name, "iu", lambda a, b, name=_name: integers.compare(name, a, b))
    _loop(_name, "c", getattr(complexes if _name[0] in "gl" else jnp, _name))

# Logic and bits.
for _name in ("and", "or", "xor"):
    _loop(f"logical_{_name}", _ALL, getattr(jnp, f"logical_{_name}"))
    _loop(f"bitwise_{_name}", "biu", getattr(jnp, f"bitwise_{_name}"))
_loop("logical_not", _ALL, jnp.logical_not)
_loop("invert", "biu", jnp.invert)
_loop("left_shift", "iu", integers.left_shift)
_loop("right_shift", "iu", integers.right_shift)
_loop("bitwise_count", "iu", integers.bitwise_count)

# Representation of floats.
for _name, _value in (("isnan", False), ("isinf", False), ("isfinite", True)):
    _loop(_name, "biu", _everywhere(_value))
    _loop(_name, "fc", getattr(jnp, _name))
for _name in ("signbit", "copysign", "nextafter", "spacing", "heaviside"):
    _loop(_name, "f", getattr(floats, _name))
_loop("ldexp", "f", floats.ldexp)


def integer_power(x: Any, exponent: int) -> Any:
    """``x ** exponent`` by repeated multiplication (for a negative exponent the reciprocal of that)."""
    result = None
    square, rest = x, abs(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else result * square
        rest >>= 1
        square = square * square if rest else square
    if result is None:
        return jnp.ones_like(x)
    return _loops["reciprocal"][_kind(x)](result) if exponent < 0 else result


def _kind(value: Any) -> str:
    return np.dtype(value.dtype).kind


def _generator(name: str) -> Function:
    ufunc, loops = getattr(np, name), _loops[name]

    def generate(context: Context, *arrays: Any) -> Any:
        values = inputs(context, arrays, ufunc)
        return cast(loops[_kind(values[0])](*values), context.dtype)

    return generate


def _reference(name: str) -> Function:
    ufunc = getattr(np, name)

    def reference(context: Context, *arrays: Any) -> Any:
        values = reference_inputs(context, arrays, ufunc)
        with np.errstate(all="ignore"):
            return numpy_cast(ufunc(*values), context.dtype)

    return reference


def _power(context: Context, x: Any, *rest: Any) -> Any:
    exponent = context.param("exponent")
    if exponent is None:
        return _generator("power")(context, x, *rest)
    loop = context.param("loop")
    return cast(integer_power(cast(x, loop[0] if loop else context.dtype), exponent), context.dtype)


def _power_reference(context: Context, x: Any, *rest: Any) -> Any:
    exponent = context.param("exponent")
    if exponent is None:
        return _reference("power")(context, x, *rest)
    loop = context.param("loop")
    with np.errstate(all="ignore"):
        return numpy_cast(numpy_cast(x, loop[0] if loop else context.dtype) ** exponent, context.dtype)


for _name in _loops:
    if _name != "power":
        register(_name, _generator(_name), _reference(_name), pointwise=True)
register("power", _power, _power_reference, pointwise=True)
