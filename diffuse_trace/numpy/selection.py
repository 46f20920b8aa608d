"""Masked selections in traced functions: ``a[mask] *= 2``, ``a[mask] = b[mask] + c``, ``a[mask].sum()``.

How many elements a mask selects is known at run time only.  While a function is traced, ``a[mask]`` therefore keeps all
elements and the mask; what is elementwise is done everywhere, and assignment takes it where the mask is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import recording
from ..errors import NotSupportedError
from ..ir import Privilege
from . import core
from .operators import Operators, library

if TYPE_CHECKING:
    from .array import ndarray

_REDUCTIONS = ("sum", "prod", "mean", "any", "all", "var", "std")


class Selection(recording.Unfinished):
    """The elements of ``values`` where ``mask`` (of the same shape) is true, in a function that is being traced."""

    __slots__ = ("mask", "values")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: ndarray, mask: ndarray) -> None:
        self.values, self.mask = values, mask

    def refuse(self) -> Exception:
        """Its number of elements is not known."""
        return _unsupported("returning")

    def same_mask(self, mask: ndarray) -> bool:
        """Whether the elements are those of another mask too."""
        return self.mask.store is mask.store and self.mask.view == mask.view

    def assign_to(self, target: ndarray, mask: ndarray) -> None:
        """``target[mask] = self``."""
        if not self.same_mask(mask):
            raise _unsupported("assignment to another mask than the one that selected")
        core.write("choose", [mask, self.values, target], target, privilege=Privilege.READ_WRITE)

    def astype(self, dtype: Any) -> Selection:
        """The elements as another type."""
        return Selection(self.values.astype(dtype), self.mask)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs.get("out") is not None:
            raise _unsupported(f"numpy.{ufunc.__name__}.{method} with out")
        return apply(ufunc.__name__, inputs)

    def __getattr__(self, name: str) -> Any:
        if name not in _REDUCTIONS:
            raise _unsupported(f"the attribute {name}")
        return lambda **kwargs: library(name)(self.values, where=self.mask, **kwargs)


def apply(name: str, inputs: Any) -> Any:
    """An elementwise function of selections of one mask and scalars."""
    mask = next(x.mask for x in inputs if isinstance(x, Selection))
    values = []
    for x in inputs:
        if isinstance(x, Selection):
            if not x.same_mask(mask):
                raise _unsupported("an operation on elements that different masks select")
            values.append(x.values)
        elif core.shape_of(core.operand(x)):
            raise _unsupported("an operation on selected elements and a whole array")
        else:
            values.append(x)
    return Selection(core.ufunc(name, *values), mask)


def _operator(name: str, dunder: str) -> Any:
    reflected = dunder.startswith("__r") and dunder not in ("__rshift__",)

    def method(self: Selection, *other: Any) -> Any:
        return apply(name, (*other, self) if reflected else (self, *other))

    return method


def _install() -> None:
    names = {"sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder"}
    names |= {"add": "add", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    names |= {
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
        "eq": "equal",
        "ne": "not_equal",
    }
    names |= {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
    for short, name in names.items():
        for dunder in (f"__{short}__", f"__r{short}__"):
            if hasattr(Operators, dunder):
                setattr(Selection, dunder, _operator(name, dunder))


_install()


def _unsupported(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{recording.user_line()}: {what} is not supported for elements that a mask selects in a traced function; "
        "use np.where on whole arrays, or do it outside the function"
    )
