"""``jit``: a function's operations are recorded once for each signature and replayed afterwards."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import jax.tree_util as tree
import numpy as np

from . import config, recording
from .batching import Batch, patience
from .guards import Guards
from .ir import Program
from .ir.rolling import Rolled, roll
from .recording import Array, Window
from .runtime import execute
from .runtime.stores import Data
from .traces import LONGEST, Result, Static, Trace, describe, is_operand, loops

#: Told of each call of a jitted function before it runs (`diffuse explain`).
on_call: Callable[[Jitted, tuple[Any, ...], dict[str, Any]], None] | None = None

P = ParamSpec("P")
R = TypeVar("R")


@overload
def jit(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def jit(*, static_argnames: str | Iterable[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def jit(function: Any = None, /, *, static_argnames: str | Iterable[str] = ()) -> Any:
    """Record what a function does to arrays, fuse it, compile it, and replay it at later calls.

    Arguments and results may be arrays, scalars, and nested tuples, lists, dicts and other JAX pytrees.  Numbers are
    operands: a changed value neither records nor compiles again.  Flags (bool), strings and the arguments named in
    ``static_argnames`` are part of the signature instead: they decide how the function runs.  Arrays are updated as
    NumPy would.  The function is recorded again when shapes, dtypes, views, aliasing, static arguments, or the scalars
    and arrays that it takes from its surroundings have changed.

    Raises:
        TracingError: the function needs the value of an array (``if x > 0``, ``float(x)``) or of a scalar argument.
    """
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if function is None:
        return lambda f: Jitted(f, names)
    return Jitted(function, names)


class Jitted:
    """A function decorated with `jit`."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...]) -> None:
        if not callable(function):
            raise TypeError(f"jit decorates functions, not {type(function).__name__} objects")
        functools.update_wrapper(self, function)
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        self.static = static
        self.traces: list[Trace] = []
        self.signature = inspect.signature(function)
        unknown = [n for n in static if n not in self.signature.parameters]
        if unknown:
            raise ValueError(f"static_argnames: {self.name} has no argument {', '.join(unknown)}")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        window = recording.current()
        if window.tracing:
            return self.function(*args, **kwargs)
        leaves, treedef = self._flatten(args, kwargs)
        if recording.pending is not None:
            batch = getattr(recording.pending, "__self__", None)
            if isinstance(batch, Batch) and batch.continues(self, treedef, leaves):
                return batch.add(leaves)
            recording.settle()
        if window.tasks:
            window.run()
        if on_call is not None:
            on_call(self, args, kwargs)
        for n, trace in enumerate(self.traces):
            if trace.matches(treedef, leaves):
                if n:
                    self.traces.insert(0, self.traces.pop(n))
                trace.calls += 1
                if trace.calls > trace.patience and self._may_wait(trace):
                    return Batch(self, trace, treedef, leaves).add(leaves)
                return trace.replay(leaves)
        return self._record(leaves, treedef)

    def _may_wait(self, trace: Trace) -> bool:
        """Whether a call may be put off, to be run together with those that follow."""
        if trace.patience < 0:
            trace.patience = patience(trace)
        wanted = config.get("batch") > 1 and not config.get("check")
        return wanted and trace.calls > trace.patience and not execute.watchers and on_call is None

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        if self.static:
            bound = self.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            for name in self.static:
                value = bound.arguments[name]
                try:
                    hash(value)
                except TypeError:
                    raise TypeError(
                        f"{recording.user_line()}: the static argument {name} of {self.name} is a "
                        f"{type(value).__name__}, which cannot be hashed; pass a tuple, a number or a string"
                    ) from None
                bound.arguments[name] = Static(value)
            args, kwargs = bound.args, bound.kwargs
        leaves, treedef = tree.tree_flatten((args, kwargs))
        for n, leaf in enumerate(leaves):
            if type(leaf) is np.ndarray:
                leaves[n] = recording.array_of(leaf)
        return leaves, treedef

    def _record(self, leaves: list[Any], treedef: Any) -> Any:
        arguments: dict[int, int] = {}
        for n, leaf in enumerate(leaves):
            if isinstance(leaf, Array):
                recording.ready(leaf.store, "an argument")
                arguments.setdefault(leaf.store.ir.id, n)
        trace = Trace(
            self.name, treedef, [describe(n, leaves) for n in range(len(leaves))], Guards(self.function), arguments
        )
        window, out = self._trace(leaves, treedef)
        trace.guards.depend(window.dependencies.values())
        outputs, trace.result_tree = tree.tree_flatten(out)
        del out
        for leaf in outputs:
            same = next((n for n, a in enumerate(leaves) if a is leaf), -1)
            if isinstance(leaf, recording.Unfinished):
                raise leaf.refuse()
            if same >= 0:
                trace.results.append(Result(argument=same))
            elif isinstance(leaf, Array):
                trace.results.append(Result(store=leaf.store.ir.id, array=leaf))
            else:
                trace.results.append(Result(constant=leaf))
        stores = {leaf.store.ir.id: leaf.store for leaf in (*leaves, *outputs) if isinstance(leaf, Array)}
        rolled = None  # each task is looked at by itself where NaN is searched for
        if not config.get("check"):
            rolled = roll(window.program(len(window.tasks)), window.meanings(), recording.new_store)
        whole = len(window.tasks) <= LONGEST or bool(window.regions) or rolled is not None
        parts = [len(window.tasks)] if whole else loops(window.sites)
        for part in parts:
            window.run(part, functools.partial(_compile_and_run, trace, window, rolled))
        for r in trace.results:
            if r.array is not None and r.store not in arguments and r.store not in trace.captured:
                trace.returned[r.store] = (r.array.store.shape, r.array.store.dtype)
        result = trace.finish(leaves, stores)
        for r in trace.results:
            if r.array is not None:
                # The template must not keep the store of this call alive.
                r.array = type(r.array)(recording.new((), bool), r.array.view, r.array.weak)
        self.traces = [trace, *(t for t in self.traces if not t.guards.outdated())]
        del self.traces[config.get("max_traces") :]
        return result

    def _trace(self, leaves: Sequence[Any], treedef: Any) -> tuple[Window, Any]:
        """Call the function with its scalars as arrays, recording into a window of its own."""
        window = Window(self.name)
        with recording.trace_into(window):
            values = [recording.scalar(leaf, n) if is_operand(leaf) else leaf for n, leaf in enumerate(leaves)]
            args, kwargs = tree.tree_unflatten(treedef, values)
            args = tuple(a.value if isinstance(a, Static) else a for a in args)
            kwargs = {k: a.value if isinstance(a, Static) else a for k, a in kwargs.items()}
            return window, self.function(*args, **kwargs)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """What a call records.  Nothing is run and no array changes."""
        leaves, treedef = self._flatten(args, kwargs)
        recording.flush()
        for leaf in leaves:
            if isinstance(leaf, Array):
                recording.ready(leaf.store, "an argument")
        window, out = self._trace(leaves, treedef)
        program = window.program(len(window.tasks))
        rolled = roll(program, window.meanings(), recording.new_store)
        del out
        return program if rolled is None else rolled.program


def _compile_and_run(
    trace: Trace,
    window: Window,
    rolled: Rolled | None,
    program: Program,
    inputs: Mapping[int, Data],
    operands: list[Any],
) -> dict[int, Data]:
    given = list(zip(window.sources, window.operands, strict=True))
    if rolled is not None:
        program = rolled.program
        given = [(-1, o) if isinstance(o, int) else given[o.index] for o in rolled.operands]
        operands = rolled.given(operands)
    compiled = trace.compile(window, program, inputs, given[: len(program.operands)])
    chunk = trace.chunks[-1]
    results = compiled.run({id: inputs[store] for id, store in chunk.inputs}, operands)
    return {chunk.results[id]: data for id, data in results.items()}
