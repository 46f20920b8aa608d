"""Programs as text, and back: ``loads(dumps(p)) == p``, user lines included.

    operands float64
    store %0 float64[100, 100] live input [split(0, 2, 100), split(1, 2, 100)]
    store %1 float64[98, 98]
    store %2 float64[]
    write %1 = add[98, 98](%0[0:98, 1:99], $0)  # model.py:12
    write %0[1:99, 1:99] = copy[98, 98](%1)
    reduce(sum) %2 = sum[98, 98](%1, dtype='float64')
    loop [0, 1, 4] while %5 carries (%0 %0 %0, %6 %7 %8) counts %7 < %9  # model.py:11

A task names its launch domain after the operation.  Views read as NumPy's indexing, broadcast to that domain; where
the domain's axes are not in the order of the store's, each slice names its axis: ``%0[1@:, 0@2:9]``.  Inputs come
first, in the program's order.  Regions come last: where their two parts begin and end, and what they hand on (of a loop
``initial inside result``, of a branch ``first second final``); ``in 0:1`` is the second part of region 0.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from .partition import Partition, Pinned, Split, Spread
from .pattern import Pattern
from .program import Program
from .region import Loop, Region
from .store import Store
from .task import Access, IndexTask, Operand, Privilege
from .view import Axis, View

_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)


# --- printing ------------------------------------------------------------------------------------


def dumps(program: Program) -> str:
    """The program as text.  Programs that `verify` refuses are printed too."""
    return "\n".join(line for line, _ in lines(program)) + "\n"


def lines(program: Program) -> list[tuple[str, object]]:
    """The text line by line, each with what it shows: a `Store`, the number of a task or None."""
    found: list[tuple[str, object]] = []
    if program.operands:
        found.append(("operands " + ", ".join(_dtype(d) for d in program.operands), None))
    shown: dict[Store, None] = {}
    for store, partition in program.inputs:
        found.append((f"{_store(store, program)} input {format_partition(partition)}", store))
        shown[store] = None
    for task in program.tasks:
        for access in (*task.reads(), task.output):
            if access.store not in shown:
                found.append((_store(access.store, program), access.store))
                shown[access.store] = None
    for region in program.regions:
        for store in region.stores():
            if store not in shown:
                found.append((_store(store, program), store))
                shown[store] = None
    for id in sorted(program.live - {s.id for s in shown}):
        found.append((f"live %{id}", None))
    found.extend((format_task(task), t) for t, task in enumerate(program.tasks))
    found.extend((format_region(region), region) for region in program.regions)
    return found


def format_region(region: Region) -> str:
    """One region as one line."""
    loop = isinstance(region, Loop)
    text = f"{'loop' if loop else 'branch'} {_extents((region.start, region.middle, region.stop))}"
    text += f" {'while' if loop else 'on'} %{region.predicate.id}"
    if region.values():
        handed = (" ".join(f"%{s.id}" for s in value.stores()) for value in region.values())
        text += f" {'carries' if loop else 'leaves'} ({', '.join(handed)})"
    if isinstance(region, Loop) and region.counter is not None and region.bound is not None:
        text += f" counts %{region.counter.id} < %{region.bound.id}"
    if region.parent >= 0:
        text += f" in {region.parent}:{region.arm}"
    return f"{text}  # {_comment(region.line)}" if region.line else text


def format_task(task: IndexTask) -> str:
    """One task as one line."""
    arguments = [_access(i) if isinstance(i, Access) else f"${i.index}" for i in task.inputs]
    arguments += [f"{_name(key)}={_value(value)}" for key, value in task.params]
    out = task.output
    privilege = out.privilege.value + (f"({_name(out.reduction)})" if out.reduction is not None else "")
    text = f"{privilege} {format_view(out)} = {_name(task.op)}{_extents(task.shape)}({', '.join(arguments)})"
    return f"{text}  # {_comment(task.line)}" if task.line else text


def format_view(access: Access) -> str:
    """A store seen through a view, as NumPy's indexing."""
    view, shape = access.view, access.store.shape
    entries: list[str] = []
    sources = [a.source for a in view.axes if a.source is not None]
    plain = sources == sorted(sources) and all(a.source is not None or a.step == 1 for a in view.axes)
    following = sources[0] if plain and sources else len(view.shape)
    for a, n in zip(view.axes, shape, strict=True):
        if a.source is None:
            entries.append(str(a.offset) if a.step == 1 else f"None@{a.offset}::{a.step}")
            continue
        piece = _slice(a, view.shape[a.source], n)
        if plain:
            # A broadcast axis between two others; those before the first need no mention, as in NumPy.
            entries += ["None"] * (a.source - following)
            following = a.source + 1
        entries.append(piece if plain else f"{a.source}@{piece}")
    if plain:
        entries += ["None"] * (len(view.shape) - following)
    whole = all(e == ":" for e in entries) and len(entries) == len(shape)
    return f"%{access.store.id}" + ("" if whole else f"[{', '.join(entries)}]")


