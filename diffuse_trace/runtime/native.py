"""Memory and calls by address, for functions that Numba compiles; how such functions are kept on disk.

Nothing here is compiled before the first handler is.  Addresses never become part of compiled code, so it may be
kept on disk and shared by all ranks.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import binding, ir
from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..lower import jax_compat

_WORD = ir.IntType(64)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _loader(kind: Any, result: Any) -> Any:
    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(_pointer(builder, arguments[0], kind), align=1)
            return builder.sext(value, _WORD) if isinstance(kind, ir.IntType) and kind.width < 64 else value

        return result(types.int64), codegen

    return load


def _storer(kind: Any, argument: Any) -> Any:
    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = arguments[1]
            if isinstance(kind, ir.IntType) and kind.width < 64:
                value = builder.trunc(value, kind)
            builder.store(value, _pointer(builder, arguments[0], kind), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, argument), codegen

    return store


load8, load16, load32, load = (_loader(ir.IntType(n), types.int64) for n in (8, 16, 32, 64))
store8, store16, store32, store = (_storer(ir.IntType(n), types.int64) for n in (8, 16, 32, 64))


@intrinsic
def load_acquire(typingctx: Any, address: Any) -> Any:
    """The word at an address that another process may write; what is read later is read after it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_pointer(builder, arguments[0], _WORD), "acquire", 8)

    return types.int64(types.int64), codegen


@intrinsic
def store_release(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a word that another process may read, after all that was stored before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0], _WORD), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def load_half(typingctx: Any, address: Any) -> Any:
    """The float16 at an address, as a float32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_pointer(builder, arguments[0], ir.HalfType()), align=1)
        return builder.fpext(value, ir.FloatType())

    return types.float32(types.int64), codegen


@intrinsic
def store_half(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a float32 as a float16, rounded to the nearest, ties to even."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.fptrunc(arguments[1], ir.HalfType())
        builder.store(value, _pointer(builder, arguments[0], ir.HalfType()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), codegen


def _caller(kind: Any, result: Any) -> Any:
    @intrinsic
    def call(typingctx: Any, address: Any, values: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # Where C wants an int it takes the lower half of the register.
            words = cgutils.unpack_tuple(builder, arguments[1], len(signature.args[1]))
            function = ir.FunctionType(kind, [_WORD] * len(words))
            value = builder.call(_pointer(builder, arguments[0], function), words)
            return builder.sext(value, _WORD) if kind == ir.IntType(32) else value

        return result(types.int64, values), codegen

    return call


#: ``call(address, (a, b, ...))``: a C function of ints and pointers that returns an int.
call = _caller(ir.IntType(32), types.int64)
#: The same for one that returns a double.
call_double = _caller(ir.DoubleType(), types.float64)


@intrinsic
def copy(typingctx: Any, target: Any, source: Any, size: Any) -> Any:
    """``copy(target, source, size)``: memcpy."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8)
        target, source = (_pointer(builder, a, byte) for a in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def pointer(typingctx: Any, address: Any) -> Any:
    """The address as a pointer that `numba.carray` takes."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), codegen


@intrinsic
def element(typingctx: Any, array: Any, index: Any) -> Any:
    """``array[index]`` of a contiguous array; the index is neither checked nor counted from the end."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, arguments[0])
        return context.unpack_value(builder, kind.dtype, builder.gep(held.data, [arguments[1]]))

    return array.dtype(array, types.int64), codegen


@intrinsic
def put_element(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value``; see `element`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, arguments[0])
        context.pack_value(builder, kind.dtype, arguments[2], builder.gep(held.data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), codegen


def _stamp() -> str:
    """Changes with all that compiled code depends on and that Numba's cache does not look at.

    Numba looks at one file, and its index names one processor: ranks on different ones must not share it.
    """
    folder = Path(__file__).parent
    parts = [path.read_bytes() for path in sorted(folder.glob("*.py")) if path.name in _SOURCES]
    parts += [
        repr(jax_compat.frame_layout()).encode(),
        binding.get_host_cpu_name().encode(),
        platform.machine().encode(),
    ]
    return hashlib.blake2b(b"\0".join(parts), digest_size=6).hexdigest()


_SOURCES = (
    "native.py",
    "boxes.py",
    "combine.py",
    "handlers.py",
    "marks.py",
    "messages.py",
    "near.py",
    "packing.py",
    "rings.py",
    "wire.py",
)


def compiled(function: Callable[..., Any], arguments: int, name: str = "") -> Any:
    """Compile a function of int64 that returns int64 for calls by C, or take it from the cache.

    ``name`` keeps apart functions that one definition makes.

    The result has an ``address``, and must be kept while it is in use.
    """
    function.__qualname__ = f"{name or function.__name__}_{_stamp()}"
    signature = types.int64(*[types.int64] * arguments)
    try:
        return cfunc(signature, cache=True)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return cfunc(signature)(function)  # nowhere to write
