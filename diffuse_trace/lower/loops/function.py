"""LLVM functions while they are emitted: addresses, loops and intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from .. import jax_compat
from .body import Code

WORD, INT, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)

Carried = list[Any]


def word(value: Any) -> Any:
    """A number as an LLVM value."""
    return ir.Constant(WORD, value) if isinstance(value, int) else value


class Function:
    """A function of words, all of whose parameters are addresses or numbers, that returns one."""

    def __init__(self, module: Any, name: str, parameters: int) -> None:
        self.module = module
        self.llvm = ir.Function(module, ir.FunctionType(WORD, [WORD] * parameters), name)
        self.parameters = list(self.llvm.args)
        self.builder = ir.IRBuilder(self.llvm.append_basic_block("entry"))

    def pointer(self, address: Any, kind: Any = WORD) -> Any:
        """An address as a pointer."""
        return self.builder.inttoptr(address, kind.as_pointer())

    def at(self, address: Any, offset: Any) -> Any:
        """An address plus a number of bytes."""
        return self.builder.add(address, word(offset))

    def load(self, address: Any, offset: int = 0) -> Any:
        """The word in memory."""
        return self.builder.load(self.pointer(self.at(address, offset)))

    def store(self, address: Any, offset: int, value: Any) -> None:
        """Store a word."""
        self.builder.store(word(value), self.pointer(self.at(address, offset)))

    def add_atomically(self, address: Any, offset: int, by: int) -> Any:
        """Add to a word; what it was before."""
        return self.builder.atomic_rmw("add", self.pointer(self.at(address, offset)), word(by), "acq_rel")

    def room(self, words: int) -> Any:
        """The address of some words on the stack."""
        return self.builder.ptrtoint(self.builder.alloca(WORD, size=max(1, words)), WORD)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a C function of words, by name."""
        found = self.module.globals.get(name)
        kind = ir.FunctionType(WORD, [WORD] * len(arguments))
        return self.builder.call(found or ir.Function(self.module, kind, name), [word(a) for a in arguments])

    def call_at(self, address: Any, *arguments: Any) -> Any:
        """Call the C function of words at an address."""
        kind = ir.FunctionType(WORD, [WORD] * len(arguments))
        return self.builder.call(self.builder.inttoptr(address, kind.as_pointer()), [word(a) for a in arguments])

    def intrinsic(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """An LLVM intrinsic by its full name."""
        found = self.module.globals.get(name)
        return found or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def least(self, a: Any, b: Any) -> Any:
        """The smaller of two words."""
        return self.builder.select(self.builder.icmp_signed("<", word(a), word(b)), word(a), word(b))

    def most(self, a: Any, b: Any) -> Any:
        """The larger of two words."""
        return self.builder.select(self.builder.icmp_signed(">", word(a), word(b)), word(a), word(b))

    def loop(
        self, start: Any, stop: Any, step: int, carried: Carried, body: Callable[[Any, Carried], Carried]
    ) -> Carried:
        """A loop from ``start`` to ``stop``; the body gets the index and what is carried and returns the latter."""
        builder, before = self.builder, self.builder.block
        test, trip, after = (self.llvm.append_basic_block() for _ in range(3))
        builder.branch(test)
        builder.position_at_end(test)
        first = [word(start), *carried]
        phis = [builder.phi(value.type) for value in first]
        for phi, value in zip(phis, first, strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", phis[0], word(stop)), trip, after)
        builder.position_at_end(trip)
        made = body(phis[0], list(phis[1:]))
        for phi, value in zip(phis, [builder.add(phis[0], word(step)), *made], strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        return list(phis[1:])

    def until(self, condition: Callable[[], Any], body: Callable[[], None]) -> None:
        """Run the body until the condition, an LLVM bit that is emitted before it, holds."""
        test, trip, after = (self.llvm.append_basic_block() for _ in range(3))
        self.builder.branch(test)
        self.builder.position_at_end(test)
        self.builder.cbranch(condition(), after, trip)
        self.builder.position_at_end(trip)
        body()
        self.builder.branch(test)
        self.builder.position_at_end(after)


def bases(function: Function, frame: Any, code: Code) -> list[Any]:
    """The addresses of all arrays, from the call frame of XLA."""
    layout = jax_compat.frame_layout()
    arguments, results = function.load(frame, layout.arguments), function.load(frame, layout.results)
    found = []
    for number in range(len(code.arrays)):
        made = number in code.results
        buffers, place = (results, code.results.index(number)) if made else (arguments, code.given.index(number))
        found.append(function.load(function.load(buffers, 8 * (1 + place)), layout.data))
    return found
