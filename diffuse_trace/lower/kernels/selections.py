"""Elementwise operations that are not ufuncs: copies and casts, selection, clipping, rounding, parts of numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import complexes, floats
from .casts import cast, inputs, numpy_cast, reference_inputs
from .elementwise import Function
from .registry import Context, register


def _quiet(function: Function) -> Function:
    """A reference without NumPy's warnings."""

    def reference(context: Context, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return numpy_cast(function(context, *arrays), context.dtype)

    return reference


def _where(context: Context, condition: Any, a: Any, b: Any) -> Any:
    return jnp.where(cast(condition, bool), cast(a, context.dtype), cast(b, context.dtype))


def _where_reference(context: Context, condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, numpy_cast(a, context.dtype), numpy_cast(b, context.dtype))


register("copy", lambda context, x: cast(x, context.dtype), _quiet(lambda context, x: x), pointwise=True)
register("where", _where, _quiet(_where_reference), pointwise=True)
register("choose", _where, _quiet(_where_reference), pointwise=True)


def _operands(context: Context, arrays: tuple[Any, ...]) -> list[Any]:
    if context.param("loop") is not None:
        return inputs(context, arrays)
    return [cast(a, context.dtype) for a in arrays]


def _clip(context: Context, x: Any, low: Any, high: Any) -> Any:
    x, low, high = _operands(context, (x, low, high))
    if np.dtype(x.dtype).kind == "c":
        return cast(complexes.minimum(complexes.maximum(x, low), high), context.dtype)
    return cast(jnp.minimum(jnp.maximum(x, low), high), context.dtype)


def _clip_reference(context: Context, x: Any, low: Any, high: Any) -> Any:
    if context.param("loop") is not None:
        x, low, high = reference_inputs(context, (x, low, high))
    else:
        x, low, high = (numpy_cast(a, context.dtype) for a in (x, low, high))
    return np.clip(x, low, high)


register("clip", _clip, _quiet(_clip_reference), pointwise=True)


def _complex(x: Any) -> bool:
    return np.dtype(x.dtype).kind == "c"


def _angle(context: Context, x: Any) -> Any:
    if _complex(x):
        return cast(lax.atan2(lax.imag(x), lax.real(x)), context.dtype)
    x = cast(x, context.dtype)
    return lax.atan2(jnp.zeros_like(x), x)


register(
    "real", lambda context, x: cast(lax.real(x) if _complex(x) else x, context.dtype), _quiet(lambda c, x: np.real(x))
)
register(
    "imag",
    lambda context, x: cast(lax.imag(x) if _complex(x) else jnp.zeros_like(x), context.dtype),
    _quiet(lambda context, x: np.imag(x)),
)
register("angle", _angle, _quiet(lambda context, x: np.angle(x)), pointwise=True)


def _given(context: Context, name: str, default: float) -> float:
    value: Any = context.param(name)
    return default if value is None else value


def _nan_to_num(context: Context, x: Any) -> Any:
    x = cast(x, context.dtype)
    if _complex(x):
        return lax.complex(*(_numbers(context, part) for part in complexes.parts(x)))
    return _numbers(context, x) if np.dtype(x.dtype).kind == "f" else x


def _numbers(context: Context, x: Any) -> Any:
    info = np.finfo(x.dtype)
    nan, high, low = (
        np.asarray(_given(context, name, default), x.dtype)
        for name, default in (("nan", 0.0), ("posinf", info.max), ("neginf", info.min))
    )
    return jnp.where(x != x, nan, jnp.where(x == np.inf, high, jnp.where(x == -np.inf, low, x)))


def _nan_to_num_reference(context: Context, x: Any) -> Any:
    return np.nan_to_num(
        x, nan=_given(context, "nan", 0.0), posinf=context.param("posinf"), neginf=context.param("neginf")
    )


register("nan_to_num", _nan_to_num, _quiet(_nan_to_num_reference), pointwise=True)


def _tolerances(context: Context, rest: tuple[Any, ...]) -> tuple[Any, Any]:
    """Relative and absolute tolerance: operands, else parameters, else NumPy's defaults."""
    return (rest[0], rest[1]) if rest else (_given(context, "rtol", 1e-5), _given(context, "atol", 1e-8))


def _isclose(context: Context, a: Any, b: Any, *rest: Any) -> Any:
    loop: Any = context.param("loop") or (None, None)
    a = jnp.asarray(a) if loop[0] is None else cast(a, loop[0])
    b = jnp.asarray(b) if loop[1] is None else cast(b, loop[1])
    common = np.result_type(np.dtype(a.dtype), np.dtype(b.dtype), 1.0)
    a, b = cast(a, common), cast(b, common)
    real = np.zeros(0, common).real.dtype
    rtol, atol = (cast(t, real) for t in _tolerances(context, rest))
    magnitude = complexes.absolute if _complex(a) else lax.abs
    near = (magnitude(a - b) <= atol + rtol * magnitude(b)) & jnp.isfinite(b) | (a == b)
    return near | (jnp.isnan(a) & jnp.isnan(b)) if context.param("equal_nan") else near


def _isclose_reference(context: Context, a: Any, b: Any, *rest: Any) -> Any:
    loop: Any = context.param("loop") or (None, None)
    a = a if loop[0] is None else numpy_cast(a, loop[0])
    b = b if loop[1] is None else numpy_cast(b, loop[1])
    rtol, atol = (t.item() if hasattr(t, "item") else t for t in _tolerances(context, rest))
    return np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=bool(context.param("equal_nan")))


register("isclose", _isclose, _quiet(_isclose_reference), pointwise=True)


def _round(context: Context, x: Any) -> Any:
    decimals = int(_given(context, "decimals", 0))
    kind = np.dtype(x.dtype).kind
    if kind in "biu":
        if decimals >= 0:
            return cast(x, context.dtype)
        x = cast(x, np.float64)  # as NumPy does
    if kind == "c":
        return cast(lax.complex(*(_rounded(part, decimals) for part in complexes.parts(x))), context.dtype)
    return cast(_rounded(x, decimals), context.dtype)


def _rounded(x: Any, decimals: int) -> Any:
    scale = np.asarray(10.0 ** abs(decimals)).astype(x.dtype)
    nearest = lax.RoundingMethod.TO_NEAREST_EVEN
    if decimals == 0:
        return lax.round(x, nearest)
    if decimals > 0:
        return floats.divide(lax.round(x * scale, nearest), scale)
    return lax.round(floats.divide(x, scale), nearest) * scale


register("round", _round, _quiet(lambda context, x: np.round(x, int(_given(context, "decimals", 0)))), pointwise=True)

register("modf_0", lambda context, x: floats.modf_fraction(cast(x, context.dtype)), _quiet(lambda c, x: np.modf(x)[0]))
register("modf_1", lambda context, x: jnp.trunc(cast(x, context.dtype)), _quiet(lambda c, x: np.modf(x)[1]))
register("frexp_0", lambda context, x: floats.frexp(cast(x, context.dtype))[0], _quiet(lambda c, x: np.frexp(x)[0]))
register("frexp_1", lambda context, x: floats.frexp(x)[1], _quiet(lambda c, x: np.frexp(x)[1]))
