"""Random numbers that depend on the seed and the index of an element only, not on blocks or ranks.

Each element is a counter, its flat index in the whole array, enciphered by Threefry-2x64 with 20 rounds (Salmon,
Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).  The key holds the seed and the number of the
draw, so that one generator may draw again and again.  All take the operands (a, b, seed, draw), the last two uint64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .casts import cast, numpy_cast
from .create import product
from .registry import Context, register

_ROTATIONS = (16, 42, 12, 31, 16, 32, 24, 21)
_PARITY = np.uint64(0x1BD11BDAA9FC1A22)


def threefry(xp: Any, key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x64-20 of arrays (uint64) of keys and counters."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for n in range(20):
        bits = _ROTATIONS[n % 8]
        x = x + y
        y = (y << np.uint64(bits)) | (y >> np.uint64(64 - bits))
        y = y ^ x
        if n % 4 == 3:
            turn = n // 4 + 1
            x, y = x + keys[turn % 3], y + keys[(turn + 1) % 3] + np.uint64(turn)
    return x, y


def _words(context: Context, seed: Any, draw: Any) -> tuple[Any, Any]:
    """Two words of 64 random bits for each element of the region."""
    xp = context.xp
    flat, stride = xp.zeros((1,) * len(context.shape), np.uint64), 1
    for axis in reversed(range(len(context.shape))):
        flat = flat + context.index(axis).astype(np.uint64) * np.uint64(stride)
        stride *= context.task.shape[axis]
    key = tuple(xp.asarray(k).astype(np.uint64).reshape((1,) * len(context.shape)) for k in (seed, draw))
    with np.errstate(over="ignore"):
        return threefry(xp, (key[0], key[1]), (flat, xp.zeros_like(flat)))


def _work(context: Context) -> np.dtype:
    """The dtype of the computation: float32 and below with 24 random bits, float64 with 53."""
    return np.dtype(np.float64 if context.dtype.itemsize > 4 else np.float32)


def _unit(word: Any, dtype: np.dtype) -> Any:
    """A number in [0, 1) of the leading bits of a word."""
    bits = 53 if dtype == np.float64 else 24
    return (word >> np.uint64(64 - bits)).astype(dtype) * dtype.type(2.0**-bits)


def _cast(context: Context, value: Any, dtype: Any) -> Any:
    return numpy_cast(value, dtype) if context.xp is np else cast(value, dtype)


def _uniform(context: Context, low: Any, high: Any, seed: Any, draw: Any) -> Any:
    """Uniform in [low, high): ``low + (high - low) * u``."""
    dtype = _work(context)
    low, high = _cast(context, low, dtype), _cast(context, high, dtype)
    value = low + product(context.xp, _unit(_words(context, seed, draw)[0], dtype), high - low)
    return _cast(context, value, context.dtype)


def _normal(context: Context, location: Any, scale: Any, seed: Any, draw: Any) -> Any:
    """Normal with mean ``location`` and standard deviation ``scale``, by Box and Muller's transform."""
    xp, dtype = context.xp, _work(context)
    first, second = (_unit(word, dtype) for word in _words(context, seed, draw))
    radius = xp.sqrt(dtype.type(-2) * xp.log(dtype.type(1) - first))
    value = radius * xp.cos(dtype.type(2 * np.pi) * second)
    return _cast(context, _cast(context, location, dtype) + _cast(context, scale, dtype) * value, context.dtype)


def _integers(context: Context, low: Any, high: Any, seed: Any, draw: Any) -> Any:
    """Integers in [low, high): the upper half of the product of 64 random bits with the span.

    Of the 2**64 words each integer gets as many as any other, up to one: a bias of less than span / 2**64.
    """
    low, high = _cast(context, low, np.int64), _cast(context, high, np.int64)
    with np.errstate(over="ignore"):
        span = high.astype(np.uint64) - low.astype(np.uint64)
        word = _words(context, seed, draw)[0]
        half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
        upper, lower = word >> half, word & mask
        top, bottom = span >> half, span & mask
        middle = upper * bottom + ((lower * bottom) >> half)
        carried = lower * top + (middle & mask)
        value = upper * top + (middle >> half) + (carried >> half)
        return _cast(context, (low.astype(np.uint64) + value).astype(np.int64), context.dtype)


register("random_uniform", _uniform)
register("random_normal", _normal)
register("random_integers", _integers)
