"""The transports: communication inside traced functions, through MPI or on one rank without it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..lower import jax_compat
from ..lower.transport import Box, ExchangeSpec, Marks, Transport
from . import ranks
from .operators import OPERATORS, identity

_PREFIX = "diffuse_trace_"


def transport() -> Transport:
    """A transport for one executable: MPI where there are several ranks.

    Raises:
        LaunchError: see `ranks.world`.
    """
    world = ranks.world()
    return SingleTransport() if world.size == 1 else MpiTransport(world)


class SingleTransport:
    """One rank: exchanges only copy, reductions change nothing.  Needs neither MPI nor Numba."""

    rank = 0
    size = 1

    def token(self) -> Any:
        """An array that says nothing."""
        return jnp.zeros((1,), np.int32)

    def exchange(
        self,
        spec: ExchangeSpec,
        sources: Sequence[Any],
        in_place: Sequence[Any],
        results: Sequence[Any],
        active: Any,
        token: Any,
    ) -> tuple[list[Any], list[Any], Any]:
        """Run the copies of an exchange; see `Transport`."""
        if spec.sends or spec.receives:
            raise ValueError("there is one rank, but the exchange sends or receives")
        buffers = [*sources, *in_place, *(jnp.zeros(r.shape, r.dtype) for r in results)]
        given = list(buffers)
        for source, target in spec.copies:
            flags = [b.flag for b in (source, target) if b.flag >= 0]
            before = buffers[target.buffer]
            after = _put(before, target, _take(given[source.buffer], source))
            buffers[target.buffer] = jnp.where(active[flags[0]] != 0, after, before) if flags else after
        updated = len(sources) + len(in_place)
        return buffers[len(sources) : updated], buffers[updated:], token

    def allreduce(
        self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str, token: Any
    ) -> tuple[Any, Any]:
        """The array as it is."""
        return array, token

    def exscan(
        self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str, token: Any
    ) -> tuple[Any, Any]:
        """The operator's identity everywhere."""
        return jnp.full(array.shape, identity(op, np.dtype(array.dtype)), array.dtype), token

    def marks(self, count: int) -> Marks:
        """Clocks for one executable; they do need Numba."""
        from . import marks

        return marks.Marks(count, 0)

    def waited(self) -> float:
        """There is nobody to wait for."""
        return 0.0

    def check(self) -> None:
        """Nothing can have gone wrong."""


def _indices(box: Box) -> Any:
    # Computed rather than stored: a table of indices would be as large as the data.
    index = jnp.full(box.shape, box.offset, np.int64)
    for d, stride in enumerate(box.strides):
        index += jax.lax.broadcasted_iota(np.int64, box.shape, d) * stride
    return index


