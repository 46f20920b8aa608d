"""Guards: what a traced function takes from its surroundings, so that a change of it is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from .recording import Array

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, tuple, frozenset)

_ABSENT = object()


class Guards:
    """The global and enclosing variables of a function that hold plain values, arrays or matrices, as they were.

    Functions that it calls are looked into as well where they are global or enclosing variables themselves.  Attributes
    of objects and contents of lists and dicts are not watched; the contents of objects with a ``__diffuse_version__``
    are (``depend``), wherever the function found them.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []
        self._versions: list[tuple[Any, int]] = []
        self._visit(function, set())

    def _visit(self, function: Any, seen: set[int]) -> None:
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, FunctionType) or id(function.__code__) in seen:
            return
        seen.add(id(function.__code__))
        found = [
            (function.__globals__.get(name, _ABSENT), (function.__globals__, name))
            for name in _names(function.__code__)
        ]
        for value, (scope, name) in found:
            if _watched(value):
                self._globals.append((scope, name, value))
            else:
                self._visit(value, seen)
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            if _watched(value):
                self._cells.append((cell, value))
            else:
                self._visit(value, seen)

    def depend(self, things: Iterable[tuple[Any, int]]) -> None:
        """Watch the contents of objects: pairs of an object and its ``__diffuse_version__``."""
        self._versions = list(things)

    def outdated(self) -> bool:
        """Whether contents have changed, so that the trace is of no use any more."""
        return any(thing.__diffuse_version__ != version for thing, version in self._versions)

    def hold(self) -> bool:
        """Whether all of them are as they were: plain values equal and of the same type, arrays the same objects."""
        if self._versions and self.outdated():
            return False
        for scope, name, value in self._globals:
            now = scope.get(name, _ABSENT)
            if now is not value and not _same(now, value):
                return False
        for cell, value in self._cells:
            now = cell.cell_contents
            if now is not value and not _same(now, value):
                return False
        return True


def _watched(value: Any) -> bool:
    return isinstance(value, (*_PLAIN, Array)) or hasattr(type(value), "__diffuse_version__")


def _same(now: Any, before: Any) -> bool:
    if not isinstance(before, _PLAIN):
        return False
    return type(now) is type(before) and bool(now == before)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
