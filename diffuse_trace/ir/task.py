"""Index tasks: operations over a launch domain, with the stores they access and how."""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..errors import ProgramError
from .store import Store
from .view import View


class Privilege(enum.Enum):
    """What a task may do with a store.  Conflicts are resolved by program order: the later task sees the earlier.

    READ        sees the version that program order gives.
    WRITE       replaces every element of its view, without seeing the old ones.
    READ_WRITE  replaces elements that depend on the old ones at the same place (``where=`` and masks).
    REDUCE      contributes partial results, combined over all points with an operator once the task is complete.
    """

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    REDUCE = "reduce"


REDUCTIONS = ("sum", "prod", "min", "max")


@dataclass(frozen=True, slots=True)
class Access:
    """A store, seen through a view, with a privilege (and the operator, for REDUCE)."""

    store: Store
    view: View
    privilege: Privilege = Privilege.READ
    reduction: str | None = None

    def __post_init__(self) -> None:
        if len(self.view.axes) != len(self.store.shape):
            raise ProgramError(f"view {self.view} does not fit store %{self.store.id} of shape {self.store.shape}")
        if (self.privilege is Privilege.REDUCE) != (self.reduction is not None):
            raise ProgramError(f"a reduction operator goes with REDUCE and only with it: {self.reduction}")
        for a, n in zip(self.view.axes, self.store.shape, strict=True):
            length = 1 if a.source is None else self.view.shape[a.source]
            if length and not (0 <= a.offset < n and 0 <= a.offset + a.step * (length - 1) < n):
                raise ProgramError(f"view {self.view} leaves store %{self.store.id} of shape {self.store.shape}")


@dataclass(frozen=True, slots=True)
class Operand:
    """A scalar whose value is supplied at each run: ``index`` into the program's operands."""

    index: int


@dataclass(frozen=True, slots=True)
class IndexTask:
    """One operation over the index space ``shape``.

    ``inputs`` are in the order of the kernel's arguments; their views, and that of ``output``, have the domain
    ``shape``.  ``params`` are static and sorted by name; NumPy scalars become Python's.  ``line`` is the user's source
    line; it takes no part in equality.
    """

    op: str
    shape: tuple[int, ...]
    inputs: tuple[Access | Operand, ...]
    output: Access
    params: tuple[tuple[str, Hashable], ...] = ()
    line: str = field(default="", compare=False)
    #: The parameters as text: 1, 1.0 and True are equal, and so are 0.0 and -0.0, but code differs between them.
    spelled: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        if self.params:
            object.__setattr__(self, "params", tuple((name, _settled(value)) for name, value in self.params))
            object.__setattr__(self, "spelled", repr(self.params))
        for access in (*self.reads(), self.output):
            if access.view.shape != self.shape:
                raise ProgramError(f"{self.op} over {self.shape} accesses %{access.store.id} over {access.view.shape}")
        if self.output.privilege is Privilege.READ:
            raise ProgramError(f"{self.op} has an output that it only reads")
        if self.output.privilege is not Privilege.REDUCE and self.output.view.broadcast_axes():
            long = [d for d in self.output.view.broadcast_axes() if self.shape[d] > 1]
            if long:
                raise ProgramError(f"{self.op} writes one element from many points (axes {long})")

    def reads(self) -> Iterator[Access]:
        """The accesses among the inputs."""
        return (i for i in self.inputs if isinstance(i, Access))

    def param(self, name: str) -> Hashable:
        """The value of a static parameter; None where it is not given."""
        for key, value in self.params:
            if key == name:
                return value
        return None

    @property
    def reduces(self) -> bool:
        """Whether the output is complete only when all points have contributed."""
        return self.output.privilege is Privilege.REDUCE

    @property
    def partial(self) -> bool:
        """Whether elements of the output store keep their old values."""
        return not self.reduces and not self.output.view.covers(self.output.store.shape)


def _settled(value: Hashable) -> Hashable:
    """A static value as it can be compared and read back from text: NaN is then equal to itself."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:
        return math.nan
    return tuple(map(_settled, value)) if type(value) is tuple else value


def scalar_dtype(value: object) -> np.dtype:
    """The dtype in which a scalar operand travels: that of NumPy scalars, or the default of Python's types."""
    if isinstance(value, np.generic):
        return value.dtype
    return np.asarray(value).dtype
