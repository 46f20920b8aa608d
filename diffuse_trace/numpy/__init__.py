"""NumPy's names for distributed arrays: ``import diffuse_trace.numpy as np``."""

import difflib as _difflib
from typing import Any as _Any

import numpy as _numpy
from numpy import (  # noqa: F401 - NumPy's types, constants and helpers are these arrays' too
    bool_,
    can_cast,
    complex64,
    complex128,
    double,
    dtype,
    e,
    errstate,
    euler_gamma,
    finfo,
    float16,
    float32,
    float64,
    floating,
    generic,
    iinfo,
    inexact,
    inf,
    int8,
    int16,
    int32,
    int64,
    int_,
    intc,
    integer,
    intp,
    issubdtype,
    nan,
    ndindex,
    newaxis,
    number,
    pi,
    printoptions,
    promote_types,
    result_type,
    set_printoptions,
    signedinteger,
    single,
    uint8,
    uint16,
    uint32,
    uint64,
    unsignedinteger,
)

from .. import config as _config
from ..errors import NotSupportedError as _NotSupportedError
from . import linalg as linalg
from . import random as random
from .array import *  # noqa: F403
from .creation import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .joining import *  # noqa: F403
from .linalg import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .reductions import *  # noqa: F403
from .statistics import *  # noqa: F403

bool = bool_


class _Missing(_NotSupportedError, AttributeError):
    """A name of NumPy's that is not offered; ``hasattr`` says so."""


def __getattr__(name: str) -> _Any:
    if name.startswith("_"):
        raise AttributeError(name)
    near = _difflib.get_close_matches(name, globals(), 1)
    hint = f"; the nearest that is supported is {near[0]}" if near else ""
    if hasattr(_numpy, name):
        raise _Missing(
            f"numpy.{name} is not supported on distributed arrays{hint}; numpy.asarray(x) gathers one on every rank"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


if _config.get("profile"):
    from ..profiling import profile_everything as _profile_everything

    _profile_everything()
