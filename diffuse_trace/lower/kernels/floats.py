"""Floating-point functions where XLA's differ from NumPy's: signed zeros, infinities and what is not a number."""

from __future__ import annotations

import functools
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


def widened(function: Any) -> Any:
    """``function`` with float16 computed in float32 and rounded once, as NumPy does."""

    @functools.wraps(function)
    def wide(*arrays: Any) -> Any:
        if arrays[0].dtype != np.float16:
            return function(*arrays)
        return function(*(a.astype(np.float32) for a in arrays)).astype(np.float16)

    return wide


def divide(a: Any, b: Any) -> Any:
    """``a / b``, rounded once.

    XLA would multiply with the inverse of a divisor that is a scalar or a root: a select that changes nothing hides it.
    """
    return a / jnp.where(a == a, b, a)


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


@widened
def floor_divide(a: Any, b: Any) -> Any:
    """The floored quotient; ``a / b`` where ``b`` is 0."""
    return _divmod(a, b)[0]


@widened
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
    result = from_bits(jnp.where(same, bits if x.dtype == np.float16 else target, step), x.dtype)
    return jnp.where((x != x) | (y != y), constant(np.nan, x), result)


def ordered(bits: Any) -> Any:
    """Unsigned integers in the order of the numbers that the bits represent."""
    top = np.asarray(1 << (bits.dtype.itemsize * 8 - 1), bits.dtype)
    return jnp.where((bits & top) != 0, ~bits, bits | top)


def spacing(x: Any) -> Any:
    """Distance to the next number away from 0, with the sign of ``x``; for float16 to the next one upwards."""
    info = np.finfo(x.dtype)
    bits = bits_of(x)
    kind, width = bits.dtype, bits.dtype.itemsize * 8
    top, mantissa = np.asarray(1 << (width - 1), kind), np.asarray(info.nmant, kind)
    one, magnitude = np.asarray(1, kind), bits & ~top
    exponent = magnitude >> mantissa
    if x.dtype == np.float16:
        sign = jnp.zeros_like(bits)
        below = (bits != magnitude) & ((bits & ((one << mantissa) - one)) == 0) & (exponent > 0)
        exponent, largest = exponent - below.astype(kind), bits_of(constant(info.max, x)) == bits
    else:
        sign = jnp.where(magnitude == 0, np.asarray(0, kind), bits & top)
        largest = magnitude == bits_of(constant(info.max, x))
    # 2 ** (exponent - mantissa), composed of its bits: a normal number, or one bit of a subnormal one.
    normal = (jnp.maximum(exponent, mantissa) - mantissa) << mantissa
    small = one << (jnp.clip(exponent, one, mantissa) - one)
    result = from_bits(jnp.where(exponent > mantissa, normal, small) | sign, x.dtype)
    result = jnp.where(largest, copysign(jnp.full_like(x, np.inf), x), result)
    return jnp.where(jnp.isfinite(x), result, constant(np.nan, x))


def heaviside(x: Any, half: Any) -> Any:
    """0 below 0, 1 above, ``half`` at 0."""
    x, half = jnp.broadcast_arrays(x, half)
    return jnp.where(x == 0, half, jnp.where(x < 0, constant(0, x), jnp.where(x > 0, constant(1, x), x)))


@widened
def logaddexp(a: Any, b: Any) -> Any:
    """``log(exp(a) + exp(b))`` without overflow."""
    a, b = jnp.broadcast_arrays(a, b)
    value = jnp.maximum(a, b) + jnp.log1p(jnp.exp(-jnp.abs(a - b)))
    return jnp.where(a == b, a + constant(np.log(2), a), value)


@widened
def logaddexp2(a: Any, b: Any) -> Any:
    """``log2(2 ** a + 2 ** b)`` without overflow."""
    a, b = jnp.broadcast_arrays(a, b)
    value = jnp.maximum(a, b) + constant(1 / np.log(2), a) * jnp.log1p(exp2(-jnp.abs(a - b)))
    return jnp.where(a == b, a + constant(1, a), value)


@widened
def hypot(a: Any, b: Any) -> Any:
    """Length of the hypotenuse; infinite where a side is."""
    a, b = (lax.abs(v) for v in jnp.broadcast_arrays(a, b))
    large, small = jnp.maximum(a, b), jnp.minimum(a, b)
    ratio = jnp.where(large == 0, constant(0, a), small / large)
    value = large * lax.sqrt(1 + ratio * ratio)
    return jnp.where((a == np.inf) | (b == np.inf), constant(np.inf, a), value)


