"""Random numbers that depend on the seed and the element's index only, not on the number of ranks.

The generator is Threefry-2x64-20 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), counting
the flat index of each element; its stream is not NumPy's.
"""

from __future__ import annotations

import operator
import secrets
from typing import Any

import numpy as np

from .. import recording
from ..runtime import agree
from ..runtime.ranks import world
from . import core
from .array import ndarray

__all__ = [
    "Generator",
    "default_rng",
    "seed",
    "rand",
    "randn",
    "random",
    "random_sample",
    "ranf",
    "sample",
    "randint",
    "uniform",
    "normal",
    "standard_normal",
]


def _entropy() -> int:
    """A seed from the operating system, the same on every rank (a collective)."""
    chosen = secrets.randbits(63)
    if world().size == 1:
        return chosen
    agree.agree(world(), 0x5EED, recording.user_line())
    return int(agree.allgather_blocks(world(), np.array([chosen], np.int64))[0][0])


def _size(size: Any) -> tuple[int, ...]:
    if size is None:
        return ()
    try:
        return (operator.index(size),)
    except TypeError:
        return tuple(operator.index(n) for n in size)


class Generator:
    """A stream of random numbers; every rank must draw from it alike."""

    def __init__(self, seed: int) -> None:
        self._seed = np.uint64(seed % 2**64)
        self._draws = 0

    def _draw(self, op: str, size: Any, dtype: Any, first: Any, second: Any) -> ndarray:
        first, second = core.operand(first), core.operand(second)
        shape = _size(size)
        if size is None:
            shape = core.common_shape(core.shape_of(first), core.shape_of(second))
        made = core.empty(shape, dtype)
        draw, self._draws = np.uint64(self._draws), self._draws + 1
        core.write(op, [first, second, self._seed, draw], made)
        return made

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> ndarray:
        """Uniform in [0, 1), with 53 bits in float64 and 24 in float32."""
        made = self._draw("random_uniform", size if out is None else out.shape, dtype, 0.0, 1.0)
        if out is None:
            return made
        out[...] = made
        return out

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> ndarray:
        """Uniform in [low, high)."""
        return self._draw("random_uniform", size, np.float64, low, high)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64) -> ndarray:
        """Normal with mean 0 and standard deviation 1."""
        return self._draw("random_normal", size, dtype, 0.0, 1.0)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> ndarray:
        """Normal with mean ``loc`` and standard deviation ``scale``."""
        if not isinstance(scale, ndarray) and np.any(np.asarray(scale) < 0):
            raise ValueError("scale < 0")
        return self._draw("random_normal", size, np.float64, loc, scale)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> ndarray:
        """Integers in [low, high), or [0, low) with one argument; ``high`` itself too with ``endpoint``."""
        if high is None:
            low, high = 0, low
        high = high + 1 if endpoint else high
        if (
            not isinstance(low, ndarray)
            and not isinstance(high, ndarray)
            and np.any(np.asarray(low) >= np.asarray(high))
        ):
            raise ValueError("low >= high")
        return self._draw(
            "random_integers", size, dtype, *(np.int64(v) if isinstance(v, int) else v for v in (low, high))
        )


def default_rng(seed: Any = None) -> Generator:
    """A generator with a seed: an integer, another generator (returned as it is), or None for one that nobody knows."""
    if isinstance(seed, Generator):
        return seed
    return Generator(_entropy() if seed is None else operator.index(seed))


_global: Generator | None = None


def _shared() -> Generator:
    global _global
    if _global is None:
        _global = default_rng()
    return _global


def seed(seed: int | None = None) -> None:
    """Seed the functions of this module."""
    global _global
    _global = default_rng(seed)


def rand(*shape: int) -> ndarray:
    """Uniform in [0, 1)."""
    return _shared().random(shape or None)


def randn(*shape: int) -> ndarray:
    """Normal with mean 0 and standard deviation 1."""
    return _shared().standard_normal(shape or None)


def random(size: Any = None) -> ndarray:
    """Uniform in [0, 1)."""
    return _shared().random(size)


random_sample = ranf = sample = random


def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = int) -> ndarray:
    """Integers in [low, high), or [0, low) with one argument."""
    return _shared().integers(low, high, size, dtype)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> ndarray:
    """Uniform in [low, high)."""
    return _shared().uniform(low, high, size)


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> ndarray:
    """Normal with mean ``loc`` and standard deviation ``scale``."""
    return _shared().normal(loc, scale, size)


def standard_normal(size: Any = None) -> ndarray:
    """Normal with mean 0 and standard deviation 1."""
    return _shared().standard_normal(size)
