"""Recording elementwise operations: operands, result types by NumPy's rules, broadcasting, ``out`` and ``where``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import recording
from ..ir import Privilege, View
from ..recording import Array

if TYPE_CHECKING:
    from .array import ndarray

Kind = type | np.dtype

_PYTHON = (int, float, complex)


def as_array(x: Any, dtype: Any = None) -> ndarray:
    """``x`` as an array of this package: itself, or its elements distributed.  Raises TypeError for objects."""
    from .array import ndarray

    if isinstance(x, ndarray):
        return x if dtype is None or np.dtype(dtype) == x.dtype else x.astype(dtype)
    if isinstance(x, list | tuple) and _holds_arrays(x):
        from .joining import stack

        made = stack([as_array(item) for item in x])
        return made if dtype is None else made.astype(dtype)
    host = np.asarray(x, dtype=dtype)
    if host.dtype.kind not in "biufc":
        raise TypeError(f"{recording.user_line()}: arrays of {host.dtype} are not supported; use numbers or booleans")
    return ndarray(recording.from_host(host))


def _holds_arrays(items: Any) -> bool:
    return any(isinstance(i, Array) or (isinstance(i, list | tuple) and _holds_arrays(i)) for i in items)


def operand(x: Any) -> Any:
    """``x`` as an input of an operation: an array, or a scalar of Python's or NumPy's."""
    if isinstance(x, Array | np.generic) or type(x) in _PYTHON:
        return x
    if isinstance(x, bool):
        return np.bool_(x)
    if isinstance(x, int | float | complex):
        return x
    return as_array(x)


def kind_of(x: Any) -> Kind:
    """What takes part in promotion: a dtype, or Python's type where the scalar is weak."""
    if isinstance(x, Array):
        return x.weak if x.weak is not None else x.store.ir.dtype
    if isinstance(x, np.generic):
        return x.dtype
    return next(t for t in _PYTHON if isinstance(x, t))


@lru_cache(maxsize=8192)
def resolve(ufunc: np.ufunc, kinds: tuple[Kind, ...], dtype: np.dtype | None = None) -> tuple[np.dtype, ...]:
    """The dtypes of the loop, inputs then outputs, as NumPy chooses them.  Raises as NumPy does."""
    if all(k in _PYTHON for k in kinds):
        kinds = tuple(map(np.dtype, kinds))  # Python's scalars alone are of the default types
    given = (*kinds, *[None] * ufunc.nout)
    if dtype is None:
        return ufunc.resolve_dtypes(given)
    return ufunc.resolve_dtypes(given, signature=(None,) * ufunc.nin + (dtype,) * ufunc.nout)


@lru_cache(maxsize=8192)
def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcast of shapes.  Raises ValueError."""
    return np.broadcast_shapes(*shapes)


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an array or a scalar."""
    return x.view.shape if isinstance(x, Array) else ()


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an elementwise result.  Raises ValueError with NumPy's words and the user's line."""
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        text = " ".join(str(s).replace(" ", "") for s in shapes)
        raise ValueError(
            f"operands could not be broadcast together with shapes {text} ({recording.user_line()})"
        ) from None


def empty(shape: tuple[int, ...], dtype: Any, weak: type | None = None) -> ndarray:
    """A new array that an operation is about to write."""
    return recording.array_class(recording.new(shape, dtype), View.identity(shape), weak)  # type: ignore[return-value]


def write(
    op: str, inputs: Sequence[Any], target: Array, *, privilege: Privilege = Privilege.WRITE, **params: Any
) -> None:
    """Record an operation over the target's shape; inputs are broadcast to it."""
    shape = target.view.shape
    sources = []
    for x in inputs:
        if isinstance(x, Array):
            view = x.view
            sources.append((x.store, view if view.shape == shape else view.broadcast(shape)))
        else:
            sources.append(x)
    recording.record(op, shape, sources, (target.store, target.view), privilege=privilege, **params)


