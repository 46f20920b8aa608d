"""The product of a matrix in slices of rows with a vector, compiled by Numba and called by XLA."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from llvmlite import ir
from numba import carray, from_dtype, int32, int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..lower import jax_compat
from ..runtime.boxes import data
from ..runtime.handlers import answered, attribute
from ..runtime.native import compiled, element, load, pointer, put_element

_PREFIX = "diffuse_trace_rows_"
_layout = jax_compat.frame_layout()
_ARGUMENTS, _RESULTS, _DATA = _layout.arguments, _layout.results, _layout.data
_COUNT = 0  # the only attribute
_I32, _I64 = int32, int64


def multiply_rows(layout: Any, x: Any, rows: int) -> Any:
    """The product, as an operation of a traced function; ``x`` and the values are of one floating or int64 dtype."""
    arrays = [layout.starts, layout.widths, layout.lengths, layout.order, layout.columns, layout.values, x]
    result = jax.ShapeDtypeStruct((rows,), x.dtype)
    return jax_compat.call(_registered(np.dtype(x.dtype)), [result], arrays, {}, rows=np.int64(rows))[0]


@cache
def _registered(dtype: np.dtype) -> str:
    name = _PREFIX + dtype.name
    handler = compiled(_handler(from_dtype(dtype)), 1, name)
    jax_compat.register(name, handler.address)
    _kept.append(handler)  # it owns the code
    return name


_kept: list[Any] = []


def _handler(kind: Any) -> Callable[[int], int]:
    def rows_product(frame):
        if not answered(frame):
            given, made = load(frame + _ARGUMENTS), load(frame + _RESULTS)
            count = attribute(frame, _COUNT)
            slices = (count + 7) // 8
            _product(
                count,
                slices,
                carray(pointer(data(given, 0, _DATA)), slices + 1, _I64),
                carray(pointer(data(given, 1, _DATA)), slices, _I32),
                carray(pointer(data(given, 2, _DATA)), count, _I32),
                carray(pointer(data(given, 3, _DATA)), count, _I32),
                carray(pointer(data(given, 4, _DATA)), 1, _I32),
                carray(pointer(data(given, 5, _DATA)), 1, kind),
                carray(pointer(data(given, 6, _DATA)), 1, kind),
                carray(pointer(data(made, 0, _DATA)), count, kind),
            )
        return 0

    return rows_product


@njit
def _product(count, slices, starts, widths, lengths, order, columns, values, x, y):
    for s in range(slices):
        k, width, first = element(starts, s), element(widths, s), s * 8
        behind = k + width * 8
        sums = side_by_side(columns, values, x, k, width)
        if first + 8 <= count and element(starts, s + 1) == behind:
            for lane in range(8):
                put_element(y, element(order, first + lane), sums[lane])
        else:
            for lane in range(min(8, count - first)):
                total = sums[lane]
                rest = behind + element(lengths, first + lane) - width
                while behind < rest:
                    total += element(values, behind) * element(x, element(columns, behind))
                    behind += 1
                put_element(y, element(order, first + lane), total)


@intrinsic
def side_by_side(typingctx, columns, values, x, start, width):
    """The sums of eight rows, whose first ``width`` elements stand side by side from ``start`` on."""
    kind = values.dtype
    sums = types.UniTuple(kind, 8)
    return sums(columns, values, x, types.int64, types.int64), _gathered if isinstance(kind, _REAL) else _one_by_one


_REAL = (types.Float, types.Integer)


def _gathered(context, builder, signature, arguments):
    # A vector of eight sums.  LLVM loads eight elements of x at once where the processor does so, else one by one.
    # Products are rounded before they are added, as SciPy's are.
    kind = signature.args[1].dtype
    columns, values, x = (
        context.make_array(t)(context, builder, value).data
        for t, value in zip(signature.args[:3], arguments[:3], strict=True)
    )
    element_type, word = context.get_data_type(kind), ir.IntType(64)
    vector, index = ir.VectorType(element_type, 8), ir.VectorType(ir.IntType(32), 8)
    wide, addresses = ir.VectorType(word, 8), ir.VectorType(element_type.as_pointer(), 8)
    mask = ir.VectorType(ir.IntType(1), 8)
    size = context.get_abi_sizeof(element_type)
    name = f"llvm.masked.gather.v8{'f' if isinstance(kind, types.Float) else 'i'}{size * 8}.v8p0"
    gather = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [addresses, ir.IntType(32), mask, vector]), name
    )
    base = builder.insert_element(ir.Constant(wide, ir.Undefined), builder.ptrtoint(x, word), ir.Constant(word, 0))
    base = builder.shuffle_vector(base, ir.Constant(wide, ir.Undefined), ir.Constant(index, [0] * 8))
    total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0] * 8))
    with cgutils.for_range(builder, arguments[4], intp=word) as loop:
        at = builder.add(arguments[3], builder.mul(loop.index, ir.Constant(word, 8)))
        which = builder.load(builder.bitcast(builder.gep(columns, [at]), index.as_pointer()), align=4)
        factor = builder.load(builder.bitcast(builder.gep(values, [at]), vector.as_pointer()), align=size)
        offset = builder.mul(builder.sext(which, wide), ir.Constant(wide, [size] * 8))
        places = builder.inttoptr(builder.add(base, offset), addresses)
        ones = ir.Constant(mask, [1] * 8)
        found = builder.call(
            gather, [places, ir.Constant(ir.IntType(32), size), ones, ir.Constant(vector, ir.Undefined)]
        )
        if isinstance(kind, types.Float):
            more = builder.fadd(builder.load(total), builder.fmul(factor, found))
        else:
            more = builder.add(builder.load(total), builder.mul(factor, found))
        builder.store(more, total)
    sums = builder.load(total)
    lanes = [builder.extract_element(sums, ir.Constant(word, lane)) for lane in range(8)]
    return context.make_tuple(builder, signature.return_type, lanes)


def _one_by_one(context, builder, signature, arguments):
    return context.compile_internal(builder, _complex_sums, signature, arguments)


def _complex_sums(columns, values, x, start, width):
    zero = values.dtype.type(0)
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
    for k in range(start, start + 8 * width, 8):
        a0 += element(values, k + 0) * element(x, element(columns, k + 0))
        a1 += element(values, k + 1) * element(x, element(columns, k + 1))
        a2 += element(values, k + 2) * element(x, element(columns, k + 2))
        a3 += element(values, k + 3) * element(x, element(columns, k + 3))
        a4 += element(values, k + 4) * element(x, element(columns, k + 4))
        a5 += element(values, k + 5) * element(x, element(columns, k + 5))
        a6 += element(values, k + 6) * element(x, element(columns, k + 6))
        a7 += element(values, k + 7) * element(x, element(columns, k + 7))
    return a0, a1, a2, a3, a4, a5, a6, a7
