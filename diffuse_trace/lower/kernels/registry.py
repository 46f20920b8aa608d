"""The public registry of kernel generators.

A kernel generator gets the local blocks of a task's inputs and returns the local block of its output.  It is found by
the operation's name; the dense and the sparse library register theirs here, and so can any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ProgramError
from ...ir import IndexTask

Interval = tuple[int, int]


@dataclass(frozen=True)
class Context:
    """What a kernel generator may know.

    ``region`` is the interval of the index space that is computed here, along each of its axes; ``own`` those of its
    points that belong to this rank.  Outside ``own`` (and beyond the index space) inputs hold arbitrary values and the
    result is discarded, so that elementwise kernels may run over the whole block; kernels that combine points mask
    with `mask`.  ``xp`` is `jax.numpy` in generators and `numpy` in references.
    """

    task: IndexTask
    region: tuple[Interval, ...]
    own: tuple[Interval, ...]
    xp: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the region: the shape of the result of an elementwise kernel."""
        return tuple(high - low for low, high in self.region)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the output store."""
        return self.task.output.store.dtype

    def param(self, name: str) -> Any:
        """A static parameter of the task; None where it is not given."""
        return self.task.param(name)

    def index(self, axis: int) -> Any:
        """Indices (int64) along ``axis`` of the index space, shaped to broadcast against the region."""
        low, high = self.region[axis]
        shape = [1] * len(self.region)
        shape[axis] = high - low
        return self.xp.arange(low, high, dtype=np.int64).reshape(shape)

    def mask(self) -> Any | None:
        """True at the own points, broadcastable to the region; None where all of them are own."""
        result = None
        for axis, ((low, high), (first, last)) in enumerate(zip(self.region, self.own, strict=True)):
            if (low, high) != (first, last):
                inside = self.index(axis)
                inside = (inside >= first) & (inside < last)
                result = inside if result is None else result & inside
        return result


@dataclass(frozen=True)
class Row:
    """What a row of a matrix takes from a vector, for loops over rows that are not blocks.

    ``shifts`` are the columns of its elements relative to its own number.  ``given`` names arrays of which row i takes
    the element numbered ``first + step * i``: (array, first, step).  ``make(kept, given, elements)`` computes a row, on
    scalars: ``elements`` are those of the vector in the columns ``shifts[k] for k in kept``, the others do not exist.
    """

    shifts: tuple[int, ...]
    given: tuple[tuple[Any, int, int], ...]
    make: Callable[[tuple[int, ...], Sequence[Any], Sequence[Any]], Any]


@dataclass(frozen=True)
class Kernel:
    """A registered operation.

    ``generate(context, *blocks)`` gives the block of the output: the region's shape (or one that broadcasts to it).
    Where the task reduces, it gives the own points instead, with extent 1 along the axes that the output lacks.
    Inputs have the region's extent along each axis or 1 where they are broadcast; operands are 0-d arrays.
    ``reference`` means the same with NumPy on whole arrays, not cut into blocks. ``exact`` kernels get no points but
    their own.  ``whole`` ones get `lower.blocks.Piece`s: all that the rank has of an input, ghosts included, and where
    it lies (of a sparse store what its library has put there), or `Gathered`.  ``wide`` ones may get more points than
    their own along axes of the output, and what they make of these is cut off: they read blocks with their ghosts.
    ``pointwise`` ones make the same of the same elements wherever these lie.  Those that multiply a matrix, their first
    input, with a vector may have ``row``: for what the rank has of the matrix the `Row`, or None.
    """

    name: str
    generate: Callable[..., Any]
    reference: Callable[..., Any]
    exact: bool = False
    whole: bool = False
    wide: bool = False
    pointwise: bool = False
    row: Callable[[Any], Row | None] | None = None

    @property
    def cost(self) -> int:
        """What a point costs on a CPU, in additions, roughly."""
        return 40 if self.whole else 20 if self.name in _SLOW else 1


#: Functions that cost as much as storing and loading a value or more (measured: exp 1.7 ns an element, log 5.5, sin
#: 11).
_SLOW = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "power",
        "float_power",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "arctan2",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "arccosh",
        "arctanh",
        "cbrt",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "fmod",
        "remainder",
        "random_uniform",
        "random_normal",
        "random_integers",
        "contract",
        "sum",
        "prod",
        "min",
        "max",
        "cumsum",
        "cumprod",
    ]
)


_kernels: dict[str, Kernel] = {}


def register(
    name: str,
    generate: Callable[..., Any],
    reference: Callable[..., Any] | None = None,
    *,
    exact: bool = False,
    whole: bool = False,
    wide: bool = False,
    pointwise: bool = False,
    row: Callable[[Any], Row | None] | None = None,
) -> Kernel:
    """Register an operation; ``reference`` defaults to the generator itself, run with ``context.xp = numpy``.

    Raises `ProgramError` where the name is taken.
    """
    if name in _kernels:
        raise ProgramError(f"an operation {name!r} is registered already")
    made = _kernels[name] = Kernel(name, generate, reference or generate, exact, whole, wide, pointwise, row)
    return made


def kernel(name: str) -> Kernel:
    """The kernel of an operation.  Raises `ProgramError` where none is registered."""
    try:
        return _kernels[name]
    except KeyError:
        raise ProgramError(f"no kernel is registered for the operation {name!r}") from None


def registered() -> list[str]:
    """The names of all registered operations."""
    return sorted(_kernels)
