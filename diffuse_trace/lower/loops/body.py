"""What a loop computes at a point: values by number, where they come from and where they go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An element of an array for each point: its flat index is ``offset`` plus the point's indices times ``strides``.

    ``reach`` is the box of elements that all points of the loop touch, counted from the array's first.
    """

    array: int
    offset: int
    strides: tuple[int, ...]
    reach: Box


@dataclass(frozen=True, slots=True)
class Value:
    """One value: ``op`` is ``load`` (``extra`` is its `Place`), ``constant`` (a NumPy scalar) or an operation of
    `expressions`, on earlier values."""

    op: str
    dtype: np.dtype
    args: tuple[int, ...] = ()
    extra: Any = None


class Values:
    """The values of a body, each one once, in an order in which they can be computed."""

    def __init__(self) -> None:
        self.all: list[Value] = []
        self._numbers: dict[Any, int] = {}

    def add(self, value: Value) -> int:
        """The number of a value."""
        extra = value.extra
        if isinstance(extra, np.generic):
            extra = (str(extra.dtype), extra.tobytes())  # no NaN is equal to itself
        key = value.op, value.dtype, value.args, extra
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            self.all.append(value)
        return number

    def dtype(self, number: int) -> np.dtype:
        """The dtype of a value."""
        return self.all[number].dtype

    def needed(self, numbers: Iterable[int]) -> list[int]:
        """Some values and all that they depend on, in order."""
        found: set[int] = set()
        pending = list(numbers)
        while pending:
            n = pending.pop()
            if n not in found:
                found.add(n)
                pending += self.all[n].args
        return sorted(found)

    def loads(self, numbers: Iterable[int]) -> list[Place]:
        """All that is loaded for some values."""
        return [self.all[n].extra for n in self.needed(numbers) if self.all[n].op == "load"]


@dataclass(frozen=True, slots=True)
class Store:
    """A value stored at each point, ``past`` the caches if it will not be read soon."""

    place: Place
    value: int
    past: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """A value of all points combined with ``operator`` (sum, prod, min or max) into the element of an array."""

    array: int
    operator: str
    value: int
    dtype: np.dtype
    #: Whether it goes on from what is there.
    more: bool = False


@dataclass
class Body:
    """What is computed at each point of a box."""

    box: Box
    values: Values
    stores: list[Store]
    folds: list[Fold]

    def results(self) -> list[int]:
        """The values that are stored or folded."""
        return [s.value for s in self.stores] + [f.value for f in self.folds]

    def loads(self) -> list[Place]:
        """All that is loaded for them."""
        return self.values.loads(self.results())


@dataclass
class Loop:
    """A body over a box, with others beside it: boxes of the same rows, in which a row's ends are done."""

    main: Body
    beside: list[Body]

    def bodies(self) -> list[Body]:
        """All bodies."""
        return [self.main, *self.beside]


@dataclass
class Code:
    """The loops of one call, one after the other, over some arrays (dtypes and shapes).

    Those in ``given`` exist, those in ``results`` are written; what is in both is written over.
    """

    arrays: list[tuple[np.dtype, tuple[int, ...]]]
    loops: list[Loop]
    given: list[int]
    results: list[int]
