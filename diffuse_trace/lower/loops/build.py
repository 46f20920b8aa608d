"""The loops of a step: its tasks as bodies, bodies joined to loops, loops to a call.

What a loop computes of a temporary it computes at the points that need it, each value once.  Roots over the same points
share a loop, in which one may use what another has just made of the same point, without loading it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...fuse.plan import Plan
from ...ir import Access, IndexTask, Operand, View
from ..blocks import Piece, complement, image
from ..geometry import Region, shape_of
from ..kernels import kernel
from ..state import Key, State
from .body import Body, Box, Code, Fold, Loop, Place, Store, Value, Values
from .expressions import Unsupported, apply, converted, evaluate, holds
from .machine import caches, call

if TYPE_CHECKING:
    from ..compute import Compute

T = TypeVar("T")

#: Boxes that the points of a root may be cut into, where what it reads changes within them.
_PARTS = 12
#: A result is stored past the caches where so many like it are more than the caches hold.
_ARRAYS = 6

#: The index along an axis for each point of a root: (axis of the root or None, offset, step).
Index = tuple[int | None, int, int]


class _Another(Exception):
    """The loop has made what is needed now at other points: another loop must come."""


class _Cut(Exception):
    """What is read changes at an index along an axis."""

    def __init__(self, axis: int, at: int) -> None:
        self.axis, self.at = axis, at


def expressible(plan: Plan, tasks: Sequence[int]) -> bool:
    """Whether all tasks could be in loops, as far as their kernels and dtypes say."""
    return all(_expressible(plan.task(t), plan) for t in tasks)


def _expressible(task: IndexTask, plan: Plan) -> bool:
    dtypes = [
        np.dtype(plan.program.operands[i.index]) if isinstance(i, Operand) else i.store.dtype for i in task.inputs
    ]
    if not all(holds(d) for d in (*dtypes, task.output.store.dtype)):
        return False
    if any(a.store.pattern is not None for a in task.reads()):
        return False
    values = Values()
    args = [values.add(Value("load", d, (), Place(k, 0, (), ()))) for k, d in enumerate(dtypes)]
    try:
        if task.reduces:
            return _folds(task) and converted(args[0], task.output.store.dtype, values) >= 0
        apply(task, args, values)
    except Unsupported:
        return False
    return True


def _folds(task: IndexTask) -> bool:
    """Whether a task reduces all of its points to one value."""
    if any(a.source is not None for a in task.output.view.axes):
        return False
    return task.op in ("sum", "prod", "min", "max") or _dot(task)


def _dot(task: IndexTask) -> bool:
    """Whether a task adds the products of two arrays, element by element."""
    whole = [isinstance(a, Access) and not a.view.broadcast_axes() for a in task.inputs]
    return task.op == "contract" and all(whole) and task.output.store.dtype.kind in "iuf"


@dataclass
class _Array:
    """An array of a call: ``given`` (None: a new one); ``version`` is the one made in it last, over ``region``."""

    given: Any
    dtype: np.dtype
    region: Region
    written: bool = False
    version: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.region)


@dataclass
class _Open:
    """The loop that roots may still join, or the loops that are its parts: of each root the element that its points
    make, and its value in each part."""

    box: Box
    loops: list[Loop]
    made: dict[int, tuple[tuple[Index, ...], list[int]]] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)

    def value(self, version: int, at: tuple[Index, ...], values: Values) -> int | None:
        """The value of an element where the point that is computed has made it."""
        part = next((n for n, loop in enumerate(self.loops) if loop.main.values is values), None)
        if part is None or version not in self.made or self.made[version][0] != at:
            return None
        return self.made[version][1][part]


class Loops:
    """The roots of a step that one call computes, in program order."""

    def __init__(self, step: Compute, state: State) -> None:
        self.step, self.state, self.plan = step, state, step.plan
        self.arrays: list[_Array] = []
        self.places: dict[int, int] = {}  # of given arrays, by identity
        self.slots: dict[int, int] = {}
        self.made: dict[int, int] = {}  # version -> array
        self.loops: list[Loop] = []
        self.open: _Open | None = None
        self.roots: list[int] = []

    # --- what is read --------------------------------------------------------------------------

    def _array(self, given: Any, region: Region) -> int:
        """The number of an array that exists.

        ``region`` is what it is to hold in the end, if it is written: until then it may hold what lies elsewhere.
        """
        if id(given) not in self.places:
            dtype = np.dtype(given.dtype)
            if not holds(dtype):
                raise Unsupported(str(dtype))
            self.places[id(given)] = len(self.arrays)
            self.arrays.append(_Array(given, dtype, region))
        return self.places[id(given)]

    def _task(self, t: int, index: tuple[Index, ...], box: Box, values: Values) -> int:
        """The value of a task at its points ``index``."""
        task = self.plan.task(t)
        if _by_rows(task):
            return self._row(t, index, box, values)
        if task.reduces:
            raise Unsupported("a reduction within a loop")
        args = [self._input(t, k, index, box, values) for k in range(len(task.inputs))]
        return apply(task, args, values)

    def _row(self, t: int, index: tuple[Index, ...], box: Box, values: Values) -> int:
        """The value of a row of a product with a vector."""
        task, key = self.plan.task(t), self.step.source(t, 0)
        assert key is not None
        make = kernel(task.op).row
        row = make(self.state.pieces[key].array) if make is not None else None
        source, first, step = index[0]
        if row is None or source is None:
            raise Unsupported("a sparse product")
        given = []
        for array, begin, by in row.given:
            region = tuple((0, n) for n in array.shape)
            number, strides = self._array(array, region), [0] * len(box)
            strides[source] = by * step
            ends = [begin + by * (first + step * p) for p in (box[source][0], box[source][1] - 1)]
            if min(ends) < 0 or max(ends) >= math.prod(array.shape):
                raise Unsupported("elements that are not here")
            place = Place(number, begin + by * first, tuple(strides), region)
            given.append(values.add(Value("load", self.arrays[number].dtype, (), place)))
        kept, elements = [], []
        for k, shift in enumerate(row.shifts):
            if _within(source, first + shift, step, box, task.shape[1]):
                kept.append(k)
                column = (index[0], (source, first + shift, step))
                elements.append(self._input(t, 1, column, box, values))
        count, numbers = len(given), tuple(kept)
        return evaluate(lambda *a: row.make(numbers, a[:count], a[count:]), [*given, *elements], values)

    def _input(self, t: int, k: int, index: tuple[Index, ...], box: Box, values: Values) -> int:
        access = self.plan.task(t).inputs[k]
        if isinstance(access, Operand):
            vector, place = self.state.vectors[access.index]
            number = self._array(vector, ((0, vector.shape[0]),))
            here = Place(number, place, (0,) * len(box), ((place, place + 1),))
            return values.add(Value("load", self.arrays[number].dtype, (), here))
        key = self.step.source(t, k)
        assert key is not None
        if key.pattern is not None or access.store.pattern is not None:
            raise Unsupported("a sparse product")
        if key.view is None:
            return self._element(key.version, _elements(access.view, index), box, values)
        fixed = access.view.broadcast_axes()
        moved: tuple[Index, ...] = tuple((None, 0, 1) if d in fixed else i for d, i in enumerate(index))
        return self._load(self.state.pieces[key], moved, box, values)

    def _element(self, version: int, at: tuple[Index, ...], box: Box, values: Values) -> int:
        """An element of a version."""
        known = self.open.value(version, at, values) if self.open is not None else None
        if known is not None:
            return known
        if version in self.made:
            array = self.arrays[self.made[version]]
            if self.open is not None and self.made[version] in self.open.written:
                raise _Another
            if array.version != version:
                raise Unsupported("what has been overwritten")
            return self._load_from(self.made[version], array.region, at, box, values)
        t = self.step.producer.get(version)
        if t is None or version in self.step.roots:
            return self._load(self.state.pieces[Key(version)], at, box, values)
        inside = self._inside(t, at, box)
        if inside is not None:
            return self._task(t, inside, box, values)
        previous = self.plan.versions.all[version].previous
        if previous is None:
            raise Unsupported("elements that nobody has written")
        return self._element(previous, at, box, values)

    def _inside(self, t: int, at: tuple[Index, ...], box: Box) -> tuple[Index, ...] | None:
        """The points of a task that write an element; None where none does."""
        task = self.plan.task(t)
        index: list[Index] = [(None, 0, 1)] * len(task.shape)
        for axis, (source, offset, step) in zip(task.output.view.axes, at, strict=True):
            by = axis.step if axis.source is not None else 1
            if step % by and source is not None:
                raise Unsupported("a step")
            if (offset - axis.offset) % by:
                return None
            extent = 1 if axis.source is None else task.shape[axis.source]
            first, stride = (offset - axis.offset) // by, step // by
            if not _within(source, first, stride, box, extent):
                return None
            if axis.source is not None:
                index[axis.source] = (source, first, stride) if source is not None else (None, first, 1)
        return tuple(index)

    def _load(self, piece: Piece, at: tuple[Index, ...], box: Box, values: Values) -> int:
        return self._load_from(self._array(piece.array, piece.region), piece.region, at, box, values)

    def _load_from(self, number: int, region: Region, at: tuple[Index, ...], box: Box, values: Values) -> int:
        place = _place(number, region, at, box)
        return values.add(Value("load", self.arrays[number].dtype, (), place))

    # --- what is made --------------------------------------------------------------------------

    def add(self, root: int) -> None:
        """Add a root.  Raises `Unsupported`, and then nothing has changed."""
        t = self.step.producer[root]
        box = self.step.points(t)
        if box is None or any(low >= high for low, high in box):
            raise Unsupported("no points")
        box = (box[:1] if _by_rows(self.plan.task(t)) else box) or ((0, 1),)
        before = dict(self.places), list(self.arrays), dict(self.slots)
        try:
            if self.open is not None and self.open.box == box:
                try:
                    return self._join(root, t)
                except (_Another, _Cut):
                    self.places, self.arrays, self.slots = before[0], before[1], before[2]
                    before = dict(self.places), list(self.arrays), dict(self.slots)
            self._begin(root, t, box)
        except Unsupported:
            self.places, self.arrays, self.slots = before
            raise

    def _join(self, root: int, t: int) -> None:
        """Add a root to the open loop, or to each of its parts."""
        assert self.open is not None
        box, loops = self.open.box, self.open.loops
        whole = len(loops) == 1
        added = []
        try:
            for loop in loops:
                added.append(self._root(root, t, Body(loop.main.box, loop.main.values, [], []), loops, whole))
        except Unsupported:
            if whole:
                raise
            raise _Another from None
        if whole:
            made, *rest = added[0]
            first = [body for body in rest if body.box[:-1] != box[:-1]]
            if any(load.array == body.stores[0].place.array for body in first for load in _loads(loops[0])):
                raise _Another
            loops[0].beside += [body for body in rest if body not in first]
            self.loops[-1:-1] = [Loop(body, []) for body in first]
        for loop, (made, *_) in zip(loops, added, strict=True):
            loop.main.stores += made.stores
            loop.main.folds += made.folds
        self._committed(root, t, [made for made, *_ in added])

    def _begin(self, root: int, t: int, box: Box) -> None:
        """Add a root with a loop of its own; of several where what it reads changes within its points."""
        was, self.open = self.open, None
        try:
            done = _parts(box, lambda part: self._root(root, t, Body(part, Values(), [], []), (), part == box))
        except BaseException:
            self.open = was
            raise
        beside: list[Body] = []
        if len(done) == 1:
            beside = done[0][1:]
            self.loops += [Loop(b, []) for b in beside if b.box[:-1] != box[:-1]]
        loops = [Loop(bodies[0], [b for b in beside if b.box[:-1] == box[:-1]]) for bodies in done]
        self.loops += loops
        self.open = _Open(box, loops)
        self._committed(root, t, [bodies[0] for bodies in done])

    def _committed(self, root: int, t: int, made: Sequence[Body]) -> None:
        task = self.plan.task(t)
        body, folded = made[0], task.reduces and not _by_rows(task)
        number = body.folds[-1].array if folded else body.stores[-1].place.array
        self.arrays[number].written, self.arrays[number].version = True, root
        self.made[root] = number
        self.roots.append(root)
        assert self.open is not None
        self.open.written.add(number)
        if not folded:
            values = [b.stores[-1].value for b in made]
            self.open.made[root] = _elements(task.output.view, _identity(len(task.shape))), values

    def _root(self, root: int, t: int, body: Body, loops: Sequence[Loop], whole: bool = True) -> list[Body]:
        """The body of a root, or a part of it, and what is beside; ``loops`` are those that it joins."""
        task = self.plan.task(t)
        identity = _identity(len(task.shape))
        if task.reduces and not _by_rows(task):
            return [self._fold(root, t, body)]
        value = self._task(t, identity, body.box, body.values)
        points = self.step.points(t)
        assert points is not None
        elements = _elements(task.output.view, identity)
        target = image(task.output.view, points)
        previous = self.plan.versions.all[root].previous
        number, in_place = self._target(root, t, target)
        array = self.arrays[number]
        if any(step != 1 for _, _, step in target) and not in_place:
            raise Unsupported("a step")
        place = _place(number, array.region, elements, body.box)
        if not task.shape:
            place = Place(number, place.offset, (1,), place.reach)
        if place.strides[-1] < 1 or place.strides[-1] > 4:
            raise Unsupported("a store across rows")
        self._check_hazards(body.values.loads([value]), loops, place)
        large = math.prod(array.shape) * array.dtype.itemsize * _ARRAYS > caches() and place.strides[-1] == 1
        body.stores.append(Store(place, value, large))
        bodies = [body]
        if previous is not None and not in_place and whole:
            region = tuple((low, high) for low, high, _ in target)
            shift = [0] * len(region)
            for k, axis in enumerate(task.output.view.axes):
                if axis.source == k and axis.step == 1:
                    shift[k] = axis.offset
            for rest in complement(region, self.step.geometry.of(task.output.store).block):
                box = tuple((low - s, high - s) for (low, high), s in zip(rest, shift, strict=True))
                for copy in _parts(box, lambda part: self._copy(previous, number, part, shift)):
                    self._check_hazards(copy.loads(), loops, copy.stores[0].place)
                    bodies.append(copy)
        elif previous is not None and not in_place:
            raise Unsupported("parts of an update")
        return bodies

    def _copy(self, version: int, number: int, box: Box, shift: Sequence[int]) -> Body:
        """A body that copies elements of a version as they are: those ``shift`` beyond the points."""
        at: tuple[Index, ...] = tuple((k, s, 1) for k, s in enumerate(shift))
        values = Values()
        value = self._element(version, at, box, values)
        return Body(box, values, [Store(_place(number, self.arrays[number].region, at, box), value)], [])

    def _fold(self, root: int, t: int, body: Body) -> Body:
        task = self.plan.task(t)
        if not _folds(task) or root in self.step.slots:
            raise Unsupported("a reduction along axes")
        dtype, operator = task.output.store.dtype, "sum" if _dot(task) else task.op
        inputs = range(len(task.inputs))
        factors = [self._input(t, k, _identity(len(task.shape)), body.box, body.values) for k in inputs]
        factors = [converted(f, dtype, body.values) for f in factors]
        value = factors[0] if len(factors) == 1 else body.values.add(Value("mul", dtype, tuple(factors)))
        region = tuple((low, high) for low, high, _ in image(task.output.view, ((0, 1),) * len(task.shape)))
        number = self._new(root)
        more = number is not None
        if number is None:
            number = len(self.arrays)
            self.arrays.append(_Array(None, dtype, region, version=-root - 1))
        body.folds.append(Fold(number, operator, value, dtype, more))
        return body

    def _new(self, root: int) -> int | None:
        """The new array in which other parts of a root are made."""
        return next((n for n, a in enumerate(self.arrays) if a.version == -root - 1), None)

    def _target(self, root: int, t: int, target: Sequence[tuple[int, int, int]]) -> tuple[int, bool]:
        """The array in which a root is made, and whether that holds its old elements."""
        task = self.plan.task(t)
        layout = self.step.geometry.of(task.output.store)
        previous = self.plan.versions.all[root].previous
        slot, in_place = self.step.slots.get(root, (-1, False))
        if slot >= 0:
            number = self.slots.get(slot)
            if number is None:
                number = self._array(self.state.slots[slot], layout.buffer)
                self.arrays[number] = replace(self.arrays[number], region=layout.buffer)
                self.slots[slot] = number
            if in_place and previous is not None:
                held = self.made.get(previous)
                if held is None:
                    piece = self.state.pieces.get(Key(previous))
                    held = None if piece is None else self.places.get(id(piece.array))
                if held != number:
                    raise Unsupported("old elements that are elsewhere")
            return number, in_place and previous is not None
        known = self._new(root)
        if known is None:
            region = layout.buffer if previous is not None else tuple((low, high) for low, high, _ in target)
            known = len(self.arrays)
            self.arrays.append(_Array(None, task.output.store.dtype, region, version=-root - 1))
        return known, False

    @staticmethod
    def _check_hazards(loads: Sequence[Place], loops: Sequence[Loop], place: Place) -> None:
        """No point may change what another reads after it."""
        for read in (*loads, *(load for loop in loops for load in _loads(loop))):
            if read.array != place.array or (read.offset, read.strides) == (place.offset, place.strides):
                continue
            if all(a < d and c < b for (a, b), (c, d) in zip(read.reach, place.reach, strict=True)):
                if not loops:
                    raise Unsupported("an update of what is read beside")
                raise _Another

    # --- the call ------------------------------------------------------------------------------

    def finish(self) -> None:
        """Trace the call, if there is anything to compute."""
        if not self.roots:
            return
        state = self.state
        self._leave_out()
        _keep_near(self.loops)
        used = {p.array for loop in self.loops for b in loop.bodies() for p in _places(b)}
        order = sorted(used)
        renumbered = {number: n for n, number in enumerate(order)}
        arrays = [self.arrays[n] for n in order]
        code = Code(
            [(a.dtype, a.shape) for a in arrays],
            [_renumbered(loop, renumbered) for loop in self.loops],
            [n for n, a in enumerate(arrays) if a.given is not None],
            [n for n, a in enumerate(arrays) if a.written],
        )
        after = state.readers_done({s for s, n in self.slots.items() if n in used})
        state.ticket, made = call(code, [arrays[n].given for n in code.given], after)
        outputs = {order[n]: array for n, array in zip(code.results, made, strict=True)}
        # What is overwritten must not be used again to see whether it is over: what is made there is after it.
        lost = {id(a.given): Key(a.version) for a in arrays if a.written and a.given is not None and a.version}
        for keys in state.readers.values():
            keys[:] = [lost.get(id(state.pieces[key].array), key) for key in keys]
        for slot, number in self.slots.items():
            if number in outputs:
                state.slots[slot] = outputs[number]
        for root in self.roots:
            number = self.made[root]
            if number in outputs and self.arrays[number].version == root:
                piece = Piece(outputs[number], self.arrays[number].region)
                state.pieces[Key(root)] = piece
                state.in_memory.add(Key(root))

    def _leave_out(self) -> None:
        """Do not store what only this call needs and nothing loads."""
        loaded = {p.array for loop in self.loops for p in _loads(loop)}
        later = [root for root in self.step.roots if root not in self.roots]
        if later:
            return
        for root in self.roots:
            number = self.made[root]
            if root in self.step.stored and root not in self.step.slots and number not in loaded:
                for loop in self.loops:
                    for body in loop.bodies():
                        body.stores[:] = [s for s in body.stores if s.place.array != number]
        self.loops[:] = [loop for loop in self.loops if any(b.stores or b.folds for b in loop.bodies())]


def _by_rows(task: IndexTask) -> bool:
    """Whether a task multiplies a matrix with a vector, and its kernel says what a row is."""
    axes = task.output.view.axes
    return kernel(task.op).row is not None and len(axes) == 1 and axes[0].source == 0


def _within(source: int | None, first: int, step: int, box: Box, extent: int) -> bool:
    """Whether indices along an axis, ``first + step * p`` for the points of a box, are below an extent.

    Raises `_Cut` where some are.
    """
    low, high = (0, 1) if source is None else box[source]
    ends = sorted((first + step * low, first + step * (high - 1))) if source is not None else (first, first)
    if ends[1] < 0 or ends[0] >= extent:
        return False
    if ends[0] < 0 or ends[1] >= extent:
        assert source is not None
        cuts = [math.ceil(-first / step), math.ceil((extent - first) / step)]
        cuts += [math.floor(-first / step) + 1, math.floor((extent - first) / step) + 1]
        raise _Cut(source, next(c for c in cuts if low < c < high))
    return True


def _parts(box: Box, make: Callable[[Box], T]) -> list[T]:
    """What ``make`` gives for a box, or for its parts where what is read changes within it."""
    pending: list[Box] = [box]
    done: list[T] = []
    while pending:
        part = pending.pop()
        if len(pending) + len(done) > _PARTS:
            raise Unsupported("many parts")
        try:
            done.append(make(part))
        except _Cut as cut:
            low, high = part[cut.axis]
            for ends in ((low, cut.at), (cut.at, high)):
                pending.append((*part[: cut.axis], ends, *part[cut.axis + 1 :]))
    return done


def _keep_near(loops: Sequence[Loop]) -> None:
    """Do not store past the caches what a later loop reads."""
    read: set[int] = set()
    for loop in reversed(loops):
        for body in loop.bodies():
            body.stores[:] = [replace(s, past=s.past and s.place.array not in read) for s in body.stores]
        read |= {place.array for place in _loads(loop)}


def _identity(ndim: int) -> tuple[Index, ...]:
    return tuple((d, 0, 1) for d in range(ndim))


def _elements(view: View, index: tuple[Index, ...]) -> tuple[Index, ...]:
    """The element that a view names, for each point."""
    result: list[Index] = []
    for a in view.axes:
        if a.source is None:
            result.append((None, a.offset, 1))
            continue
        source, offset, step = index[a.source]
        result.append((source, a.offset + a.step * offset, a.step * step if source is not None else 1))
    return tuple(result)


def _reach(at: tuple[Index, ...], box: Box) -> Box:
    """The elements that the points of a box name."""
    result = []
    for source, offset, step in at:
        low, high = (0, 1) if source is None else box[source]
        ends = (offset, offset) if source is None else sorted((offset + step * low, offset + step * (high - 1)))
        result.append((ends[0], ends[1] + 1))
    return tuple(result)


def _place(number: int, region: Region, at: tuple[Index, ...], box: Box) -> Place:
    """The elements that the points of a box name, in an array that lies over ``region``."""
    reach = _reach(at, box)
    if any(low < first or high > last for (low, high), (first, last) in zip(reach, region, strict=True)):
        raise Unsupported("elements that are not here")
    strides, pitch, offset = [0] * len(box), 1, 0
    for (source, start, step), (first, last) in reversed(list(zip(at, region, strict=True))):
        offset += (start - first) * pitch
        if source is not None:
            strides[source] += step * pitch
        pitch *= last - first
    inside = tuple((low - first, high - first) for (low, high), (first, _) in zip(reach, region, strict=True))
    return Place(number, offset, tuple(strides), inside)


def _places(body: Body) -> list[Place]:
    stores = [s.place for s in body.stores]
    folds = [Place(f.array, 0, (), ()) for f in body.folds]
    return [*body.loads(), *stores, *folds]


def _loads(loop: Loop) -> list[Place]:
    return [place for body in loop.bodies() for place in body.loads()]


def _renumbered(loop: Loop, numbers: dict[int, int]) -> Loop:
    """A loop whose arrays have other numbers."""

    def moved(place: Place) -> Place:
        return Place(numbers[place.array], place.offset, place.strides, place.reach)

    def body(b: Body) -> Body:
        values = Values()
        number: dict[int, int] = {}
        for n in b.values.needed(b.results()):
            v = b.values.all[n]
            args = tuple(number[a] for a in v.args)
            number[n] = values.add(Value(v.op, v.dtype, args, moved(v.extra) if v.op == "load" else v.extra))
        stores = [Store(moved(s.place), number[s.value], s.past) for s in b.stores]
        folds = [replace(f, array=numbers[f.array], value=number[f.value]) for f in b.folds]
        return Body(b.box, values, stores, folds)

    return Loop(body(loop.main), [body(b) for b in loop.beside])
