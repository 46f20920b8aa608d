"""NumPy's own functions on distributed arrays: ``np.sin(x)``, ``np.add.reduce(x)``, ``np.concatenate([x, y])``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import recording
from ..errors import NotSupportedError

_REDUCE = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_REDUCE_BOOLEANS = {"bitwise_and": "all", "bitwise_or": "any"}
_ACCUMULATE = {"add": "cumsum", "multiply": "cumprod"}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``ndarray.__array_ufunc__`` does."""
    from .. import numpy as library

    name = ufunc.__name__
    if name == "matmul" and method == "__call__":
        return library.matmul(*inputs, **kwargs)
    out = kwargs.get("out")
    if isinstance(out, tuple) and any(isinstance(o, np.ndarray) for o in out):
        raise TypeError(
            f"{recording.user_line()}: {name} of distributed arrays cannot write into a NumPy array; gather the result "
            "with numpy.asarray, or make `out` with diffuse_trace.numpy"
        )
    function = getattr(library, name, None)
    if method == "__call__" and function is not None:
        if isinstance(out, tuple) and len(out) == 1:
            kwargs = kwargs | {"out": out[0]}
        return function(*inputs, **kwargs)
    if method == "reduce":
        reduction = _REDUCE.get(name) or (_REDUCE_BOOLEANS.get(name) if inputs[0].dtype.kind == "b" else None)
        if reduction is not None:
            return _reduce(reduction, inputs, kwargs)
    if method == "accumulate" and name in _ACCUMULATE:
        return getattr(library, _ACCUMULATE[name])(inputs[0], axis=kwargs.get("axis", 0))
    if method == "outer" and function is not None:
        a, b = library.asarray(inputs[0]), library.asarray(inputs[1])
        return function(a[(...,) + (None,) * b.ndim], b, **kwargs)
    raise NotSupportedError(f"{recording.user_line()}: numpy.{name}.{method} is not supported on distributed arrays")


def _reduce(name: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``ufunc.reduce``, whose axis is 0 unless given, by a function of the library."""
    from .. import numpy as library

    given = dict(zip(("axis", "dtype", "out", "keepdims", "initial", "where"), inputs[1:])) | kwargs
    options = {
        "axis": given.pop("axis", 0),
        "keepdims": given.get("keepdims", False),
        "where": given.get("where", True),
    }
    out = given.get("out")
    options["out"] = out[0] if isinstance(out, tuple) else out
    if name not in ("all", "any"):
        options["initial"] = None if given.get("initial") is np._NoValue else given.get("initial")
        if given.get("dtype") is not None:
            options["dtype"] = given["dtype"]
    return getattr(library, name)(inputs[0], **options)


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``ndarray.__array_function__`` does."""
    from .. import numpy as library

    module = function.__module__ or "numpy"
    name = function.__name__
    place: Any = library
    for part in module.split(".")[1:]:
        place = getattr(place, part, None)
    found = getattr(place, name, None)
    if found is None or found is function:
        raise NotSupportedError(
            f"{recording.user_line()}: {module}.{name} is not supported on distributed arrays; "
            "numpy.asarray(x) gathers one on every rank"
        )
    return found(*args, **kwargs)
