"""Floating-point functions where XLA's differ from NumPy's: signed zeros, infinities and what is not a number."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits_of(x: Any) -> Any:
    """The representation as unsigned integers."""
    return lax.bitcast_convert_type(x, np.dtype(_BITS[np.dtype(x.dtype).itemsize]))


def from_bits(bits: Any, dtype: Any) -> Any:
    """The inverse of `bits_of`."""
    return lax.bitcast_convert_type(bits, np.dtype(dtype))


def constant(value: float, like: Any) -> Any:
    """A scalar of the dtype of ``like``."""
    return np.asarray(value, like.dtype)


def sign(x: Any) -> Any:
    """-1, 0 or 1; positive 0 for both zeros, as in NumPy."""
    one = constant(1, x)
    return jnp.where(x > 0, one, jnp.where(x < 0, -one, jnp.where(x == 0, constant(0, x), x)))


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """Floored quotient and remainder by the rules of Python's floats (NumPy's ``npy_divmod``)."""
    a, b = jnp.broadcast_arrays(a, b)
    rest = lax.rem(a, b)
    quotient = (a - rest) / b
    other = (rest != 0) & ((b < 0) != (rest < 0))
    quotient = jnp.where(other, quotient - 1, quotient)
    # Where the remainder is 0 it has the sign of the divisor.
    modulus = jnp.where(other, rest + b, jnp.where(rest == 0, copysign(jnp.zeros_like(b), b), rest))
    whole = jnp.floor(quotient)
    whole = jnp.where(quotient - whole > 0.5, whole + 1, whole)
    whole = jnp.where(quotient == 0, copysign(jnp.zeros_like(a), a / b), whole)
    return jnp.where(b == 0, a / b, whole), jnp.where(b == 0, rest, modulus)


def floor_divide(a: Any, b: Any) -> Any:
    """The floored quotient; ``a / b`` where ``b`` is 0."""
    return _divmod(a, b)[0]


def remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor."""
    return _divmod(a, b)[1]


def fmax(a: Any, b: Any) -> Any:
    """The larger, of two numbers if there are two."""
    return jnp.where(a != a, b, jnp.where(b != b, a, jnp.maximum(a, b)))


def fmin(a: Any, b: Any) -> Any:
    """The smaller, of two numbers if there are two."""
    return jnp.where(a != a, b, jnp.where(b != b, a, jnp.minimum(a, b)))


def signbit(x: Any) -> Any:
    """Whether the sign is negative, for zeros too."""
    bits = bits_of(x)
    return (bits >> (bits.dtype.itemsize * 8 - 1)) != 0


def copysign(x: Any, y: Any) -> Any:
    """``x`` with the sign of ``y``."""
    x, y = jnp.broadcast_arrays(x, y)
    a, b = bits_of(x), bits_of(y)
    top = np.asarray(1 << (a.dtype.itemsize * 8 - 1), a.dtype)
    return from_bits((a & ~top) | (b & top), x.dtype)


def nextafter(x: Any, y: Any) -> Any:
    """The number next to ``x`` towards ``y``."""
    x, y = jnp.broadcast_arrays(x, y)
    bits, target = bits_of(x), bits_of(y)
    top = np.asarray(1 << (bits.dtype.itemsize * 8 - 1), bits.dtype)
    one = np.asarray(1, bits.dtype)
    # By the representation, since arithmetic of XLA takes the smallest numbers for 0.
    order_x, order_y = ordered(bits), ordered(target)
    away = (order_y > order_x) == ((bits & top) == 0)
    step = jnp.where(away, bits + one, bits - one)
    step = jnp.where((bits & ~top) == 0, (target & top) | one, step)
    same = ((bits & ~top) == 0) & ((target & ~top) == 0) | (bits == target)
    result = from_bits(jnp.where(same, target, step), x.dtype)
    return jnp.where((x != x) | (y != y), constant(np.nan, x), result)


def ordered(bits: Any) -> Any:
    """Unsigned integers in the order of the numbers that the bits represent."""
    top = np.asarray(1 << (bits.dtype.itemsize * 8 - 1), bits.dtype)
    return jnp.where((bits & top) != 0, ~bits, bits | top)


