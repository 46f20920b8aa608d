"""Products of matrices in slices of rows, or in rows that repeat, with a vector: compiled by Numba, called by XLA."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from llvmlite import ir
from numba import carray, from_dtype, int32, int64, njit, types, uint8
from numba.core import cgutils
from numba.extending import intrinsic

from ..lower import jax_compat
from ..runtime.boxes import data
from ..runtime.handlers import answered, attribute
from ..runtime.native import compiled, element, load, pointer, put_element

_PREFIX = "diffuse_trace_"
_layout = jax_compat.frame_layout()
_ARGUMENTS, _RESULTS, _DATA = _layout.arguments, _layout.results, _layout.data
_COUNT, _SLICES = 0, 1  # attributes, which come sorted by name
_U8, _I32, _I64 = uint8, int32, int64


def multiply_rows(layout: Any, x: Any, rows: int) -> Any:
    """The product, as an operation of a traced function; ``x`` and the values are of one floating or int64 dtype."""
    arrays = [layout.starts, layout.widths, layout.lengths, layout.order, layout.columns, layout.values, x]
    result = jax.ShapeDtypeStruct((rows,), x.dtype)
    return jax_compat.call(_registered(np.dtype(x.dtype), "rows"), [result], arrays, {}, rows=np.int64(rows))[0]


def multiply_kinds(layout: Any, x: Any, rows: int) -> Any:
    """The product of rows of few kinds; see `multiply_rows`."""
    arrays = [layout.begins, layout.shifts, layout.values, layout.which, layout.firsts, layout.order, x]
    result = jax.ShapeDtypeStruct((rows,), x.dtype)
    name = _registered(np.dtype(x.dtype), "kinds")
    return jax_compat.call(name, [result], arrays, {}, rows=np.int64(rows))[0]


def multiply_alike(layout: Any, x: Any, rows: int) -> Any:
    """The product of rows of like values; see `multiply_rows`."""
    arrays = [*layout.arrays, x]
    result = jax.ShapeDtypeStruct((rows,), x.dtype)
    name = _registered(np.dtype(x.dtype), "alike")
    slices = np.int64(layout.which.shape[0])
    return jax_compat.call(name, [result], arrays, {}, rows=np.int64(rows), slices=slices)[0]


@cache
def _registered(dtype: np.dtype, what: str) -> str:
    name = f"{_PREFIX}{what}_{dtype.name}"
    make = {"rows": _rows_handler, "kinds": _kinds_handler, "alike": _alike_handler}[what]
    handler = compiled(make(from_dtype(dtype)), 1, name)
    jax_compat.register(name, handler.address)
    _kept.append(handler)  # it owns the code
    return name


_kept: list[Any] = []


def _kinds_handler(kind: Any) -> Callable[[int], int]:
    def kinds_product(frame):
        if not answered(frame):
            given, made = load(frame + _ARGUMENTS), load(frame + _RESULTS)
            count = attribute(frame, _COUNT)
            _kinds_product(
                count,
                carray(pointer(data(given, 0, _DATA)), 1, _I64),
                carray(pointer(data(given, 1, _DATA)), 1, _I32),
                carray(pointer(data(given, 2, _DATA)), 1, kind),
                carray(pointer(data(given, 3, _DATA)), count, _U8),
                carray(pointer(data(given, 4, _DATA)), count, _I32),
                carray(pointer(data(given, 5, _DATA)), count, _I32),
                carray(pointer(data(given, 6, _DATA)), 1, kind),
                carray(pointer(data(made, 0, _DATA)), count, kind),
            )
        return 0

    return kinds_product


@njit
def _kinds_product(count, begins, shifts, values, which, firsts, order, x, y):
    for s in range((count + 7) // 8):
        first = s * 8
        # Rows are in order of their kinds: those between two of one kind are of it too.
        if first + 8 <= count and element(which, first) == element(which, first + 7):
            k = int64(element(which, first))
            sums = alike(firsts, shifts, values, x, first, element(begins, k), element(begins, k + 1))
            for lane in range(8):
                put_element(y, element(order, first + lane), sums[lane])
        else:
            for i in range(first, min(first + 8, count)):
                k, at = int64(element(which, i)), int64(element(firsts, i))
                total = values.dtype.type(0)
                for e in range(element(begins, k), element(begins, k + 1)):
                    total += element(values, e) * element(x, at + element(shifts, e))
                put_element(y, element(order, i), total)


def _alike_handler(kind: Any) -> Callable[[int], int]:
    def alike_product(frame):
        if not answered(frame):
            given, made = load(frame + _ARGUMENTS), load(frame + _RESULTS)
            count, slices = attribute(frame, _COUNT), attribute(frame, _SLICES)
            _alike_product(
                count,
                slices,
                carray(pointer(data(given, 0, _DATA)), slices, _I32),
                carray(pointer(data(given, 1, _DATA)), 1, _I64),
                carray(pointer(data(given, 2, _DATA)), 1, kind),
                carray(pointer(data(given, 3, _DATA)), 1, _I32),
                carray(pointer(data(given, 4, _DATA)), count, _I32),
                carray(pointer(data(given, 5, _DATA)), 1, _I64),
                carray(pointer(data(given, 6, _DATA)), 1, _I32),
                carray(pointer(data(given, 7, _DATA)), 1, kind),
                carray(pointer(data(given, 8, _DATA)), 1, kind),
                carray(pointer(data(made, 0, _DATA)), count, kind),
            )
        return 0

    return alike_product


@njit
def _alike_product(count, slices, which, begins, values, columns, order, ends, other_columns, other_values, x, y):
    at = 0
    for s in range(slices):
        k = int64(element(which, s))
        begin, end = element(begins, k), element(begins, k + 1)
        sums = one_value_each(columns, values, x, at, begin, end)
        at += 8 * (end - begin)
        for lane in range(8):
            put_element(y, element(order, 8 * s + lane), sums[lane])
    for i in range(8 * slices, count):
        r, total = i - 8 * slices, values.dtype.type(0)
        for e in range(element(ends, r), element(ends, r + 1)):
            total += element(other_values, e) * element(x, element(other_columns, e))
        put_element(y, element(order, i), total)


def _rows_handler(kind: Any) -> Callable[[int], int]:
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


class _Gathers:
    """Vectors of eight elements gathered from ``x``.

    LLVM loads eight at once where the processor does so, else one by one.  Products are rounded before they are added,
    as SciPy's are.
    """

    word = ir.IntType(64)
    index = ir.VectorType(ir.IntType(32), 8)

    def __init__(self, context, builder, kind, x):
        self.context, self.builder, self.real = context, builder, isinstance(kind, types.Float)
        self.element = context.get_data_type(kind)
        self.vector = ir.VectorType(self.element, 8)
        self.addresses = ir.VectorType(self.element.as_pointer(), 8)
        self.size = context.get_abi_sizeof(self.element)
        self.sizes = ir.Constant(ir.VectorType(self.word, 8), [self.size] * 8)
        mask = ir.VectorType(ir.IntType(1), 8)
        self.ones = ir.Constant(mask, [1] * 8)
        name = f"llvm.masked.gather.v8{'f' if self.real else 'i'}{self.size * 8}.v8p0"
        given = [self.addresses, ir.IntType(32), mask, self.vector]
        self.gather = cgutils.get_or_insert_function(builder.module, ir.FunctionType(self.vector, given), name)
        self.base = self.spread(builder.ptrtoint(x, self.word))

    def spread(self, value):
        """A vector of equal elements."""
        empty = ir.Constant(ir.VectorType(value.type, 8), ir.Undefined)
        one = self.builder.insert_element(empty, value, ir.Constant(self.word, 0))
        return self.builder.shuffle_vector(one, empty, ir.Constant(self.index, [0] * 8))

    def bytes(self, numbers):
        """How far elements by number lie from the first."""
        return self.builder.mul(self.builder.sext(numbers, self.sizes.type), self.sizes)

    def load(self, places):
        """The elements at some addresses."""
        where = self.builder.inttoptr(places, self.addresses)
        size, nothing = ir.Constant(ir.IntType(32), self.size), ir.Constant(self.vector, ir.Undefined)
        return self.builder.call(self.gather, [where, size, self.ones, nothing])

    def add_product(self, total, a, b):
        if self.real:
            return self.builder.fadd(total, self.builder.fmul(a, b))
        return self.builder.add(total, self.builder.mul(a, b))

    def lanes(self, signature, vector):
        """A vector as a tuple."""
        found = [self.builder.extract_element(vector, ir.Constant(self.word, lane)) for lane in range(8)]
        return self.context.make_tuple(self.builder, signature.return_type, found)


def _gathered(context, builder, signature, arguments):
    kind = signature.args[1].dtype
    columns, values, x = (
        context.make_array(t)(context, builder, value).data
        for t, value in zip(signature.args[:3], arguments[:3], strict=True)
    )
    gathers = _Gathers(context, builder, kind, x)
    total = cgutils.alloca_once_value(builder, ir.Constant(gathers.vector, [0] * 8))
    with cgutils.for_range(builder, arguments[4], intp=gathers.word) as loop:
        at = builder.add(arguments[3], builder.mul(loop.index, ir.Constant(gathers.word, 8)))
        which = builder.load(builder.bitcast(builder.gep(columns, [at]), gathers.index.as_pointer()), align=4)
        factor = builder.load(
            builder.bitcast(builder.gep(values, [at]), gathers.vector.as_pointer()), align=gathers.size
        )
        found = gathers.load(builder.add(gathers.base, gathers.bytes(which)))
        builder.store(gathers.add_product(builder.load(total), factor, found), total)
    return gathers.lanes(signature, builder.load(total))


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


@intrinsic
def one_value_each(typingctx, columns, values, x, start, begin, end):
    """The sums of eight rows whose columns stand side by side from ``start`` on, of the values ``begin`` to ``end``."""
    kind = values.dtype
    sums = types.UniTuple(kind, 8)
    made = _one_value_each if isinstance(kind, _REAL) else _one_value_each_one_by_one
    return sums(columns, values, x, types.int64, types.int64, types.int64), made


def _one_value_each(context, builder, signature, arguments):
    kind = signature.args[1].dtype
    columns, values, x = (
        context.make_array(t)(context, builder, value).data
        for t, value in zip(signature.args[:3], arguments[:3], strict=True)
    )
    gathers = _Gathers(context, builder, kind, x)
    total = cgutils.alloca_once_value(builder, ir.Constant(gathers.vector, [0] * 8))
    with cgutils.for_range(builder, builder.sub(arguments[5], arguments[4]), intp=gathers.word) as loop:
        at = builder.add(arguments[3], builder.mul(loop.index, ir.Constant(gathers.word, 8)))
        which = builder.load(builder.bitcast(builder.gep(columns, [at]), gathers.index.as_pointer()), align=4)
        factor = gathers.spread(builder.load(builder.gep(values, [builder.add(arguments[4], loop.index)])))
        found = gathers.load(builder.add(gathers.base, gathers.bytes(which)))
        builder.store(gathers.add_product(builder.load(total), factor, found), total)
    return gathers.lanes(signature, builder.load(total))


def _one_value_each_one_by_one(context, builder, signature, arguments):
    return context.compile_internal(builder, _complex_one_value_each, signature, arguments)


def _complex_one_value_each(columns, values, x, start, begin, end):
    zero = values.dtype.type(0)
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
    for e in range(begin, end):
        value, k = element(values, e), start + 8 * (e - begin)
        a0 += value * element(x, element(columns, k + 0))
        a1 += value * element(x, element(columns, k + 1))
        a2 += value * element(x, element(columns, k + 2))
        a3 += value * element(x, element(columns, k + 3))
        a4 += value * element(x, element(columns, k + 4))
        a5 += value * element(x, element(columns, k + 5))
        a6 += value * element(x, element(columns, k + 6))
        a7 += value * element(x, element(columns, k + 7))
    return a0, a1, a2, a3, a4, a5, a6, a7


@intrinsic
def alike(typingctx, firsts, shifts, values, x, row, begin, end):
    """The sums of eight rows from number ``row`` on, which all have the elements from ``begin`` to ``end``."""
    kind = values.dtype
    sums = types.UniTuple(kind, 8)
    made = _alike if isinstance(kind, _REAL) else _alike_one_by_one
    return sums(firsts, shifts, values, x, types.int64, types.int64, types.int64), made


def _alike(context, builder, signature, arguments):
    kind = signature.args[2].dtype
    firsts, shifts, values, x = (
        context.make_array(t)(context, builder, value).data
        for t, value in zip(signature.args[:4], arguments[:4], strict=True)
    )
    gathers = _Gathers(context, builder, kind, x)
    which = builder.load(builder.bitcast(builder.gep(firsts, [arguments[4]]), gathers.index.as_pointer()), align=4)
    places = builder.add(gathers.base, gathers.bytes(which))
    total = cgutils.alloca_once_value(builder, ir.Constant(gathers.vector, [0] * 8))
    with cgutils.for_range(builder, builder.sub(arguments[6], arguments[5]), intp=gathers.word) as loop:
        at = builder.add(arguments[5], loop.index)
        shift = gathers.spread(builder.sext(builder.load(builder.gep(shifts, [at])), gathers.word))
        factor = gathers.spread(builder.load(builder.gep(values, [at])))
        found = gathers.load(builder.add(places, builder.mul(shift, gathers.sizes)))
        builder.store(gathers.add_product(builder.load(total), factor, found), total)
    return gathers.lanes(signature, builder.load(total))


def _alike_one_by_one(context, builder, signature, arguments):
    return context.compile_internal(builder, _complex_alike, signature, arguments)


def _complex_alike(firsts, shifts, values, x, row, begin, end):
    zero = values.dtype.type(0)
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
    for e in range(begin, end):
        shift, value = int64(element(shifts, e)), element(values, e)
        a0 += value * element(x, shift + element(firsts, row + 0))
        a1 += value * element(x, shift + element(firsts, row + 1))
        a2 += value * element(x, shift + element(firsts, row + 2))
        a3 += value * element(x, shift + element(firsts, row + 3))
        a4 += value * element(x, shift + element(firsts, row + 4))
        a5 += value * element(x, shift + element(firsts, row + 5))
        a6 += value * element(x, shift + element(firsts, row + 6))
        a7 += value * element(x, shift + element(firsts, row + 7))
    return a0, a1, a2, a3, a4, a5, a6, a7
