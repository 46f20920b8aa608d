"""Clocks in executables: what the steps within a loop take, noted as it runs, for profiles.

A mark is a call of compiled code that arrays pass through: what has made them is over then, and what uses them comes
after.  It adds the time since the mark before it to its own entry of a table.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numba import njit

from ..lower import jax_compat
from ..lower.transport import Spent
from .boxes import data
from .handlers import answered, attribute
from .native import call, compiled, load, store
from .wire import WORD

_NAME = "diffuse_trace_mark"
_layout = jax_compat.frame_layout()
_ARGUMENTS, _DATA = _layout.arguments, _layout.data

# The table, in words: the C function that tells the time, its clock, what it writes to, where the nanoseconds waited
# are, and the last mark's time and those; then three words for each mark.
_GETTIME, _CLOCK, _TIME, _WAITING, _LAST, _LAST_WAITED, _ENTRIES = (n * WORD for n in range(7))
_COUNT, _SPENT, _WAITED, _ENTRY = (n * WORD for n in range(4))
_MONOTONIC = 1  # of clock_gettime


@njit
def _now(t):
    call(load(t + _GETTIME), (load(t + _CLOCK), load(t + _TIME)))
    return load(load(t + _TIME)) * 1_000_000_000 + load(load(t + _TIME) + WORD)


def mark(frame):
    """Operands: the address of the table, then arrays, which are its results too.  An attribute numbers the mark."""
    if not answered(frame):
        t = load(data(load(frame + _ARGUMENTS), 0, _DATA))
        entry = t + _ENTRIES + attribute(frame, 0) * _ENTRY
        now, waited = _now(t), load(load(t + _WAITING))
        store(entry + _COUNT, load(entry + _COUNT) + 1)
        store(entry + _SPENT, load(entry + _SPENT) + now - load(t + _LAST))
        store(entry + _WAITED, load(entry + _WAITED) + waited - load(t + _LAST_WAITED))
        store(t + _LAST, now)
        store(t + _LAST_WAITED, waited)
    return 0


class Marks:
    """The table of an executable's marks.

    Args:
        count: how many there are.
        waiting: the address of the nanoseconds waited; 0 where nobody waits.
    """

    def __init__(self, count: int, waiting: int) -> None:
        _register()
        self._time, self._nothing = np.zeros(2, np.int64), np.zeros(1, np.int64)
        self._words = np.zeros((_ENTRIES + count * _ENTRY) // WORD, np.int64)
        address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
        waiting = waiting or self._nothing.ctypes.data
        self._words[:4] = [address, _MONOTONIC, self._time.ctypes.data, waiting]
        self._waited = ctypes.c_int64.from_address(waiting)
        self._entries = self._words[_ENTRIES // WORD :].reshape(count, _ENTRY // WORD)
        #: What executables get, as an argument.
        self.address = jnp.asarray(np.array([self._words.ctypes.data]))

    def begin(self) -> None:
        """The time runs from here."""
        from time import clock_gettime_ns

        self._words[_LAST // WORD], self._words[_LAST_WAITED // WORD] = clock_gettime_ns(_MONOTONIC), self._waited.value

    def spent(self) -> list[Spent]:
        """What has been spent up to each mark, since the last question."""
        found = [Spent(int(n), s * 1e-9, w * 1e-9) for n, s, w in self._entries]
        self._entries[:] = 0
        return found

    @staticmethod
    def mark(number: int, arrays: Sequence[Any], address: Any) -> list[Any]:
        """Let arrays pass a mark, in a traced function."""
        results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
        aliases = {n + 1: n for n in range(len(arrays))}
        return jax_compat.call(_NAME, results, [address, *arrays], aliases, number=np.int64(number))


@cache
def _register() -> Any:
    """Compile the handler and make it known to XLA, once; the result owns its code."""
    handler = compiled(mark, 1)
    jax_compat.register(_NAME, handler.address)
    return handler