def apply(
    op: str,
    inputs: Sequence[Any],
    result: np.dtype,
    loop: tuple[np.dtype, ...] | None = None,
    *,
    out: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    **params: Any,
) -> ndarray:
    """Record one elementwise operation, and return its result: ``out``, or a new array of dtype ``result``.

    ``inputs`` are as `operand` gives them; ``loop`` are the dtypes they are cast to first.  Where ``where`` is False
    elements of ``out`` stay as they are.
    """
    if loop is not None:
        inputs = [x if isinstance(x, Array) else _typed(x, d) for x, d in zip(inputs, loop)]
        for x, d in zip(inputs, loop):
            have = x.store.ir.dtype if isinstance(x, Array) else x.dtype
            if have is not d and have != d:
                params["loop"] = tuple([d.name for d in loop])
                break
    shape = common_shape(*[x.view.shape if isinstance(x, Array) else () for x in inputs])
    if where is True:
        target = _output(op, out, shape, result, casting) if out is not None else empty(shape, result)
        write(op, inputs, target, **params)
        return target
    where = operand(where)
    if np.dtype(kind_of(where)) != np.bool_:
        raise TypeError(
            f"Cannot cast array data from {np.dtype(kind_of(where))!r} to dtype('bool') according to the rule 'safe' "
            f"({recording.user_line()})"
        )
    shape = common_shape(shape, shape_of(where))
    if out is not None:
        target = _output(op, out, shape, result, casting)
    else:
        target = empty(shape, result)
        write("fill", [result.type(0)], target)
    with recording.one_operation():
        fresh = empty(target.view.shape, result)
        write(op, inputs, fresh, **params)
        write("choose", [where, fresh, target], target, privilege=Privilege.READ_WRITE)
    return target


def _typed(x: Any, dtype: np.dtype) -> Any:
    """A scalar in the dtype of the loop; Python integers that do not fit raise OverflowError, as in NumPy."""
    if isinstance(x, np.generic):
        return x
    return dtype.type(x)


def _output(op: str, out: Any, shape: tuple[int, ...], result: np.dtype, casting: str) -> ndarray:
    from .array import ndarray

    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError("The 'out' tuple must have exactly one entry per ufunc output")
        out = out[0]
    if not isinstance(out, ndarray):
        raise TypeError("return arrays must be of ArrayType")
    out.check_writable()
    try:
        fits = np.broadcast_shapes(shape, out.shape) == out.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape {shape} "
            f"({recording.user_line()})"
        )
    if not np.can_cast(result, out.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast ufunc {op!r} output from {result!r} to {out.dtype!r} with casting rule {casting!r} "
            f"({recording.user_line()})"
        )
    return out


def ufunc(
    name: str, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Call the ufunc ``name`` of NumPy on arrays of this package."""
    function: np.ufunc = getattr(np, name)
    if recording.tracing():
        from .selection import Selection
        from .selection import apply as select

        if any(isinstance(x, Selection) for x in args):
            return select(name, args)
    inputs = [operand(x) for x in args]
    if name in _BEYOND and (type(inputs[0]) is int or type(inputs[1]) is int):
        name, inputs = _in_range(name, inputs)
        function = getattr(np, name)
    loop = resolve(function, tuple(map(kind_of, inputs)), None if dtype is None else np.dtype(dtype))
    params: dict[str, Any] = {}
    if name == "power" and isinstance(args[1], int | np.integer):
        if args[1] < 0 and loop[-1].kind in "iu":
            raise ValueError(f"Integers to negative integer powers are not allowed ({recording.user_line()})")
        if type(args[1]) is int and abs(args[1]) <= 16:
            params["exponent"] = args[1]
    return apply(name, inputs, loop[-1], loop[: function.nin], out=out, where=where, casting=casting, **params)


#: What a comparison with an integer above the range of a dtype, or below it, says of the end of the range.
_BEYOND = {
    "less": ("less_equal", "less"),
    "less_equal": ("less_equal", "less"),
    "not_equal": ("less_equal", "greater_equal"),
    "greater": ("greater", "greater_equal"),
    "greater_equal": ("greater", "greater_equal"),
    "equal": ("greater", "less"),
}
_MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def _in_range(name: str, inputs: list[Any]) -> tuple[str, list[Any]]:
    """An equivalent comparison in which a Python integer that the other side's dtype cannot hold is one that it can."""
    x, value = inputs if type(inputs[1]) is int else inputs[::-1]
    dtype = kind_of(x)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
        return name, inputs
    info = np.iinfo(dtype)
    if info.min <= value <= info.max:
        return name, inputs
    if x is not inputs[0]:
        name = _MIRRORED.get(name, name)
    above = value > info.max
    return _BEYOND[name][not above], [x, int(info.max if above else info.min)]