def _whole(box: Box, size: int) -> bool:
    """Whether a box is all of a buffer, in its order."""
    step = 1
    for extent, stride in zip(reversed(box.shape), reversed(box.strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return box.offset == 0 and step == size


def _take(buffer: Any, box: Box) -> Any:
    if _whole(box, buffer.size):
        return buffer.reshape(box.shape)
    return jnp.take(buffer.ravel(), _indices(box), mode="clip")


def _put(buffer: Any, box: Box, values: Any) -> Any:
    if _whole(box, buffer.size):
        return values.reshape(buffer.shape)
    return buffer.ravel().at[_indices(box)].set(values, mode="drop").reshape(buffer.shape)


class MpiTransport:
    """Several ranks: each operation is one call of compiled code, in the executable, which calls MPI.

    Args:
        world: the ranks.
    """

    def __init__(self, world: ranks.World) -> None:
        from .engine import engine

        _register_handlers()
        self.rank, self.size = world.rank, world.size
        self._engine = engine(world)
        self.check = self._engine.check
        self._descriptions = Descriptions()
        self._waited = ctypes.c_int64.from_address(self._engine.waiting)

    def token(self) -> Any:
        """The addresses of the table and of the descriptions; see `handlers.py`."""
        return jnp.asarray(np.array([self._engine.table, self._descriptions.address], np.int64))

    def exchange(
        self,
        spec: ExchangeSpec,
        sources: Sequence[Any],
        in_place: Sequence[Any],
        results: Sequence[Any],
        active: Any,
        token: Any,
    ) -> tuple[list[Any], list[Any], Any]:
        """One message to and from each peer; see `Transport`.  Elements of results that no box covers are undefined."""
        from .packing import flatten, sizes

        if spec.empty:
            return list(in_place), [jnp.zeros(r.shape, r.dtype) for r in results], token
        first, last = len(sources), len(sources) + len(in_place)
        self._engine.reserve(sizes(spec.sends, spec.itemsizes), sizes(spec.receives, spec.itemsizes))
        arguments = [*sources, *in_place, active, token]
        outputs = [*map(_aval, in_place), *results, _aval(token)]
        aliases = {first + n: n for n in range(len(in_place))} | {last + 1: len(outputs) - 1}
        *buffers, token = self._call("exchange", flatten(spec, self.rank, first, last), arguments, outputs, aliases)
        return buffers[: len(in_place)], buffers[len(in_place) :], token

    def allreduce(
        self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str, token: Any
    ) -> tuple[Any, Any]:
        """Recursive doubling in rank order: the same bits on every rank and in every run; see `Transport`.

        Raises:
            NotSupportedError: the dtype or the operator is not one of those of `combine.py`.
        """
        if len(ranks) == 1 or array.size == 0:
            return array, token
        spec = self._combination(array, op, ranks, digest, where)
        outputs = [_aval(array), _aval(token)]
        # Not in the array's place: XLA would copy what is not an array of its own, which costs more.
        total, token = self._call("allreduce", spec, [array, token], outputs, {1: 1})
        return total, token

    def exscan(
        self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str, token: Any
    ) -> tuple[Any, Any]:
        """Doubling in rank order; see `Transport`.

        Raises:
            NotSupportedError: as `allreduce`.
        """
        start = jnp.full(array.shape, identity(op, np.dtype(array.dtype)), array.dtype)
        if len(ranks) == 1 or array.size == 0:
            return start, token
        spec = self._combination(array, op, ranks, digest, where)
        outputs = [_aval(array), _aval(token)]
        before, token = self._call("exscan", spec, [array, start, token], outputs, {1: 0, 2: 1})
        return before, token

    def marks(self, count: int) -> Marks:
        """Clocks for one executable."""
        from . import marks

        return marks.Marks(count, self._engine.waiting)

    def waited(self) -> float:
        """Seconds that this rank has waited for others; see `Transport`."""
        return self._waited.value * 1e-9

    def _combination(self, array: Any, op: str, ranks: tuple[int, ...], digest: int, where: str) -> np.ndarray:
        from .combine import combiner
        from .packing import flatten_combine

        dtype = np.dtype(array.dtype)
        identity(op, dtype)  # raises for what cannot be combined
        function = combiner(dtype).address
        size = array.size * dtype.itemsize
        self._engine.reserve([size], [size])
        operator = OPERATORS.index(op)
        return flatten_combine(digest, where, self.rank, ranks, function, operator, dtype.itemsize, array.size)

    def _call(
        self, name: str, spec: np.ndarray, arguments: list[Any], outputs: list[Any], aliases: dict[int, int]
    ) -> list[Any]:
        number, token = self._descriptions.add(spec), len(arguments) - 1
        attributes = {"description": np.int64(number), "token": np.int64(token)}
        return jax_compat.call(_PREFIX + name, outputs, arguments, aliases, **attributes)


class Descriptions:
    """Descriptions of the operations of one executable, in the order of tracing.

    An executable only knows their numbers: equal ones compile to equal code whatever their messages say.
    """

    def __init__(self) -> None:
        self._all: list[np.ndarray] = []
        self._places = np.zeros(8, np.int64)  # their addresses
        self._home = np.array([self._places.ctypes.data])  # which stays where it is when the places move

    @property
    def address(self) -> int:
        """Where the address of their addresses is."""
        return self._home.ctypes.data

    def add(self, description: np.ndarray) -> int:
        """Keep a description; its number."""
        number = len(self._all)
        if number == self._places.size:
            self._places = np.concatenate([self._places, np.zeros_like(self._places)])
            self._home[0] = self._places.ctypes.data
        self._all.append(description)
        self._places[number] = description.ctypes.data
        return number


@cache
def _register_handlers() -> list[Any]:
    """Compile the handlers and make them known to XLA, once; the result owns their code."""
    from . import handlers
    from .native import compiled

    made = []
    for function in (handlers.exchange, handlers.allreduce, handlers.exscan):
        handler = compiled(function, 1)
        jax_compat.register(_PREFIX + function.__name__, handler.address)
        made.append(handler)
    return made


def _aval(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)
