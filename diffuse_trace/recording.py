"""Recording: operations become index tasks in a window, which is run when a value is needed.

There is one path.  Outside ``jit`` the window is that of the process; ``jit`` records into a window of its own
(`tracing`).  Both go through the same planner, memo and executables.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from . import config
from .errors import TracingError
from .ir import Access, IndexTask, Operand, Privilege, Program, Region, Store, View
from .ir.rolling import Rolled, roll
from .ir.task import scalar_dtype
from .runtime import execute
from .runtime.stores import Data, LogicalStore
from .trips import Loop

Source = tuple[LogicalStore, View]
Runner = Callable[[Program, Mapping[int, Data], list[Any]], dict[int, Data]]

_HOME = str(Path(__file__).parent)


class Array:
    """A view of a logical store: the base of the libraries' array classes.

    ``weak`` is Python's ``bool``, ``int``, ``float`` or ``complex`` where a 0-d array stands for a scalar of that
    type, which takes part in promotion as such (NumPy 2's weak scalars); None for all others.
    """

    __slots__ = ("__weakref__", "store", "view", "weak")

    def __init__(self, store: LogicalStore, view: View | None = None, weak: type | None = None) -> None:
        self.store = store
        self.view = View.identity(store.shape) if view is None else view
        self.weak = weak

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.view.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.view.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.store.ir.dtype


class Unfinished:
    """Something that has a meaning only while a function is traced, and may not be returned from it."""

    def refuse(self) -> Exception:
        """The error that says so."""
        raise NotImplementedError


class Window:
    """Index tasks that wait to be run, what they read, and which stores were seen."""

    def __init__(self, tracing: str = "") -> None:
        self.tracing = tracing
        self.tasks: list[IndexTask] = []
        self.sites: list[int] = []
        self.first: dict[int, int] = {}  # site -> the first task recorded there
        self.operands: list[Any] = []
        self.sources: list[int] = []  # for each operand the argument that gives it, -1 for a value of the program
        self.literals: dict[Hashable, int] = {}  # values of a function that is traced -> their operands
        self.stores: dict[int, weakref.ref[LogicalStore]] = {}
        self.inputs: dict[int, Data] = {}
        self.head = 0  # where the iteration that is being recorded begins, once a loop has come round
        self.loops: dict[int, Loop] = {}  # by the site of the task at which they come round
        self.comes_round = 0  # the site of the latest of them
        self.kept: list[int] = []  # where its trips that are kept end
        self.atomic = 0
        self.constants: list[LogicalStore] = []
        self.regions: list[Region] = []
        self.dependencies: dict[int, tuple[Any, int]] = {}  # objects with a version that it depends on
        self.open: list[list[int]] = []  # the regions that are being recorded: number, part

    def add(self, task: IndexTask, site: int, stores: Sequence[LogicalStore]) -> None:
        """Append a task and note its stores, of which the last is written."""
        self.append(task, site)
        for store in stores:
            if store.ir.id not in self.stores:
                self.note(store, task.line, written=store is stores[-1])

    def note(self, store: LogicalStore, line: str, written: bool = False) -> None:
        """Take notice of a store; what has no data and is not ``written`` first holds anything."""
        if store.error:
            raise RuntimeError(f"{line}: an array is used whose computation failed: {store.error}")
        self.stores[store.ir.id] = weakref.ref(store)
        if store.data is None and not written:
            store.data = _unwritten(store)
        if store.data is not None:
            self.inputs[store.ir.id] = store.data

    def append(self, task: IndexTask, site: int) -> None:
        """Append a task whose stores are known."""
        self.first.setdefault(site, len(self.tasks))
        self.sites.append(site)
        self.tasks.append(task)

    def cut(self, site: int) -> None:
        """Run what is before a loop's latest iteration where the next one begins with a task at ``site``.

        The latest iteration stays: only when the next is over are the names that it binds again known to be dead, so
        that every iteration but the first gives the same program, with its temporaries recognised.  A loop that has
        come round often keeps its iterations, which then run as one loop.
        """
        if self.atomic or not self.tasks:
            return
        start = self.first.get(site)
        if start is not None and (start == 0 or start >= self.head):
            if start == 0 and self.head and self._keeps(site):
                self.kept.append(self.head)
                self.head = len(self.tasks)
                return
            # What was recorded before the loop goes first, then one iteration each time the loop comes round.
            self.run(start or self.head)
            self.head = len(self.tasks)
        elif len(self.tasks) - (self.head if self.kept else 0) >= config.get("window"):
            self.run()

    def _keeps(self, site: int) -> bool:
        """Whether the iteration before the latest one is kept."""
        if site not in self.loops:
            stores = {a.store.id: a.store for t in self.tasks[: self.head] for a in (*t.reads(), t.output)}
            lasting = [s for i, s in stores.items() if i in self.inputs or self._alive(i)]
            self.loops[site] = Loop.of(lasting, self.head)
        self.comes_round = site
        return self.loops[site].keeps(len(self.kept), len(self.tasks))

    def operand(self, value: Any, source: int = -1) -> Operand:
        """A scalar whose value is given when the window is run.

        While a function is traced equal literals are one operand: only then can it be seen what is computed twice.
        Elsewhere two values may be equal by chance, and another program would follow when they no longer are.
        """
        if self.tracing and source < 0:
            known = self.literals.setdefault((type(value), repr(value)), len(self.operands))
            if known < len(self.operands):
                return Operand(known)
        self.operands.append(value)
        self.sources.append(source)
        return Operand(len(self.operands) - 1)

    def meanings(self) -> list[Hashable]:
        """What each operand is: an argument, or a value.  Values are equal where code cannot tell them apart."""
        return [s if s >= 0 else (type(v), repr(v)) for v, s in zip(self.operands, self.sources, strict=True)]

    def program(self, count: int) -> Program:
        """The first ``count`` tasks as a program; live is what arrays or later tasks refer to."""
        tasks = tuple(self.tasks[:count])
        regions = tuple(r for r in self.regions if r.stop <= count and r.start < count)
        named = {a.store.id: a.store for t in tasks for a in (*t.reads(), t.output)}
        named.update((store.id, store) for r in regions for store in r.stores())
        later = {a.store.id for t in self.tasks[count:] for a in (*t.reads(), t.output)}
        later |= {store.id for r in self.regions[len(regions) :] for store in r.stores()}
        live = frozenset(i for i in named if i in later or self._alive(i))
        inputs = tuple((named[i], self.inputs[i].partition) for i in named if i in self.inputs)
        used = [i.index for t in tasks for i in t.inputs if isinstance(i, Operand)]
        operands = tuple(scalar_dtype(v) for v in self.operands[: max(used, default=-1) + 1])
        return Program(tasks, inputs, live, operands, regions)

    def _alive(self, id: int) -> bool:
        store = self.stores[id]()
        return store is not None and not store.error

    def run(self, count: int | None = None, runner: Runner | None = None) -> None:
        """Run the first ``count`` tasks (all, where it is not given)."""
        count = len(self.tasks) if count is None else count
        if not count:
            return
        program = self.program(count)
        kept, self.kept = self.kept, []
        if kept and runner is None:
            rolled = roll(program, self.meanings(), new_store)
            if not self.loops[self.comes_round].ran(len(kept), count, rolled) or rolled is None:
                for start, stop in pairwise((0, *kept, count)):
                    self._run(self.program(stop - start), execute.run)
                return
            runner = functools.partial(_run_rolled, rolled)
        self._run(program, runner or execute.run)

    def _run(self, program: Program, runner: Runner) -> None:
        count = len(program.tasks)
        rest = Window(self.tracing)
        rest.atomic, rest.constants, rest.loops = self.atomic, self.constants, self.loops
        try:
            results = runner(program, self.inputs, self.operands[: len(program.operands)])
            for id, data in results.items():
                store = self.stores[id]()
                if store is not None:
                    store.data = data
            for task, site in zip(self.tasks[count:], self.sites[count:], strict=True):
                rest.adopt(task, site, self, results)
            for region in self.regions[len(program.regions) :]:
                rest.adopt_region(region, count, len(program.regions), self, results)
        except BaseException as error:
            # The window is dropped; its results say so when they are read.
            for held in self.stores.values():
                store = held()
                if store is not None and store.data is None:
                    store.error = str(error) or type(error).__name__
            raise
        finally:
            self.__dict__.update(rest.__dict__)

    def adopt(self, task: IndexTask, site: int, other: Window, results: dict[int, Data]) -> None:
        """Take over a task of another window after the tasks before it have been run."""
        inputs = tuple(
            self.operand(other.operands[i.index], other.sources[i.index]) if isinstance(i, Operand) else i
            for i in task.inputs
        )
        self.append(IndexTask(task.op, task.shape, inputs, task.output, task.params, task.line), site)
        for access in (*task.reads(), task.output):
            self._adopt_store(access.store.id, other, results)

    def adopt_region(self, region: Region, tasks: int, regions: int, other: Window, results: dict[int, Data]) -> None:
        """Take over a region, which lies behind so many tasks and regions that have been run."""
        parent = region.parent - regions if region.parent >= 0 else -1
        start, middle, stop = (n - tasks for n in (region.start, region.middle, region.stop))
        self.regions.append(replace(region, parent=parent, start=start, middle=middle, stop=stop))
        for store in region.stores():
            self._adopt_store(store.id, other, results)

    def _adopt_store(self, id: int, other: Window, results: dict[int, Data]) -> None:
        if id not in self.stores:
            self.stores[id] = other.stores[id]
            data = results.get(id, other.inputs.get(id))
            if data is not None:
                self.inputs[id] = data


def _run_rolled(rolled: Rolled, _: Program, inputs: Mapping[int, Data], operands: list[Any]) -> dict[int, Data]:
    """Run a program in the form in which its trips are a loop."""
    return execute.run(rolled.program, inputs, rolled.given(operands))


_windows: list[Window] = [Window()]


def record(
    op: str,
    shape: tuple[int, ...],
    inputs: Sequence[Source | Any],
    output: Source,
    *,
    privilege: Privilege = Privilege.WRITE,
    reduction: str | None = None,
    **params: Any,
) -> None:
    """Record one index task over ``shape``.

    ``inputs`` are (store, view) pairs or scalars (Python's or NumPy's), which travel as operands; every view has the
    domain ``shape``.  With ``reduction`` the output is reduced into.  ``params`` are static and hashable.
    """
    if reduction is None and 0 in shape:
        return  # no points
    settle()
    window = _windows[-1]
    line, site = user_site()
    if not window.tracing:
        window.cut(site)
    accesses: list[Access | Operand] = []
    stores = []
    for i in inputs:
        if isinstance(i, tuple):
            accesses.append(Access(i[0].ir, i[1]))
            stores.append(i[0])
        else:
            accesses.append(window.operand(i))
    if reduction is not None:
        privilege = Privilege.REDUCE
    written = Access(output[0].ir, output[1], privilege, reduction)
    stores.append(output[0])
    task = IndexTask(op, shape, tuple(accesses), written, tuple(sorted(params.items())), line)
    window.add(task, site, stores)


@contextmanager
def one_operation() -> Iterator[None]:
    """Within the block the tasks of one library function are recorded: its own loops are not the user's."""
    window = _windows[-1]
    window.atomic += 1
    try:
        yield
    finally:
        window.atomic -= 1


def depend(thing: Any) -> None:
    """Note that what is being traced depends on the contents of an object that is no array.

    ``thing.__diffuse_version__`` is a number that each change of the contents raises.
    """
    window = _windows[-1]
    if window.tracing:
        window.dependencies.setdefault(id(thing), (thing, thing.__diffuse_version__))


def new(shape: tuple[int, ...], dtype: Any) -> LogicalStore:
    """A store without data; the first task that writes it decides where it lies."""
    return LogicalStore(tuple(map(int, shape)), np.dtype(dtype))


#: Runs the calls of a jitted function that have been put off (`batching.py`).
pending: Callable[[], None] | None = None


def settle() -> None:
    """Run what has been put off: done before anything else is recorded or looked at."""
    global pending
    if pending is not None:
        run, pending = pending, None
        run()


def new_store(shape: tuple[int, ...], dtype: Any) -> Store:
    """A store that no array will refer to."""
    return new(shape, dtype).ir


def flush() -> None:
    """Run everything that has been recorded.  Raises `TracingError` while a function is traced."""
    _refuse_tracing("run what has been recorded")
    settle()
    _windows[-1].run()


def ready(store: LogicalStore, why: str) -> Data:
    """The data of a store, once everything before has been run.  ``why`` names the operation that needs the value."""
    _refuse_tracing(why)
    settle()
    _windows[-1].run()
    if store.error:
        raise RuntimeError(f"{user_line()}: the array has no value, since its computation failed: {store.error}")
    if store.data is None:
        store.data = _unwritten(store)
    return store.data


def _unwritten(store: LogicalStore) -> Data:
    """Data for a store that nothing has ever been written to: what `empty` holds is not specified."""
    return execute.scatter(np.zeros(store.shape, store.dtype))


def fetch(store: LogicalStore, view: View, why: str = "the value of an array") -> np.ndarray:
    """The elements of a view as a NumPy array, on every rank (a collective)."""
    return execute.gather(store, ready(store, why), view, user_line())


def local(store: LogicalStore, view: View) -> np.ndarray:
    """This rank's block of a view, copied; no other rank takes part once the view has been computed."""
    return execute.local(store, ready(store, "this rank's block"), view)[0]


def owned(store: LogicalStore, data: Data, view: View) -> tuple[np.ndarray, tuple[tuple[int, int], ...]]:
    """This rank's block of a view and its interval along each axis; of copies the first rank has all, others
    nothing."""
    return execute.owned(store, data, view)


def from_host(array: np.ndarray) -> LogicalStore:
    """A store with the elements of a NumPy array that every rank holds whole; each keeps its block."""
    store = LogicalStore(array.shape, array.dtype)
    store.data = execute.scatter(array)
    if not tracing():
        return store
    # A constant of the traced function: each call starts from it, so what the function may change is a copy.
    copy, whole = new(array.shape, array.dtype), View.identity(array.shape)
    record("copy", array.shape, [(store, whole)], (copy, whole))
    _windows[-1].constants.append(store)
    return copy


#: The array class of the dense library, which sets it.
array_class: type[Array] = Array


def array_of(array: np.ndarray) -> Array:
    """A distributed array with the elements of a NumPy array."""
    return array_class(from_host(array))


def scalar(value: Any, argument: int) -> Array:
    """A 0-d array for a scalar argument of a traced function, whose value is given at each call."""
    window = _windows[-1]
    store = new((), scalar_dtype(value))
    access = Access(store.ir, View.identity(()))
    operand = window.operand(value, argument)
    written = Access(store.ir, access.view, Privilege.WRITE)
    window.add(IndexTask("fill", (), (operand,), written), argument, [store])
    weak = next((t for t in (int, float, complex) if type(value) is t), None)
    return array_class(store, access.view, weak)


def current() -> Window:
    """The window that operations are recorded into."""
    return _windows[-1]


def tracing() -> str:
    """The name of the function that is being traced; empty outside ``jit``."""
    return _windows[-1].tracing


@contextmanager
def trace_into(window: Window) -> Iterator[Window]:
    """Record into ``window`` within the block."""
    _windows.append(window)
    try:
        yield window
    finally:
        _windows.pop()


def _refuse_tracing(why: str) -> None:
    name = tracing()
    if name:
        raise TracingError(
            f"{user_line()}: {why} is needed while {name} is being traced, where arrays have no values yet. "
            "Keep the result as an array (np.where instead of if), read it outside the function, or name a scalar "
            f"argument that decides how it runs in static_argnames: @diffuse.jit(static_argnames=...)"
        )


# --- where the user's code is --------------------------------------------------------------------

_lines: dict[tuple[int, int], str] = {}
#: Of each code object met, by its address: itself, its number in order of appearance, and whether it is this package's.
#: It is held, since the address of a freed one may be that of another later: two places would be one, on some ranks
#: only, and these would cut their windows elsewhere.
_codes: dict[int, tuple[CodeType, int, bool]] = {}


def user_site() -> tuple[str, int]:
    """The user's line that led here, and a number for the place of each call on the stack.

    Two operations have the same number when the program has come round a loop, not when a function is called twice.
    """
    frame: FrameType | None = sys._getframe(1)
    line = ""
    site = 0
    while frame is not None:
        code = frame.f_code
        known = _codes.get(id(code))
        if known is None:
            known = code, len(_codes), code.co_filename.startswith((_HOME, "<frozen"))
            _codes[id(code)] = known
        _, number, inside = known
        if not inside and not line:
            key = (number, frame.f_lasti)
            line = _lines.get(key) or _lines.setdefault(key, f"{Path(code.co_filename).name}:{frame.f_lineno}")
        site = hash((site, number, frame.f_lasti))
        frame = frame.f_back
    return line, site


def user_line() -> str:
    """The user's line that led here."""
    return user_site()[0]