def spacing(x: Any) -> Any:
    """Distance to the next number away from 0, with the sign of ``x``."""
    info = np.finfo(x.dtype)
    width, mantissa = np.dtype(x.dtype).itemsize * 8, info.nmant
    bits = bits_of(x)
    kind = bits.dtype
    top = np.asarray(1 << (width - 1), kind)
    exponent = (bits & ~top) >> np.asarray(mantissa, kind)
    # 2 ** (exponent - mantissa), composed of its bits: normal, or one bit of a subnormal number.
    normal = (jnp.maximum(exponent, np.asarray(mantissa + 1, kind)) - np.asarray(mantissa, kind)) << np.asarray(
        mantissa, kind
    )
    small = np.asarray(1, kind) << (jnp.clip(exponent, 1, mantissa).astype(kind) - np.asarray(1, kind))
    made = jnp.where(exponent > mantissa, normal, small)
    result = from_bits(made | (bits & top), x.dtype)
    finite = exponent < np.asarray((1 << (width - 1 - mantissa)) - 1, kind)
    return jnp.where(finite, result, constant(np.nan, x))


def heaviside(x: Any, half: Any) -> Any:
    """0 below 0, 1 above, ``half`` at 0."""
    x, half = jnp.broadcast_arrays(x, half)
    return jnp.where(x == 0, half, jnp.where(x < 0, constant(0, x), jnp.where(x > 0, constant(1, x), x)))


def logaddexp(a: Any, b: Any) -> Any:
    """``log(exp(a) + exp(b))`` without overflow."""
    a, b = jnp.broadcast_arrays(a, b)
    value = jnp.maximum(a, b) + jnp.log1p(jnp.exp(-jnp.abs(a - b)))
    return jnp.where(a == b, a + constant(np.log(2), a), value)


def logaddexp2(a: Any, b: Any) -> Any:
    """``log2(2 ** a + 2 ** b)`` without overflow."""
    a, b = jnp.broadcast_arrays(a, b)
    value = jnp.maximum(a, b) + constant(1 / np.log(2), a) * jnp.log1p(jnp.exp2(-jnp.abs(a - b)))
    return jnp.where(a == b, a + constant(1, a), value)


def hypot(a: Any, b: Any) -> Any:
    """Length of the hypotenuse; infinite where a side is."""
    a, b = (lax.abs(v) for v in jnp.broadcast_arrays(a, b))
    if a.dtype == np.float16:
        return hypot(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    large, small = jnp.maximum(a, b), jnp.minimum(a, b)
    ratio = jnp.where(large == 0, constant(0, a), small / large)
    value = large * lax.sqrt(1 + ratio * ratio)
    return jnp.where((a == np.inf) | (b == np.inf), constant(np.inf, a), value)


def modf_fraction(x: Any) -> Any:
    """The part after the point, with the sign of ``x``."""
    return copysign(jnp.where(jnp.isinf(x), constant(0, x), x - jnp.trunc(x)), x)


def exp2(x: Any) -> Any:
    """Two to the power of ``x``."""
    return lax.exp2(x)


def ldexp(x: Any, exponent: Any) -> Any:
    """``x * 2 ** exponent``, in two steps so that the power itself is in range."""
    x, exponent = jnp.broadcast_arrays(x, exponent)
    info = np.finfo(x.dtype)
    limit = info.maxexp - 1
    result = x
    rest = jnp.clip(exponent, -6 * limit, 6 * limit).astype(np.int32)
    for _ in range(3):
        step = jnp.clip(rest, -limit + 1, limit)
        biased = (step + limit).astype(_BITS[x.dtype.itemsize]) << np.asarray(info.nmant, _BITS[x.dtype.itemsize])
        result = result * from_bits(biased, x.dtype)
        rest = rest - step
    return result


def frexp(x: Any) -> tuple[Any, Any]:
    """Mantissa of magnitude in [0.5, 1) and exponent (int32); zeros and what is not finite have exponent 0."""
    info = np.finfo(x.dtype)
    bits = bits_of(x)
    kind, width = bits.dtype, bits.dtype.itemsize * 8
    mantissa = np.asarray(info.nmant, kind)
    top = np.asarray(((1 << (width - 1 - info.nmant)) - 1) << info.nmant, kind)
    biased = (bits & top) >> mantissa
    plain = (x == 0) | ~jnp.isfinite(x)
    half = np.asarray(info.maxexp - 2, kind) << mantissa
    value = jnp.where(plain, x, from_bits((bits & ~top) | half, x.dtype))
    exponent = biased.astype(np.int32) - (info.maxexp - 2)
    return value, jnp.where(plain, np.int32(0), exponent)