def format_partition(partition: Partition) -> str:
    """A partition as the list of its dimensions; ``[]`` where it is replicated."""
    return "[" + ", ".join(_dim(d) for d in partition.dims) + "]"


def _dim(d: Split | Pinned | Spread) -> str:
    match d:
        case Split(axis, parts, extent, 0, 1):
            return f"split({axis}, {parts}, {extent})"
        case Split(axis, parts, extent, offset, step):
            return f"split({axis}, {parts}, {extent}, {offset}, {step})"
        case Pinned(parts, extent, index):
            return f"pinned({parts}, {extent}, {index})"
        case Spread(parts):
            return f"spread({parts})"


def _access(access: Access) -> str:
    if access.privilege is Privilege.READ:
        return format_view(access)
    operator = f"({_name(access.reduction)})" if access.reduction is not None else ""
    return f"{access.privilege.value}{operator} {format_view(access)}"


def _slice(a: Axis, length: int, extent: int) -> str:
    if (a.offset, a.step, length) == (0, 1, extent):
        return ":"
    stop = stop_of(a, length)
    return f"{a.offset}:{'' if stop is None else stop}" + (f":{a.step}" if a.step != 1 else "")


def stop_of(a: Axis, length: int) -> int | None:
    """Where the slice of an axis stops; None where it runs backwards to the first element."""
    if length == 0:
        return a.offset
    stop = a.offset + a.step * (length - 1) + (1 if a.step > 0 else -1)
    return None if stop < 0 else stop


def _store(store: Store, program: Program) -> str:
    live = " live" if store.id in program.live else ""
    sparse = ""
    if store.pattern is not None:
        sparse = f" sparse({', '.join(map(str, (store.pattern.number, *(store.pattern.halo or ()))))})"
    return f"store %{store.id} {_dtype(store.dtype)}{_extents(store.shape)}{sparse}{live}"


def _extents(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _dtype(dtype: np.dtype) -> str:
    # The name leaves out the byte order and is not always understood.
    try:
        if _NAME.fullmatch(dtype.name) and np.dtype(dtype.name) == dtype:
            return dtype.name
    except TypeError:
        pass
    return repr(dtype.str)


def _name(name: str | None) -> str:
    return str(name) if _NAME.fullmatch(str(name)) else repr(name)


def _value(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ("," if len(value) == 1 else "") + ")"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return f"<{value!r}>"  # not to be read back, but programs that hold it can be shown


def _comment(line: str) -> str:
    plain = line.isprintable() and line == line.strip() and line[0] not in "'\""
    return line if plain else repr(line)


# --- reading -------------------------------------------------------------------------------------


def loads(text: str) -> Program:
    """The program of a text that `dumps` printed, or of one written by hand.

    Raises `ProgramError` with the number of the line that cannot be understood.
    """
    from .parse import Line, parse_partition, parse_region, parse_task

    operands: list[np.dtype] = []
    stores: dict[int, Store] = {}
    inputs: list[tuple[Store, Partition]] = []
    live: set[int] = set()
    tasks: list[IndexTask] = []
    regions: list[Region] = []
    for number, content in enumerate(text.split("\n"), 1):
        line = Line(number, content)
        if line.done():
            continue
        with line.located():
            match line.peek():
                case "operands":
                    line.take()
                    operands += line.separated(line.dtype)
                case "live":
                    line.take()
                    live |= set(line.separated(functools.partial(line.reference, "%")))
                case "store":
                    store = _read_store(line, stores, live)
                    if line.accept("input"):
                        inputs.append((store, parse_partition(line)))
                case "loop" | "branch":
                    regions.append(parse_region(line, stores))
                case _:
                    tasks.append(parse_task(line, stores))
            line.end()
    return Program(tuple(tasks), tuple(inputs), frozenset(live), tuple(operands), tuple(regions))


def _read_store(line: Any, stores: dict[int, Store], live: set[int]) -> Store:
    line.expect("store")
    id = line.reference("%")
    if id in stores:
        raise line.error(f"store %{id} is declared twice")
    dtype = line.dtype()
    extents, pattern = line.extents(), None
    if line.accept("sparse"):
        number, *halo = line.enclosed("(", ")", line.integer)
        if len(halo) not in (0, 2):
            raise line.error("expected the number of a pattern, and perhaps two widths")
        pattern = Pattern(number, (halo[0], halo[1]) if halo else None)
    stores[id] = Store(id, extents, dtype, pattern)
    if line.accept("live"):
        live.add(id)
    return stores[id]


__all__ = [
    "Operand",
    "View",
    "dumps",
    "format_partition",
    "format_region",
    "format_task",
    "format_view",
    "lines",
    "loads",
    "stop_of",
]
