"""Complex arithmetic where XLA's differs from NumPy's: order by real, then imaginary part; division; signs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .floats import copysign


def parts(z: Any) -> tuple[Any, Any]:
    """Real and imaginary part."""
    return lax.real(z), lax.imag(z)


def isnan(z: Any) -> Any:
    """Whether a part is not a number."""
    x, y = parts(z)
    return (x != x) | (y != y)


def divide(a: Any, b: Any) -> Any:
    """Smith's method, as NumPy's: no overflow of the squares of the parts."""
    ar, ai = parts(a)
    br, bi = parts(b)
    wide = jnp.abs(br) >= jnp.abs(bi)
    large, small = jnp.where(wide, br, bi), jnp.where(wide, bi, br)
    # 0 / 0 gives NumPy's parts divided by the zero magnitude.
    none = (br == 0) & (bi == 0)
    ratio = jnp.where(none, jnp.zeros_like(large), small / large)
    scale = jnp.where(none, jnp.abs(large), 1 / (large + small * ratio))
    real = jnp.where(wide, ar + ai * ratio, ar * ratio + ai) * scale
    imag = jnp.where(wide, ai - ar * ratio, ai * ratio - ar) * scale
    return lax.complex(jnp.where(none, ar / scale, real), jnp.where(none, ai / scale, imag))


def reciprocal(z: Any) -> Any:
    """One divided by ``z``, by Smith's method."""
    x, y = parts(z)
    wide = jnp.abs(y) <= jnp.abs(x)
    ratio = jnp.where(wide, y / x, x / y)
    scale = jnp.where(wide, x + y * ratio, y + x * ratio)
    return lax.complex(jnp.where(wide, 1 / scale, ratio / scale), jnp.where(wide, -ratio / scale, -1 / scale))


def less(a: Any, b: Any) -> Any:
    """Lexicographic order; false where a part is not a number."""
    (ar, ai), (br, bi) = parts(a), parts(b)
    known = (ai == ai) & (bi == bi)
    return ((ar < br) & known) | ((ar == br) & (ai < bi))


def less_equal(a: Any, b: Any) -> Any:
    """Lexicographic order; false where a part is not a number."""
    (ar, ai), (br, bi) = parts(a), parts(b)
    known = (ai == ai) & (bi == bi)
    return ((ar < br) & known) | ((ar == br) & (ai <= bi))


def greater(a: Any, b: Any) -> Any:
    """Lexicographic order; false where a part is not a number."""
    return less(b, a)


def greater_equal(a: Any, b: Any) -> Any:
    """Lexicographic order; false where a part is not a number."""
    return less_equal(b, a)


def maximum(a: Any, b: Any) -> Any:
    """The larger in lexicographic order; not a number where one of the two is."""
    return jnp.where(greater_equal(a, b) | isnan(a), a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller in lexicographic order; not a number where one of the two is."""
    return jnp.where(less_equal(a, b) | isnan(a), a, b)


def fmax(a: Any, b: Any) -> Any:
    """The larger in lexicographic order, of two numbers if there are two."""
    return jnp.where(greater_equal(a, b) | isnan(b), a, b)


def fmin(a: Any, b: Any) -> Any:
    """The smaller in lexicographic order, of two numbers if there are two."""
    return jnp.where(less_equal(a, b) | isnan(b), a, b)


def absolute(z: Any) -> Any:
    """The modulus; infinite where a part is, even if the other is not a number."""
    x, y = parts(z)
    infinite = jnp.isinf(x) | jnp.isinf(y)
    return jnp.where(infinite, jnp.asarray(np.inf, x.dtype), lax.abs(z))


def sign(z: Any) -> Any:
    """``z`` divided by its modulus; 0 for 0, and the direction of the infinite part."""
    x, y = parts(z)
    modulus = absolute(z)
    zero, nan = jnp.zeros_like(x), jnp.full_like(x, np.nan)
    far_x, far_y = jnp.isinf(x), jnp.isinf(y)
    real = jnp.where(far_x, lax.sign(x), jnp.where(far_y, zero, x / modulus))
    imag = jnp.where(far_y, lax.sign(y), jnp.where(far_x, zero, y / modulus))
    bad = (far_x & far_y) | (modulus != modulus)
    real, imag = (jnp.where(bad, nan, jnp.where(modulus == 0, zero, p)) for p in (real, imag))
    return lax.complex(real, imag)


def rint(z: Any) -> Any:
    """Both parts rounded to the nearest integer, halves to even."""
    x, y = parts(z)
    nearest = lax.RoundingMethod.TO_NEAREST_EVEN
    return lax.complex(lax.round(x, nearest), lax.round(y, nearest))


def power(a: Any, b: Any) -> Any:
    """``a ** b`` by the principal logarithm; 1 where ``b`` is 0, 0 for powers of 0 with positive real part."""
    br, bi = parts(b)
    value = lax.exp(b * lax.log(a))
    zero = (a == 0) & (b != 0)
    nan = jnp.asarray(complex(np.nan, np.nan), a.dtype)
    value = jnp.where(zero, jnp.where((br > 0), jnp.zeros_like(value), nan), value)
    return jnp.where((br == 0) & (bi == 0), jnp.ones_like(value), value)


def scaled(z: Any, factor: float) -> Any:
    """``z`` times a real factor."""
    x, y = parts(z)
    return lax.complex(x * np.asarray(factor, x.dtype), y * np.asarray(factor, x.dtype))


def exp2(z: Any) -> Any:
    """Two to the power of ``z``."""
    return lax.exp(scaled(z, np.log(2)))


def log2(z: Any) -> Any:
    """Principal logarithm to base 2."""
    return scaled(lax.log(z), 1 / np.log(2))


def log10(z: Any) -> Any:
    """Principal logarithm to base 10."""
    return scaled(lax.log(z), 1 / np.log(10))


def expm1(z: Any) -> Any:
    """``exp(z) - 1``, accurate near 0."""
    x, y = parts(z)
    half = jnp.sin(y / 2)
    return lax.complex(jnp.expm1(x) * jnp.cos(y) - 2 * half * half, jnp.exp(x) * jnp.sin(y))


def log1p(z: Any) -> Any:
    """``log(1 + z)``."""
    x, y = parts(z)
    return lax.complex(jnp.log(absolute(z + 1)), lax.atan2(y, x + 1))


def _signed(function: Any, real: float, imag: float) -> Any:
    """A function whose parts have the signs of its argument's (times ``real`` and ``imag``; 0: as they come).

    That puts both sides of a branch cut where NumPy has them, which tells them apart by the sign of a zero.
    """

    def signed(z: Any) -> Any:
        value = function(z)
        (x, y), (u, v) = parts(z), parts(value)
        u = copysign(u, x * real) if real else u
        return lax.complex(u, copysign(v, y * imag) if imag else v)

    return signed


sqrt = _signed(lax.sqrt, 0, 1)
arcsin = _signed(jnp.arcsin, 1, 1)
arccos = _signed(jnp.arccos, 0, -1)
arctan = _signed(jnp.arctan, 1, 1)
arcsinh = _signed(jnp.arcsinh, 1, 1)
arctanh = _signed(jnp.arctanh, 1, 1)


def arccosh(z: Any) -> Any:
    """Inverse of the hyperbolic cosine: ``arccos(z)`` turned to where the real part is not negative."""
    x, y = parts(arccos(z))
    return lax.complex(jnp.abs(y), copysign(x, lax.imag(z)))
