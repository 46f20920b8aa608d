"""Loads and stores of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from .body import Place, Value
from .operations import splat, vector

if TYPE_CHECKING:
    from .rows import Rows

#: Bytes of a cache line, which is what a vector holds of the widest dtype.
LINE = 64
_WORD, _INT, _BYTE, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(1)


class Point:
    """Where values are loaded and stored: vectors from element ``j`` of a row on, or single ones where it is None."""

    def __init__(
        self,
        body: Rows,
        pointers: Any,
        row: int,
        j: Any,
        mask: Any,
        shared: dict[Any, Any],
        aligned: bool = False,
    ) -> None:
        self.body, self.builder = body, body.builder
        self.pointers, self.row, self.j, self.mask = pointers, row, j, mask
        self.shared, self.aligned = shared, aligned

    def _at(self, place: Place) -> Any:
        size = self.body.size(place.array)
        if not place.strides or not any(place.strides):
            return self.builder.add(self.body.bases[place.array], ir.Constant(_WORD, place.offset * size))
        pitch = place.strides[-2] if len(place.strides) > 1 else 0
        address = self.pointers[place.array, place.strides]
        if self.j is not None:
            address = self.builder.add(address, self.builder.mul(self.j, ir.Constant(_WORD, place.strides[-1] * size)))
        return self.builder.add(address, ir.Constant(_WORD, (place.offset + self.row * pitch) * size))

    def load(self, value: Value) -> Any:
        place: Place = value.extra
        pitch = place.strides[-2] if len(place.strides) > 1 else 0
        key = place.array, place.strides, place.offset + self.row * pitch
        if key not in self.shared:
            self.shared[key] = self._load(place, value.dtype)
        return self.shared[key]

    def _load(self, place: Place, dtype: np.dtype) -> Any:
        builder, lanes = self.builder, self.body.lanes
        kind, held = vector(dtype, lanes), vector(dtype, lanes, memory=True)
        address = self._at(place)
        if not place.strides or not place.strides[-1]:
            single = builder.load(builder.inttoptr(address, held.element.as_pointer()))
            if dtype.kind == "b":
                single = builder.icmp_unsigned("!=", single, ir.Constant(_BYTE, 0))
            return splat(builder, single, lanes, kind)
        if place.strides[-1] != 1:
            loaded = self._gather(address, place.strides[-1], held)
        elif self.mask is not None:
            load = self._masked("load", held, [held.as_pointer(), _INT, ir.VectorType(_BIT, lanes), held], held)
            pointer = builder.inttoptr(address, held.as_pointer())
            nothing = ir.Constant(held, [0] * lanes)
            loaded = builder.call(load, [pointer, ir.Constant(_INT, dtype.itemsize), self.mask, nothing])
        else:
            loaded = builder.load(builder.inttoptr(address, held.as_pointer()), align=dtype.itemsize)
        if dtype.kind == "b":
            return builder.icmp_unsigned("!=", loaded, ir.Constant(held, [0] * lanes))
        return loaded

    def _masked(self, name: str, held: Any, arguments: list[Any], result: Any) -> Any:
        letter = "i" if isinstance(held.element, ir.IntType) else "f"
        bits = held.element.width if letter == "i" else 64 if held.element == ir.DoubleType() else 32
        pointers = f".v{held.count}p0" if name in ("gather", "scatter") else ".p0"
        return self.body.function.intrinsic(
            f"llvm.masked.{name}.v{held.count}{letter}{bits}{pointers}", result, arguments
        )

    def _places(self, address: Any, stride: int, held: Any) -> Any:
        size = held.element.width // 8 if isinstance(held.element, ir.IntType) else self._bytes(held)
        steps = ir.Constant(ir.VectorType(_WORD, held.count), [stride * size * k for k in range(held.count)])
        addresses = self.builder.add(self.body.spread(address), steps)
        return self.builder.inttoptr(addresses, ir.VectorType(held.element.as_pointer(), held.count)), size

    @staticmethod
    def _bytes(held: Any) -> int:
        return 8 if held.element == ir.DoubleType() else 4

    def _lanes_mask(self, count: int) -> Any:
        return self.mask if self.mask is not None else ir.Constant(ir.VectorType(_BIT, count), [1] * count)

    def _gather(self, address: Any, stride: int, held: Any) -> Any:
        places, size = self._places(address, stride, held)
        arguments = [places.type, _INT, ir.VectorType(_BIT, held.count), held]
        gather = self._masked("gather", held, arguments, held)
        nothing = ir.Constant(held, [0] * held.count)
        return self.builder.call(gather, [places, ir.Constant(_INT, size), self._lanes_mask(held.count), nothing])

    def store(self, place: Place, value: Any, past: bool) -> None:
        builder, lanes = self.builder, self.body.lanes
        dtype = self.body.code.arrays[place.array][0]
        held = vector(dtype, lanes, memory=True)
        if dtype.kind == "b":
            value = builder.zext(value, held)
        address = self._at(place)
        pointer = builder.inttoptr(address, held.as_pointer())
        size = ir.Constant(_INT, dtype.itemsize)
        if place.strides[-1] != 1:
            places, _ = self._places(address, place.strides[-1], held)
            arguments = [held, places.type, _INT, ir.VectorType(_BIT, lanes)]
            scatter = self._masked("scatter", held, arguments, ir.VoidType())
            builder.call(scatter, [value, places, size, self._lanes_mask(lanes)])
        elif self.mask is not None:
            arguments = [held, held.as_pointer(), _INT, ir.VectorType(_BIT, lanes)]
            store = self._masked("store", held, arguments, ir.VoidType())
            builder.call(store, [value, pointer, size, self.mask])
        elif past and self.aligned:
            made = builder.store(value, pointer, align=min(LINE, lanes * dtype.itemsize))
            made.set_metadata("nontemporal", self._one())
        else:
            builder.store(value, pointer, align=dtype.itemsize)

    def _one(self) -> Any:
        module = self.body.function.module
        return module.add_metadata([ir.Constant(_INT, 1)])
