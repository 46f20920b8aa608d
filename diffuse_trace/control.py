"""Loops and branches as parts of a program: recorded once, compiled into one executable, communication included.

They mean what the Python statements mean: ``fori_loop(a, b, body, state)`` is ``for i in range(a, b): state = body(i,
state)``, with updates of arrays in place where the body makes them.  The interface is that of `jax.lax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.tree_util as tree
import numpy

from . import recording
from .errors import TracingError
from .ir import Branch, Carried, Chosen, Loop, Store
from .numpy import core
from .numpy.array import ndarray
from .recording import Array
from .regions import Frame, copied, fill
from .traces import is_operand

__all__ = ["cond", "fori_loop", "while_loop"]


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """``for i in range(lower, upper): state = body(i, state)``, and the last state.

    Args:
        lower, upper: integers, or 0-d integer arrays, whose values need not be known.
        body: called once, to record what a trip does.  ``i`` is a 0-d array that counts like a Python int.
        state: arrays, scalars, and nested tuples, lists, dicts and other JAX pytrees of them.  Scalars come back as 0-d
            arrays.

    Raises:
        TracingError: the body needs the value of an array.
        TypeError, ValueError: a part of the state changes its dtype, shape or structure.
    """
    frame = Frame("fori_loop")
    with recording.one_operation():
        first, bound = (_integer(x, name) for x, name in ((lower, "lower"), (upper, "upper")))
    leaves, treedef = tree.tree_flatten(state)

    def test(i: Any, *_: Any) -> Any:
        return core.ufunc("less", i, bound)

    def trip(i: Any, *values: Any) -> list[Any]:
        return [i + 1, *_flatten(body(i, tree.tree_unflatten(treedef, values)), treedef, "fori_loop")]

    results = _loop(frame, ["i", *_names(state)], [first, *leaves], test, trip, bound)
    return tree.tree_unflatten(treedef, results[1:])


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
    """``while condition(state): state = body(state)``, and the last state.

    Args:
        condition: called once, to record how a 0-d boolean array is computed; it may change no array.
        body: called once, to record what a trip does.
        state: see `fori_loop`.

    Raises:
        As `fori_loop`; TypeError also where the condition gives no boolean.
    """
    leaves, treedef = tree.tree_flatten(state)

    def test(*values: Any) -> Any:
        return condition(tree.tree_unflatten(treedef, values))

    def trip(*values: Any) -> list[Any]:
        return _flatten(body(tree.tree_unflatten(treedef, values)), treedef, "while_loop")

    return tree.tree_unflatten(treedef, _loop(Frame("while_loop"), _names(state), leaves, test, trip, None))


def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """``then(*operands) if predicate else otherwise(*operands)``; only one of them is computed.

    Args:
        predicate: a 0-d boolean array, whose value need not be known, or a Python bool, which chooses at once.
        then, otherwise: both are called once, to record what they do; they may update arrays in place.

    Raises:
        TypeError, ValueError: the results differ in structure, shape or dtype.
    """
    if isinstance(predicate, bool | numpy.bool_):
        return (then if predicate else otherwise)(*operands)
    if not isinstance(predicate, Array) or predicate.shape or predicate.dtype.kind != "b":
        raise TypeError(f"{recording.user_line()}: the predicate of cond must be a 0-d boolean array")
    return _branch(predicate, then, otherwise, operands)


# --- loops ---------------------------------------------------------------------------------------

Trip = Callable[..., list[Any]]


def _names(state: Any) -> list[str]:
    return ["state" + tree.keystr(path) for path, _ in tree.tree_flatten_with_path(state)[0]]


def _flatten(result: Any, expected: Any, what: str) -> list[Any]:
    leaves, treedef = tree.tree_flatten(result)
    if treedef != expected:
        raise TypeError(
            f"{recording.user_line()}: the state of a {what} has the structure {expected}, and a trip returns {treedef}"
        )
    return leaves


def _integer(value: Any, name: str) -> ndarray:
    is_integer = isinstance(value, int | numpy.integer) and not isinstance(value, bool)
    array = value if isinstance(value, ndarray) else fill(value) if is_integer else None
    if array is None or array.shape or array.dtype.kind not in "iu":
        raise TypeError(f"{recording.user_line()}: {name} of fori_loop must be an integer, not {value!r}")
    return array


def _loop(
    frame: Frame, names: list[str], leaves: Sequence[Any], test: Callable[..., Any], trip: Trip, bound: ndarray | None
) -> list[Any]:
    """Record a loop; returns what its values are after it."""
    with recording.one_operation():
        values = [fill(x) if isinstance(x, bool) or (is_operand(x) and not isinstance(x, Array)) else x for x in leaves]
        while True:
            results, wider = _attempt(frame, names, values, test, trip, bound)
            if not wider:
                return results
            for n, dtype in wider.items():
                values[n] = copied(values[n], dtype)


def _attempt(
    frame: Frame, names: list[str], values: list[Any], test: Callable[..., Any], trip: Trip, bound: ndarray | None
) -> tuple[list[Any], dict[int, numpy.dtype]]:
    """Record a loop once.

    Returns its results; or, where scalars of the state have to be of another type before the first trip, these types,
    and nothing is recorded.
    """
    starts = [x if not isinstance(x, Array) or x.view.is_identity(x.store.shape) else copied(x) for x in values]
    inside = [type(x)(recording.new(x.shape, x.dtype), None, x.weak) if isinstance(x, Array) else x for x in values]
    for arrays, made in ((starts, False), (inside, True)):
        for array in arrays:
            if isinstance(array, Array):
                frame.use(array, made)
    with frame.recording():
        ours = {x.store.ir.id for x in inside if isinstance(x, Array)}
        predicate = _boolean(test(*inside), frame)
        frame.other_part()
        if frame.outer(frame.written(frame.start)) or ours & frame.written(frame.start):
            raise TracingError(f"{frame.name}: the condition updates an array; do that in the body")
        results = trip(*inside)
        wider = _wider(values, results)
        if wider:
            frame.discard()
            return [], wider
        written = frame.written(frame.middle)
        carried: list[Carried] = []
        same: dict[int, Store] = {}
        after: list[Any] = []
        taken: set[int] = set()
        for name, start, param, result in zip(names, starts, inside, results, strict=True):
            if not isinstance(param, Array):
                if result is not param and not (type(result) is type(param) and result == param):
                    raise TypeError(f"{frame.name}: {name} is {param!r}, which is no number, and a trip changes it")
                after.append(param)
                continue
            unchanged = isinstance(result, Array) and result.store is param.store
            unchanged = unchanged and result.view.is_identity(param.store.shape)
            if param.store.ir.id in written and not unchanged:
                raise TypeError(
                    f"{frame.name}: a trip updates {name} in place and returns another array for it; copy it before "
                    "the update"
                )
            if unchanged:
                # The array itself: what a trip does to it, it does to the array that was given.
                same[param.store.ir.id] = start.store.ir
                after.append(start)
                continue
            result = _like(param, result, name, frame)
            result = frame.settled(result, param.dtype, taken)
            carried.append(Carried(start.store.ir, param.store.ir, result.store.ir))
            after.append(param)
        written = {same[i].id if i in same else i for i in written}
        carried += [Carried(s, s, s) for s in frame.outer(written)]
    frame.rename(same)
    counter = inside[0].store.ir if bound is not None else None
    region = Loop(
        frame.start,
        frame.middle,
        len(frame.window.tasks),
        predicate.store.ir,
        frame.parent,
        frame.arm,
        frame.line,
        tuple(carried),
        counter,
        None if bound is None else frame.use(bound),
    )
    frame.close(region)
    for value, start, result in zip(values, starts, after, strict=True):
        if isinstance(value, Array) and result is start and start is not value and start.store.ir.id in written:
            core.write("copy", [start], value)  # the array that was given is a view
    return [
        value if result is start else result for value, start, result in zip(values, starts, after, strict=True)
    ], {}


def _boolean(value: Any, frame: Frame) -> Array:
    array = fill(value) if isinstance(value, bool | numpy.bool_) else value
    if not isinstance(array, Array) or array.shape or array.dtype.kind != "b":
        raise TypeError(f"{frame.name}: the condition must give a 0-d boolean array, not {value!r}")
    return array if array.view.is_identity(array.store.shape) else copied(array)


def _wider(values: list[Any], results: list[Any]) -> dict[int, numpy.dtype]:
    """Of Python scalars in the state that a trip turns into something more general: what."""
    found = {}
    for n, (value, result) in enumerate(zip(values, results, strict=True)):
        if not isinstance(value, Array) or value.weak is None:
            continue
        if isinstance(result, Array):
            weak, dtype = result.weak, result.dtype
        else:
            weak, dtype = type(result), recording.scalar_dtype(result)
        if weak is not value.weak:
            found[n] = numpy.result_type(value.dtype, dtype) if weak in (float, complex) else numpy.dtype(dtype)
    return found


def _like(before: Array, result: Any, name: str, frame: Frame) -> Array:
    """The result of a trip as an array.  Raises where it cannot stand for what the trip began with."""
    if not isinstance(result, Array) and not isinstance(result, bool) and not is_operand(result):
        raise TypeError(f"{frame.name}: {name} is an array, and a trip returns {result!r} for it")
    array = result if isinstance(result, Array) else fill(result)
    if array.shape != before.shape:
        raise ValueError(f"{frame.name}: {name} has the shape {before.shape}, and {array.shape} after a trip")
    if array.dtype != before.dtype and not (array.weak and numpy.can_cast(array.dtype, before.dtype, "same_kind")):
        raise TypeError(
            f"{frame.name}: {name} is {before.dtype}, and {array.dtype} after a trip; convert one with astype"
        )
    return array


# --- branches ------------------------------------------------------------------------------------


def _branch(predicate: Array, then: Callable[..., Any], otherwise: Callable[..., Any], operands: Sequence[Any]) -> Any:
    frame = Frame("cond")
    if not predicate.view.is_identity(predicate.store.shape):
        with recording.one_operation():
            predicate = copied(predicate)
    frame.use(predicate)
    with recording.one_operation(), frame.recording():
        one, treedef = tree.tree_flatten(then(*operands))
        taken: set[int] = set()
        first = [frame.settled(x, None, taken) if _is_value(x) else x for x in one]
        frame.other_part()
        changed = {s.id: s for s in frame.outer(frame.written(frame.start))}
        two, other_tree = tree.tree_flatten(otherwise(*operands))
        if bool(other_tree != treedef):  # type: ignore[operator]
            raise TypeError(f"{frame.name}: one branch returns {treedef}, the other {other_tree}")
        chosen: list[Chosen] = []
        results: list[Any] = []
        finals: list[Array] = []
        for n, (a, x) in enumerate(zip(first, two, strict=True)):
            if not isinstance(a, Array):
                if a is not x and not (type(a) is type(x) and a == x):
                    raise TypeError(f"{frame.name}: result {n} is {a!r} in one branch and {x!r} in the other")
                results.append(a)
                continue
            b = frame.settled(x, a.dtype, taken) if _is_value(x) else None
            original = x if isinstance(x, Array) else b
            if b is None or original is None or b.shape != a.shape or original.dtype != a.dtype:
                kinds = [f"{y.dtype}{y.shape}" if isinstance(y, Array) else repr(y) for y in (a, original)]
                raise TypeError(f"{frame.name}: result {n} is {kinds[0]} in one branch and {kinds[1]} in the other")
            final = type(a)(recording.new(a.shape, a.dtype))
            finals.append(final)
            chosen.append(Chosen(a.store.ir, b.store.ir, frame.use(final, made=True)))
            results.append(final)
        changed |= {s.id: s for s in frame.outer(frame.written(frame.start))}
        chosen += [Chosen(s, s, s) for s in changed.values()]
    place = (frame.start, frame.middle, len(frame.window.tasks), predicate.store.ir, frame.parent, frame.arm)
    frame.close(Branch(*place, frame.line, tuple(chosen)))
    return tree.tree_unflatten(treedef, results)


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, Array | bool) or is_operand(leaf)
