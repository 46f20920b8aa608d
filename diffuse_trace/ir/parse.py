"""Reading the text of programs: a cursor over one line, and what `text` needs to read from it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ..errors import ProgramError
from .partition import Partition, Pinned, Split, Spread
from .region import Branch, Carried, Chosen, Loop, Region
from .store import Store
from .task import Access, IndexTask, Operand, Privilege
from .view import Axis, View

T = TypeVar("T")

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_]\w*(?:\.\w+)*)|(?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<sign>[%$\[\](){},:@=#<>*+-]))",
    re.ASCII,
)


class Line:
    """A cursor over one line of a program's text."""

    def __init__(self, number: int, content: str) -> None:
        self.number, self.content, self.at = number, content, 0

    def peek(self) -> str:
        """The next token, without taking it; empty at the end."""
        found = _TOKEN.match(self.content, self.at)
        return found.group().strip() if found else self.content[self.at :].strip()[:1]

    def take(self) -> str:
        """The next token."""
        found = _TOKEN.match(self.content, self.at)
        if found is None:
            raise self.error(f"expected more after {self.content[: self.at].strip()!r}")
        self.at = found.end()
        return found.group().strip()

    def accept(self, token: str) -> bool:
        """Take the token if it comes next."""
        if self.peek() == token:
            self.take()
            return True
        return False

    def expect(self, token: str) -> None:
        """Take the token.  Raises `ProgramError` where another comes."""
        if not self.accept(token):
            raise self.error(f"expected {token!r}, found {self.peek() or 'the end of the line'!r}")

    def done(self) -> bool:
        """Whether nothing is left, or only a comment of its own."""
        return self.peek() in ("", "#")

    def end(self) -> None:
        """Raise `ProgramError` where something is left."""
        if not self.done():
            raise self.error(f"unexpected {self.peek()!r}")

    def error(self, what: str) -> ProgramError:
        """An error that names the line."""
        return ProgramError(f"line {self.number}: {what}")

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors of the IR's own checks within the block name the line."""
        try:
            yield
        except ProgramError as error:
            if str(error).startswith("line "):
                raise
            raise self.error(str(error)) from None
        except (ValueError, TypeError) as error:
            raise self.error(str(error)) from None

    # --- values ----------------------------------------------------------------------------------

    def integer(self) -> int:
        """A whole number."""
        token = self.take()
        try:
            return int(token)
        except ValueError:
            raise self.error(f"expected a whole number, found {token!r}") from None

    def name(self) -> str:
        """A name, quoted where it is not an identifier."""
        token = self.take()
        if token[:1] in ("'", '"'):
            return self.quoted(token)
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise self.error(f"expected a name, found {token!r}")
        return token

    def quoted(self, token: str) -> str:
        """What a quoted text says."""
        try:
            said = ast.literal_eval(token)
        except (ValueError, SyntaxError):
            said = None
        if not isinstance(said, str):
            raise self.error(f"expected a quoted text, found {token!r}")
        return said

    def dtype(self) -> np.dtype:
        """A dtype by name."""
        token = self.name()
        try:
            return np.dtype(token)
        except (TypeError, ValueError, SyntaxError):  # NumPy evaluates some of what it is given
            raise self.error(f"there is no dtype {token!r}") from None

    def reference(self, sign: str) -> int:
        """``%3`` or ``$3``."""
        self.expect(sign)
        return self.integer()

    def separated(self, read: Callable[[], T]) -> list[T]:
        """Values with commas between them."""
        values = [read()]
        while self.accept(","):
            values.append(read())
        return values

    def enclosed(self, opening: str, closing: str, read: Callable[[], T]) -> list[T]:
        """Values in brackets, none at all allowed."""
        self.expect(opening)
        values: list[T] = []
        while not self.accept(closing):
            values.append(read())
            if not self.accept(","):
                self.expect(closing)
                break
        return values

    def extents(self) -> tuple[int, ...]:
        """``[4, 5]``."""
        return tuple(self.enclosed("[", "]", self.integer))

    def value(self) -> Any:
        """A static parameter: a number, text, True, False, None or a tuple of such."""
        if self.peek() == "(":
            return tuple(self.enclosed("(", ")", self.value))
        token = self.take()
        if token in ("nan", "inf"):
            return math.nan if token == "nan" else math.inf
        if token == "-":
            return -self.value()
        try:
            return ast.literal_eval(token)
        except (ValueError, SyntaxError):
            raise self.error(f"expected a value, found {token!r}") from None


def parse_partition(line: Line) -> Partition:
    """``[split(0, 2, 100), spread(3)]``."""
    kinds: dict[str, Any] = {"split": Split, "pinned": Pinned, "spread": Spread}

    def dim() -> Any:
        kind = line.take()
        if kind not in kinds:
            raise line.error(f"expected split, pinned or spread, found {kind!r}")
        return kinds[kind](*line.enclosed("(", ")", line.integer))

    return Partition(tuple(line.enclosed("[", "]", dim)))