def modf_fraction(x: Any) -> Any:
    """The part after the point, with the sign of ``x``."""
    return copysign(jnp.where(jnp.isinf(x), constant(0, x), x - jnp.trunc(x)), x)


@widened
def exp2(x: Any) -> Any:
    """Two to the power of ``x``; exact for integers."""
    limit = 2 * np.finfo(x.dtype).maxexp
    x = jnp.clip(x, -limit, limit)
    whole = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    return ldexp(lax.exp((x - whole) * constant(np.log(2), x)), whole.astype(np.int32), steps=2)


@widened
def cosh(x: Any) -> Any:
    """Hyperbolic cosine, to few units in the last place for large arguments too."""
    large = _half_exp(lax.abs(x))
    return large + constant(0.25, x) / large


@widened
def sinh(x: Any) -> Any:
    """Hyperbolic sine, to few units in the last place for large arguments too."""
    size = lax.abs(x)
    near = lax.expm1(size)
    large = _half_exp(size)
    half = constant(0.5, x)
    value = jnp.where(size < 1, half * (near + near / (near + 1)), large - constant(0.25, x) / large)
    return copysign(value, x)


def _half_exp(x: Any) -> Any:
    """``exp(x) / 2``, in range wherever the result is."""
    root = lax.exp(x * constant(0.5, x))
    return constant(0.5, x) * root * root


def ldexp(x: Any, exponent: Any, steps: int = 3) -> Any:
    """``x * 2 ** exponent``, in steps so that each power is in range."""
    x, exponent = jnp.broadcast_arrays(x, exponent)
    info = np.finfo(x.dtype)
    limit, kind = info.maxexp - 1, _BITS[x.dtype.itemsize]
    rest = jnp.clip(exponent, -steps * limit, steps * limit).astype(np.int32)
    for _ in range(steps):
        step = jnp.clip(rest, 1 - limit, limit)
        power = (step + limit).astype(kind) << np.asarray(info.nmant, kind)
        x, rest = x * from_bits(power, x.dtype), rest - step
    return x


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


def log(x: Any) -> Any:
    """The natural logarithm.

    XLA calls the C library's for each float64 on a CPU.  Here it is arithmetic, which it does on many at a time:
    ``x = 2**k (1 + f)`` with ``1 + f`` between sqrt(1/2) and sqrt(2), and a polynomial in ``f / (2 + f)``; the method
    and the coefficients are those of FreeBSD's e_log.c (error below 1 ulp).
    """
    if x.dtype != np.float64:
        return lax.log(x)
    return lax.platform_dependent(x, cpu=_log64, default=lax.log)


_LOG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_SQRT_HALF, _ONE, _MANTISSA = np.int64(0x3FE6A09E667F3BCD), np.int64(0x3FF0000000000000), np.int64((1 << 52) - 1)


def _log64(x: Any) -> Any:
    given = bits = lax.bitcast_convert_type(x, np.int64)
    zero = given << 1 == 0  # comparisons take the numbers below the normal ones for zeros
    # Below the normal numbers a representation is a multiple of the smallest one, 2**-1074.
    tiny = (bits > 0) & (bits <= _MANTISSA)
    scaled = lax.bitcast_convert_type(bits.astype(np.float64), np.int64)
    bits = jnp.where(tiny, scaled, bits) + (_ONE - _SQRT_HALF)
    k = ((bits >> 52) - jnp.where(tiny, np.int64(1023 + 1074), np.int64(1023))).astype(np.float64)
    f = lax.bitcast_convert_type((bits & _MANTISSA) + _SQRT_HALF, np.float64) - 1
    s = f / (2 + f)
    z = s * s
    w = z * z
    odd = w * (_LOG[1] + w * (_LOG[3] + w * _LOG[5]))
    even = z * (_LOG[0] + w * (_LOG[2] + w * (_LOG[4] + w * _LOG[6])))
    half = 0.5 * f * f
    value = k * _LN2_HIGH - ((half - (s * (half + (odd + even)) + k * _LN2_LOW)) - f)
    value = jnp.where(zero, -np.inf, jnp.where(x == np.inf, x, value))
    return jnp.where((given < 0) & ~zero | (x != x), np.nan, value)


def log2(x: Any) -> Any:
    """The logarithm to the base of 2."""
    return log(x) / constant(np.log(2), x)


def log10(x: Any) -> Any:
    """The logarithm to the base of 10."""
    return log(x) / constant(np.log(10), x)
