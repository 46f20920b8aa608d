"""The distributed array: `numpy.ndarray`'s interface on a view of a logical store."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import recording
from ..errors import NotSupportedError
from ..ir import View
from ..recording import Array
from ..runtime.stores import LogicalStore
from . import core, indexing
from .operators import NotOfferedError, Operators
from .selection import Selection

__all__ = ["ndarray"]

_SCALARS = (int, float, complex, np.generic, str)


class ndarray(Operators):
    """An array whose elements are spread over the ranks; operations on it are recorded, fused and run later.

    Made by the functions of this module, not by its constructor.  Slices are views of the same elements, as in NumPy.
    ``float``, ``int``, ``bool``, ``print`` and ``numpy.asarray`` need values: what has been recorded is run first,
    and every rank must take part.
    """

    __slots__ = ("_readonly",)

    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, store: LogicalStore, view: View | None = None, weak: type | None = None) -> None:
        super().__init__(store, view, weak)
        self._readonly = ""

    # --- what it is ------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.view.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, on all ranks together."""
        return self.size * self.itemsize

    @property
    def T(self) -> ndarray:
        """The view with the axes reversed."""
        return self._view(self.view.transposed(tuple(reversed(range(self.ndim)))))

    @property
    def base(self) -> ndarray | None:
        """The whole array of which this one is a view; None where it is that itself."""
        return None if self.view.is_identity(self.store.shape) else ndarray(self.store)

    @property
    def flat(self) -> Iterator[ndarray]:
        """The elements one by one, in row-major order."""
        return (self[index] for index in np.ndindex(*self.shape))

    @property
    def local(self) -> np.ndarray:
        """This rank's block, as a NumPy array of its own."""
        return recording.local(self.store, self.view)

    def _view(self, view: View) -> ndarray:
        made = ndarray(self.store, view)
        made._readonly = self._readonly
        return made

    def check_writable(self) -> None:
        """Raise ValueError where the elements are a copy that NumPy would have made a view."""
        if self._readonly:
            raise ValueError(f"assignment destination is read-only: {self._readonly} ({recording.user_line()})")

    # --- values ----------------------------------------------------------------------------------

    def gather(self) -> np.ndarray:
        """All elements as a NumPy array, on every rank (a collective)."""
        return recording.fetch(self.store, self.view, "the value of an array")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the elements of a distributed array can only be copied to a NumPy array")
        value = self.gather()
        return value if dtype is None else value.astype(dtype, copy=False)

    def item(self, *index: Any) -> Any:
        """One element as a Python scalar: the only one, or that at an index or a place in row-major order."""
        place = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        if len(place) == 1 and self.ndim != 1:
            n = operator.index(place[0])
            if not -self.size <= n < self.size:
                raise IndexError(f"index {n} is out of bounds for size {self.size} ({recording.user_line()})")
            place = tuple(map(int, np.unravel_index(n % self.size, self.shape))) if self.ndim else ()
        if index:
            return self[tuple(map(operator.index, place))].item()
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.gather().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return self.gather().tolist()

    def tobytes(self) -> bytes:
        """The elements in row-major order as bytes."""
        return self.gather().tobytes()

    def _scalar(self, convert: Callable[[Any], Any], why: str) -> Any:
        if self.size != 1:
            if convert is bool and self.size > 1:
                raise ValueError(
                    "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all() "
                    f"({recording.user_line()})"
                )
            if convert is bool:
                raise ValueError(f"The truth value of an empty array is ambiguous ({recording.user_line()})")
            raise TypeError(f"only 0-dimensional arrays can be converted to Python scalars ({recording.user_line()})")
        value = recording.fetch(self.store, self.view, why)
        return convert(value.reshape(()))

    def __bool__(self) -> bool:
        return self._scalar(bool, "the truth of an array")

    def __int__(self) -> int:
        return self._scalar(int, "the value of an array")

    def __float__(self) -> float:
        return self._scalar(float, "the value of an array")

    def __complex__(self) -> complex:
        return self._scalar(complex, "the value of an array")

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return self._scalar(operator.index, "the value of an index")

    def __repr__(self) -> str:
        if recording.tracing():
            return (
                f"<array of shape {self.shape} and dtype {self.dtype} in {recording.tracing()}, which is being traced>"
            )
        return repr(self.gather())

    def __str__(self) -> str:
        if recording.tracing():
            return repr(self)
        return str(self.gather()[()])

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and not recording.tracing():
            return format(self.gather()[()], spec)
        if spec:
            raise TypeError("unsupported format string passed to numpy.ndarray.__format__")
        return str(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[ndarray]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[n] for n in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    # --- elements --------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if indexing.is_basic(items):
            return self._view(indexing.basic(self.view, items))
        items = indexing.as_key(key)
        if indexing.is_basic(items):
            return self._view(indexing.basic(self.view, items))
        mask = indexing.sole_mask(self, items)
        if mask is None:
            return indexing.take(self, items)
        if recording.tracing() and mask.shape == self.shape:
            return Selection(self, mask)
        return indexing.compress(self, mask)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.check_writable()
        items = key if isinstance(key, tuple) else (key,)
        if not indexing.is_basic(items):
            items = indexing.as_key(key)
        if not indexing.is_basic(items):
            mask = indexing.sole_mask(self, items)
            if isinstance(value, Selection) and mask is not None:
                value.assign_to(self, mask)
            elif not indexing.set_where(self, items, value):
                indexing.put(self, items, value)
            return
        target = ndarray(self.store, indexing.basic(self.view, items))
        if isinstance(value, Array) and value.store is target.store and value.view == target.view:
            return  # what `x[key] += y` assigns at its end
        target.assign(value)

    def assign(self, value: Any) -> None:
        """Set all elements to ``value``, broadcast and cast as NumPy does on assignment."""
        if value is None or isinstance(value, _SCALARS):
            cell = np.empty((), self.dtype)
            with np.errstate(all="ignore"):
                cell[()] = value  # NumPy itself says what may be assigned to this dtype
            core.write("fill", [cell[()]], self)
            return
        value = core.as_array(value)
        extra = value.ndim - self.ndim
        while extra > 0 and value.shape[0] == 1:
            value, extra = ndarray(value.store, value.view.fixed(0, 0)), extra - 1
        try:
            value.view.broadcast(self.shape)
        except ValueError:
            raise ValueError(
                f"could not broadcast input array from shape {value.shape} into shape {self.shape} "
                f"({recording.user_line()})"
            ) from None
        core.write("copy", [value], self)

    def fill(self, value: Any) -> None:
        """Set all elements to a scalar."""
        self.check_writable()
        self.assign(value)

    def copy(self, order: str = "C") -> ndarray:
        """A copy with elements of its own."""
        made = core.empty(self.shape, self.dtype)
        core.write("copy", [self], made)
        return made

    def astype(self, dtype: Any, copy: bool = True, casting: str = "unsafe", **_: Any) -> ndarray:
        """The elements as another type; a copy, or with ``copy=False`` the array itself where nothing changes."""
        dtype = np.dtype(dtype)
        if dtype.kind not in "biufc":
            raise NotSupportedError(f"astype({dtype}) is not supported; use numbers or booleans")
        if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast array data from {self.dtype!r} to {dtype!r} according to the rule {casting!r}"
            )
        if not copy and dtype == self.dtype:
            return self
        made = core.empty(self.shape, dtype)
        core.write("copy", [self], made)
        return made

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy()

    def __reduce__(self) -> Any:
        return _from_host, (self.gather(),)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise NotOfferedError(
                f"{recording.user_line()}: numpy.ndarray.{name} is not supported on distributed arrays; "
                "numpy.asarray(x) gathers an array on every rank"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # --- NumPy's functions -----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .protocols import call_ufunc

        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .protocols import call_function

        return call_function(function, args, kwargs)


def _from_host(array: np.ndarray) -> ndarray:
    return core.as_array(array)


recording.array_class = ndarray
