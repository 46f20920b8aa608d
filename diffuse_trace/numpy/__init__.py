"""NumPy's names for distributed arrays: ``import diffuse_trace.numpy as np``."""

import difflib as _difflib
from typing import Any as _Any

import numpy as _numpy
from numpy import (  # noqa: F401 - NumPy's types, constants and helpers are these arrays' too
    False_,
    True_,
    bool_,
    broadcast_shapes,
    byte,
    can_cast,
    cdouble,
    complex64,
    complex128,
    complexfloating,
    csingle,
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
    get_printoptions,
    geterr,
    half,
    iinfo,
    index_exp,
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
    iterable,
    ix_,
    longlong,
    min_scalar_type,
    nan,
    ndindex,
    newaxis,
    number,
    pi,
    printoptions,
    promote_types,
    s_,
    set_printoptions,
    seterr,
    short,
    signedinteger,
    single,
    ubyte,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
    ulonglong,
    unsignedinteger,
    ushort,
)

from .. import config as _config
from . import linalg as linalg
from . import random as random
from .array import *  # noqa: F403
from .creation import *  # noqa: F403
from .differences import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .inspection import *  # noqa: F403
from .joining import *  # noqa: F403
from .linalg import *  # noqa: F403
from .manipulation import *  # noqa: F403
from .operators import NotOfferedError as _NotOfferedError
from .reductions import *  # noqa: F403
from .statistics import *  # noqa: F403

bool = bool_


def __getattr__(name: str) -> _Any:
    if name.startswith("_"):
        raise AttributeError(name)
    near = _difflib.get_close_matches(name, globals(), 1)
    hint = f"; the nearest that is supported is {near[0]}" if near else ""
    if hasattr(_numpy, name):
        raise _NotOfferedError(
            f"numpy.{name} is not supported on distributed arrays{hint}; numpy.asarray(x) gathers one on every rank"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


if _config.get("profile"):
    from ..profiling import profile_everything as _profile_everything

    _profile_everything()
