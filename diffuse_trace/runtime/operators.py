"""The operators of reductions over ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import NotSupportedError

#: Their names; a position is the operator's number in compiled code.
OPERATORS = ("sum", "prod", "min", "max")


def identity(op: str, dtype: np.dtype) -> Any:
    """What an operator leaves alone, as a scalar of the dtype.

    Raises:
        NotSupportedError: there is no such operator, or complex numbers would have to be ordered.
    """
    if op not in OPERATORS:
        raise NotSupportedError(f"{op!r} over ranks: there are {', '.join(OPERATORS)}")
    if op in ("sum", "prod"):
        return dtype.type(op == "prod")
    least = op == "max"
    if dtype.kind == "b":
        return np.bool_(not least)
    if dtype.kind == "f":
        return dtype.type(-np.inf if least else np.inf)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min if least else np.iinfo(dtype).max)
    raise NotSupportedError(f"{op} over ranks of {dtype}: take it of the real or the imaginary part")
