"""Views: affine maps from the indices of a domain to the indices of a store."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar, cast

from ..errors import ProgramError

F = TypeVar("F", bound=Callable[..., Any])


def _cached(method: F) -> F:
    # A loop makes the same views at every trip: the known object is found faster than an equal one is made, and
    # equal views are then mostly identical, which makes comparisons of programs fast too.
    return cast(F, lru_cache(maxsize=16384)(method))


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a store: its index is ``offset + step * domain index [source]``.

    ``source`` is None where the view fixes the store's axis at ``offset``.
    """

    source: int | None
    offset: int = 0
    step: int = 1


@dataclass(frozen=True, slots=True)
class View:
    """An affine view of a store: the ``shape`` of its domain and one `Axis` for each axis of the store.

    A domain axis that no store axis names is a broadcast axis: every index along it reads the same element.
    Slices (any step), integer indices, ``transpose``, ``newaxis``, ``flip`` and ``broadcast_to`` are views;
    two views of one store alias as NumPy's do.
    """

    shape: tuple[int, ...]
    axes: tuple[Axis, ...]
    # Views are parts of every key that is looked up, so the hash is computed once.
    _hash: int = field(init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.shape, self.axes)))
        sources = [a.source for a in self.axes if a.source is not None]
        if len(set(sources)) != len(sources) or any(not 0 <= s < len(self.shape) for s in sources):
            raise ProgramError(f"view {self} uses a domain axis twice or one that it has not")

    @staticmethod
    def identity(shape: tuple[int, ...]) -> View:
        """The view of a whole store of ``shape``."""
        return _identity(shape)

    def is_identity(self, shape: tuple[int, ...]) -> bool:
        """Whether this is the view of a whole store of ``shape``."""
        return self is _identity(shape) or self == _identity(shape)

    def covers(self, shape: tuple[int, ...]) -> bool:
        """Whether every element of a store of ``shape`` is in the view."""
        return all(
            n == (1 if a.source is None else self.shape[a.source]) and abs(a.step) == 1 or n == 0
            for a, n in zip(self.axes, shape, strict=True)
        )

    def broadcast_axes(self) -> tuple[int, ...]:
        """Domain axes along which the view repeats its elements."""
        used = {a.source for a in self.axes}
        return tuple(d for d in range(len(self.shape)) if d not in used)

    @_cached
    def sliced(self, axis: int, start: int, step: int, length: int) -> View:
        """The view whose index ``j`` along domain ``axis`` is this view's ``start + step * j``."""
        shape = self.shape[:axis] + (length,) + self.shape[axis + 1 :]
        axes = tuple(
            Axis(a.source, a.offset + a.step * start, a.step * step) if a.source == axis else a for a in self.axes
        )
        return View(shape, axes)

    @_cached
    def fixed(self, axis: int, index: int) -> View:
        """The view with domain ``axis`` removed, at ``index``."""
        shape = self.shape[:axis] + self.shape[axis + 1 :]

        def renamed(a: Axis) -> Axis:
            if a.source is None or a.source < axis:
                return a
            if a.source == axis:
                return Axis(None, a.offset + a.step * index, 1)
            return Axis(a.source - 1, a.offset, a.step)

        return View(shape, tuple(renamed(a) for a in self.axes))

    @_cached
    def expanded(self, axis: int, length: int = 1) -> View:
        """The view with a new broadcast axis of ``length`` before domain ``axis``."""
        shape = self.shape[:axis] + (length,) + self.shape[axis:]
        axes = tuple(
            a if a.source is None or a.source < axis else Axis(a.source + 1, a.offset, a.step) for a in self.axes
        )
        return View(shape, axes)

    @_cached
    def transposed(self, order: tuple[int, ...]) -> View:
        """The view whose domain axis ``k`` is this view's ``order[k]``."""
        place = {d: k for k, d in enumerate(order)}
        axes = tuple(a if a.source is None else Axis(place[a.source], a.offset, a.step) for a in self.axes)
        return View(tuple(self.shape[d] for d in order), axes)

    @_cached
    def broadcast(self, shape: tuple[int, ...]) -> View:
        """The view broadcast to ``shape`` by NumPy's rules.  Raises ValueError where they do not allow it."""
        extra = len(shape) - len(self.shape)
        if extra < 0 or any(n not in (1, m) for n, m in zip(self.shape, shape[extra:], strict=True)):
            raise ValueError(f"could not broadcast input array from shape {self.shape} into shape {shape}")
        if shape == self.shape:
            return self
        axes = []
        for a in self.axes:
            if a.source is None:
                axes.append(a)
            elif self.shape[a.source] == 1 and shape[a.source + extra] != 1:
                axes.append(Axis(None, a.offset, 1))
            else:
                axes.append(Axis(a.source + extra, a.offset, a.step))
        return View(tuple(shape), tuple(axes))

    def of(self, array: Any) -> Any:
        """Apply the view to a NumPy array of the store's shape; the result shares its memory."""
        import numpy as np

        index = tuple(
            slice(None) if a.source is None else _slice(a.offset, a.step, self.shape[a.source]) for a in self.axes
        )
        fixed = tuple(slice(None) if a.source is not None else a.offset for a in self.axes)
        result = array[index][fixed]
        sources = [a.source for a in self.axes if a.source is not None]
        result = result.transpose(sorted(range(len(sources)), key=sources.__getitem__))
        for d in self.broadcast_axes():
            result = np.expand_dims(result, d)
        if result.shape != self.shape:
            result = np.broadcast_to(result, self.shape)
        return result

    @property
    def size(self) -> int:
        """Number of elements of the domain."""
        return math.prod(self.shape)


@lru_cache(maxsize=4096)
def _identity(shape: tuple[int, ...]) -> View:
    return View(shape, tuple(Axis(d) for d in range(len(shape))))


def _slice(offset: int, step: int, length: int) -> slice:
    if length == 0:
        return slice(0, 0)
    stop = offset + step * (length - 1) + (1 if step > 0 else -1)
    return slice(offset, None if stop < 0 else stop, step)
