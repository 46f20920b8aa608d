"""Integer arithmetic where XLA's differs from NumPy's: division by zero gives 0, and results wrap."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


def _divide(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Quotient and remainder rounded towards zero (both 0 where ``b`` is), and where ``b`` is 0."""
    a, b = jnp.broadcast_arrays(a, b)
    zero = b == 0
    divisor = jnp.where(zero, jnp.ones((), b.dtype), b)
    quotient = jnp.where(zero, jnp.zeros((), a.dtype), lax.div(a, divisor))
    return quotient, jnp.where(zero, jnp.zeros((), a.dtype), lax.rem(a, divisor)), divisor


def floor_divide(a: Any, b: Any) -> Any:
    """Quotient rounded down; 0 where the divisor is 0.  The least integer by -1 is itself (XLA's rule and NumPy's)."""
    quotient, rest, divisor = _divide(a, b)
    if np.dtype(a.dtype).kind == "u":
        return quotient
    down = (rest != 0) & ((rest < 0) != (divisor < 0))
    return quotient - down.astype(quotient.dtype)


def remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor; 0 where the divisor is 0."""
    _, rest, divisor = _divide(a, b)
    if np.dtype(a.dtype).kind == "u":
        return rest
    other = (rest != 0) & ((rest < 0) != (divisor < 0))
    return jnp.where(other, rest + divisor, rest)


def fmod(a: Any, b: Any) -> Any:
    """The remainder with the sign of the dividend; 0 where the divisor is 0."""
    return _divide(a, b)[1]


def reciprocal(x: Any) -> Any:
    """1 divided by ``x``, rounded towards zero; for 0 what NumPy has on x86."""
    dtype = np.dtype(x.dtype)
    undefined = np.iinfo(dtype).min if dtype.itemsize >= 4 else 0  # what infinity is cast to
    divisor = jnp.where(x == 0, jnp.ones_like(x), x)
    return jnp.where(x == 0, np.asarray(undefined, dtype), lax.div(jnp.ones_like(x), divisor))


def power(base: Any, exponent: Any) -> Any:
    """``base ** exponent``, wrapped; exponents are not negative.  As many steps as the largest exponent has bits."""
    base, exponent = jnp.broadcast_arrays(base, exponent)
    one = jnp.ones((), exponent.dtype)

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        result, square, rest = state
        odd = (rest & one) != 0
        return jnp.where(odd, result * square, result), square * square, lax.shift_right_logical(rest, one)

    state = (jnp.ones_like(base), base, exponent)
    return lax.while_loop(lambda s: jnp.any(s[2] != 0), step, state)[0]


def _magnitudes(a: Any, b: Any) -> tuple[Any, Any]:
    a, b = jnp.broadcast_arrays(a, b)
    return _magnitude(a), _magnitude(b)


def _magnitude(x: Any) -> Any:
    dtype = np.dtype(x.dtype)
    return x if dtype.kind == "u" else lax.abs(x).astype(f"uint{dtype.itemsize * 8}")


def _gcd(a: Any, b: Any) -> Any:
    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        x, y = state
        rest = lax.rem(x, jnp.where(y == 0, jnp.ones_like(y), y))
        return jnp.where(y == 0, x, y), jnp.where(y == 0, y, rest)

    return lax.while_loop(lambda s: jnp.any(s[1] != 0), step, (a, b))[0]


def gcd(a: Any, b: Any) -> Any:
    """Greatest common divisor."""
    return _gcd(*_magnitudes(a, b)).astype(a.dtype)


def lcm(a: Any, b: Any) -> Any:
    """Least common multiple, wrapped."""
    x, y = _magnitudes(a, b)
    divisor = _gcd(x, y)
    quotient = lax.div(x, jnp.where(divisor == 0, jnp.ones_like(x), divisor))
    return (quotient * y).astype(a.dtype)


def right_shift(a: Any, b: Any) -> Any:
    """``a >> b``; counts that are negative or exceed the bits shift everything out, as with NumPy."""
    if np.dtype(a.dtype).kind == "u":
        return lax.shift_right_logical(*jnp.broadcast_arrays(a, b))
    return lax.shift_right_arithmetic(*jnp.broadcast_arrays(a, b))


def left_shift(a: Any, b: Any) -> Any:
    """``a << b``; counts that are negative or exceed the bits give 0, as with NumPy."""
    return lax.shift_left(*jnp.broadcast_arrays(a, b))


def compare(name: str, a: Any, b: Any) -> Any:
    """A comparison by value of an unsigned and a signed integer of 64 bits, for which no common type exists."""
    left, right = np.dtype(a.dtype).kind, np.dtype(b.dtype).kind
    function = getattr(jnp, name)
    if left == right:
        return function(a, b)
    if left == "u":
        swapped = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
        return compare(swapped.get(name, name), b, a)
    plain = function(a.astype(np.uint64), b)
    if name in ("less", "less_equal", "not_equal"):
        return (a < 0) | plain
    return (a >= 0) & plain


def bitwise_count(x: Any) -> Any:
    """Number of bits of the magnitude."""
    return lax.population_count(_magnitude(x)).astype(np.uint8)