def parse_region(line: Line, stores: dict[int, Store]) -> Region:
    """``loop [0, 1, 4] while %5 carries (%6 %7 %8) counts %7 < %9 in 0:1  # user line``."""

    def store() -> Store:
        return _store(line, stores, line.reference("%"))

    loop = line.take() == "loop"
    extents = line.extents()
    if len(extents) != 3:
        raise line.error(f"expected three numbers of tasks, found {len(extents)}")
    line.expect("while" if loop else "on")
    predicate = store()
    handed: list[tuple[Store, Store, Store]] = []
    if line.accept("carries" if loop else "leaves"):
        handed = line.enclosed("(", ")", lambda: (store(), store(), store()))
    counter = bound = None
    if loop and line.accept("counts"):
        counter = store()
        line.expect("<")
        bound = store()
    parent, arm = -1, 0
    if line.accept("in"):
        parent = line.integer()
        line.expect(":")
        arm = line.integer()
    place = (*extents, predicate, parent, arm, parse_comment(line))
    if loop:
        return Loop(*place, tuple(Carried(*three) for three in handed), counter, bound)
    return Branch(*place, tuple(Chosen(*three) for three in handed))


def parse_comment(line: Line) -> str:
    """``# user line`` at the end; empty where there is none."""
    if not line.accept("#"):
        return ""
    rest = line.content[line.at :].strip()
    line.at = len(line.content)
    return line.quoted(rest) if rest[:1] in ("'", '"') else rest


def parse_task(line: Line, stores: dict[int, Store]) -> IndexTask:
    """``write %1[0:2] = add[2](%0, $0, name=value)  # user line``."""
    word = line.take()
    privileges = {p.value: p for p in Privilege}
    if word not in privileges:
        raise line.error(f"expected a store, a task or operands, found {word!r}")
    privilege = privileges[word]
    reduction = line.enclosed("(", ")", line.name)[0] if privilege is Privilege.REDUCE else None
    id = line.reference("%")
    output = _entries(line)
    line.expect("=")
    op = line.name()
    shape = line.extents()
    inputs: list[Access | Operand] = []
    params: list[tuple[str, Any]] = []

    def argument() -> None:
        token = line.peek()
        if token == "$":
            inputs.append(Operand(line.reference("$")))
        elif token == "%" or token in privileges:
            inputs.append(_input(line, stores, shape, privileges))
        else:
            name = line.name()
            line.expect("=")
            params.append((name, line.value()))

    line.enclosed("(", ")", argument)
    comment = parse_comment(line)
    written = Access(
        _store(line, stores, id), _view(line, output, stores[id].shape, shape, reduction), privilege, reduction
    )
    return IndexTask(op, shape, tuple(inputs), written, tuple(params), comment)


def _input(line: Line, stores: dict[int, Store], shape: tuple[int, ...], privileges: dict[str, Privilege]) -> Access:
    privilege, reduction = Privilege.READ, None
    if line.peek() != "%":
        privilege = privileges[line.take()]
        reduction = line.enclosed("(", ")", line.name)[0] if privilege is Privilege.REDUCE else None
    id = line.reference("%")
    store = _store(line, stores, id)
    return Access(store, _view(line, _entries(line), store.shape, shape, reduction), privilege, reduction)


def _store(line: Line, stores: dict[int, Store], id: int) -> Store:
    if id not in stores:
        raise line.error(f"store %{id} is not declared")
    return stores[id]


# --- views ---------------------------------------------------------------------------------------

Entry = tuple[str, Any, Any, Any, Any]  # kind, source, start, stop, step


def _entries(line: Line) -> list[Entry] | None:
    """What is between the brackets after a store; None where there are none."""
    return line.enclosed("[", "]", lambda: _entry(line)) if line.peek() == "[" else None


def _entry(line: Line) -> Entry:
    if line.accept("None"):
        if not line.accept("@"):
            return "new", None, None, None, None
        offset = line.integer()
        line.expect(":")
        line.expect(":")
        return "fixed", None, offset, None, line.integer()
    start = None if line.peek() == ":" else line.integer()
    source = None
    if start is not None and line.accept("@"):
        source = start
        start = None if line.peek() == ":" else line.integer()
    if not line.accept(":"):
        return "fixed", None, start, None, 1
    stop = line.integer() if line.peek() not in (":", ",", "]") else None
    step = 1
    if line.accept(":"):
        step = line.integer()
        if step == 0:
            raise line.error("expected a step other than 0")
    return "slice", source, start, stop, step


def _view(
    line: Line, entries: list[Entry] | None, extents: tuple[int, ...], shape: tuple[int, ...], reduction: str | None
) -> View:
    """The view of a store of ``extents`` that entries describe, with the domain ``shape``."""
    if entries is None:
        entries = [("slice", None, None, None, 1)] * len(extents)
    kept = [e for e in entries if e[0] != "new"]
    if len(kept) != len(extents):
        raise line.error(f"a store of {len(extents)} axes is indexed with {len(kept)}")
    named = any(e[1] is not None for e in kept)
    # Without names the domain's axes follow each other; broadcast axes before the first are not written.
    written = sum(e[0] != "fixed" for e in entries)
    following = len(shape) - written
    axes: list[Axis] = []
    for kind, source, start, stop, step in entries:
        if kind == "new":
            following += 1
            continue
        n = extents[len(axes)]
        if kind == "fixed":
            axes.append(Axis(None, start, step))
            continue
        if not named:
            source, following = following, following + 1
        if start is None:
            start = 0 if step > 0 else n - 1
        axes.append(Axis(source, start, step))
        if source is None or not 0 <= source < len(shape):
            raise line.error(f"axis {len(axes) - 1} of the store lies along no axis of the domain {list(shape)}")
        end = n if stop is None and step > 0 else -1 if stop is None else stop
        length = len(range(start, end, step))
        if length != shape[source]:
            raise line.error(f"a slice of {length} elements lies along a domain axis of {shape[source]}")
    return View(shape, tuple(axes))
