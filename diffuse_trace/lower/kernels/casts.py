"""Casts by NumPy's rules, and the dtypes in which a kernel computes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .registry import Context


def cast(value: Any, dtype: Any) -> Any:
    """``value.astype(dtype)`` as NumPy does it: truncation towards zero, integers wrap, the imaginary part is dropped.

    Floats that an integer type cannot hold give what C leaves undefined; types of fewer than 32 bits wrap, as
    NumPy's do on x86.
    """
    dtype = np.dtype(dtype)
    value = jnp.asarray(value)
    have = np.dtype(value.dtype)
    if have == dtype:
        return value
    if dtype == np.bool_:
        return value != 0
    if have.kind == "c" and dtype.kind != "c":
        return cast(lax.real(value), dtype)
    if have.kind == "f" and dtype.kind in "iu":
        # XLA saturates; by way of a wider signed type the small ones wrap, and negative values fit unsigned ones.
        if dtype.itemsize < 4:
            value = lax.convert_element_type(value, np.dtype(np.int32))
        elif dtype == np.uint32:
            value = lax.convert_element_type(value, np.dtype(np.int64))
        elif dtype == np.uint64:
            signed = lax.convert_element_type(value, np.dtype(np.int64))
            return jnp.where(value < 0, signed.astype(dtype), lax.convert_element_type(value, dtype))
    return lax.convert_element_type(value, dtype)


def loop_dtypes(context: Context, arrays: tuple[Any, ...], ufunc: np.ufunc | None = None) -> tuple[np.dtype, ...]:
    """The dtypes to which the inputs are cast: those of the parameter ``loop``, else what NumPy's ufunc resolves."""
    given = context.param("loop")
    if given is not None:
        return tuple(np.dtype(name) for name in given)
    have = tuple(np.dtype(a.dtype) for a in arrays)
    if ufunc is None:
        return have
    return tuple(ufunc.resolve_dtypes((*have, *(None,) * ufunc.nout))[: ufunc.nin])


def inputs(context: Context, arrays: tuple[Any, ...], ufunc: np.ufunc | None = None) -> list[Any]:
    """The inputs of a generator, cast to the dtypes of its loop."""
    return [cast(a, d) for a, d in zip(arrays, loop_dtypes(context, arrays, ufunc), strict=True)]


def reference_inputs(context: Context, arrays: tuple[Any, ...], ufunc: np.ufunc | None = None) -> list[Any]:
    """The inputs of a reference, cast to the dtypes of its loop."""
    with np.errstate(all="ignore"):
        return [numpy_cast(a, d) for a, d in zip(arrays, loop_dtypes(context, arrays, ufunc), strict=True)]


def numpy_cast(value: Any, dtype: Any) -> Any:
    """``value.astype(dtype)`` without the warning that an imaginary part is dropped."""
    value = np.asarray(value)
    if value.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        value = value.real
    return value.astype(dtype, copy=False)
