"""Every setting of the package, declared once.

A setting is an environment variable with a default.  It is read and parsed when it is first asked
for, then kept: `get` is a dictionary look-up.  Tests change settings with `override`.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError

# Variables that belong to the package but that no user sets.
_INTERNAL = ("DIFFUSE_RUN_DIR", "DIFFUSE_TEST_")


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: the name that `get` and `override` take.
        env: the environment variable.
        default: the text that stands for an unset or empty variable; it goes through `parse` too.
        parse: turns the text into the value; its ValueError says which texts are allowed.
        changes_code: whether the value changes what is compiled, so that plans must not be shared.
        doc: one line for `diffuse env`.
    """

    name: str
    env: str
    default: str
    parse: Callable[[str], Any]
    changes_code: bool
    doc: str


@dataclass(frozen=True)
class Row:
    """One line of the table that `diffuse env` prints; `source` is default, environment or override."""

    setting: Setting
    value: str
    source: str


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{', '.join(allowed[:-1])} or {allowed[-1]}")
        return text

    return parse


def _flag(text: str) -> bool:
    value = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}.get(text.lower())
    if value is None:
        raise ValueError("1 or 0")
    return value


def _whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # int() also takes signs, underscores and blanks: a setting is plain digits.
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise ValueError(f"a whole number from {least} up")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError("a number of seconds above 0")
    return value


def _grid(text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    parts = text.lower().split("x")
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError("ranks along each axis, as in 4 or 2x2, or nothing for an automatic grid")
    return tuple(map(int, parts))


def _threads(text: str) -> int | None:
    if not text:
        return None
    try:
        return _whole(1)(text)
    except ValueError as error:
        raise ValueError(f"{error}, or nothing for cores / ranks") from None


_SETTINGS = (
    Setting("fuse", "DIFFUSE_FUSE", "1", _choice("1", "paper", "0"), True, "fusion: all, the paper's rules, none"),
    Setting("grid", "DIFFUSE_GRID", "", _grid, True, "ranks along each axis, as in 2x2; empty is automatic"),
    Setting("halo", "DIFFUSE_HALO", "1", _whole(0), True, "ghost width of new arrays"),
    Setting("max_halo", "DIFFUSE_MAX_HALO", "16", _whole(0), True, "widest ghost region that an array may grow to"),
    Setting("window", "DIFFUSE_WINDOW", "256", _whole(1), False, "most tasks recorded before they run"),
    Setting("batch", "DIFFUSE_BATCH", "1000", _whole(0), False, "most calls or trips run as one loop; 0: none"),
    Setting("max_traces", "DIFFUSE_MAX_TRACES", "64", _whole(1), False, "most traces of one jitted function"),
    Setting("timeout", "DIFFUSE_TIMEOUT", "600", _seconds, False, "seconds that a rank waits for another"),
    Setting("loops", "DIFFUSE_LOOPS", "1", _flag, True, "compile simple loops ourselves on a CPU; 0: XLA does"),
    Setting("threads", "DIFFUSE_THREADS", "", _threads, False, "XLA threads of a rank; empty is cores / ranks"),
    Setting("mpi", "DIFFUSE_MPI", "auto", _choice("auto", "0", "1"), False, "use MPI; auto: when launched under it"),
    Setting("shared", "DIFFUSE_SHARED", "1", _flag, False, "short messages in a node through shared memory, not MPI"),
    Setting("yield", "DIFFUSE_YIELD", "auto", _choice("auto", "0", "1"), False, "give up the core while waiting"),
    Setting("profile", "DIFFUSE_PROFILE", "0", _flag, True, "time each group and exchange, print a table"),
    Setting("report", "DIFFUSE_REPORT", "", str, False, "file for the profile, as JSON"),
    Setting("trace", "DIFFUSE_TRACE", "", str, False, "file for a timeline of the profiled run"),
    Setting("check", "DIFFUSE_CHECK", "", _choice("", "finite"), True, "finite: find the first NaN or infinity"),
    Setting("cache", "DIFFUSE_CACHE", "1", str, False, "folder for compiled code; 1: the user's cache, 0: none"),
    Setting("verify", "DIFFUSE_VERIFY", "0", _flag, False, "check the IR between passes"),
)

#: All settings by name, in the order in which `diffuse env` shows them.
SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _SETTINGS}

_overrides: dict[str, str] = {}
_cache: dict[str, Any] = {}


def get(name: str) -> Any:
    """The value of a setting.

    Raises:
        ConfigError: the variable holds something else than its setting allows, or there is no such setting.
    """
    try:
        return _cache[name]
    except KeyError:
        value = _cache[name] = _read(name)
        return value


def code_key() -> tuple[Any, ...]:
    """The values of all settings that change compiled code: a part of every memo key.

    The same object until a setting is changed, so that callers may compare by identity.
    """
    key = _cache.get("")
    if key is None:
        key = tuple(get(name) for name, setting in SETTINGS.items() if setting.changes_code)
        _cache[""] = key
    return key


@contextlib.contextmanager
def override(**values: Any) -> Iterator[None]:
    """Within the block the named settings have these values: ``with override(fuse="0", grid=(2, 2))``.

    None gives the default.  The environment is read again on entry and on leaving.
    """
    before = dict(_overrides)
    try:
        for name, value in values.items():
            _overrides[_known(name).name] = _text(value)
        _cache.clear()
        for name in values:
            get(name)
        yield
    finally:
        _overrides.clear()
        _overrides.update(before)
        _cache.clear()


def reset() -> None:
    """Forget the values read so far: for code that has changed the environment."""
    _cache.clear()


def table() -> list[Row]:
    """The settings with their present values; a value that cannot be understood is shown as it stands."""
    return [Row(setting, *_raw(setting)) for setting in SETTINGS.values()]


def mistakes() -> list[str]:
    """What is wrong with the environment: values not understood, and variables that look like a setting."""
    found = []
    for name in SETTINGS:
        try:
            _read(name)
        except ConfigError as error:
            found.append(str(error))
    names = [setting.env for setting in SETTINGS.values()]
    for variable in sorted(os.environ):
        if variable.startswith("DIFFUSE_") and variable not in names and not variable.startswith(_INTERNAL):
            # All names begin alike: compare what follows.
            prefix = len("DIFFUSE_")
            near = [
                "DIFFUSE_" + n for n in difflib.get_close_matches(variable[prefix:], [n[prefix:] for n in names], 1)
            ]
            found.append(f"{variable} is not a setting" + (f"; do you mean {near[0]}?" if near else ""))
    return found


def _known(name: str) -> Setting:
    try:
        return SETTINGS[name]
    except KeyError:
        raise ConfigError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}") from None


def _raw(setting: Setting) -> tuple[str, str]:
    """The text of a setting and where it comes from."""
    for text, source in ((_overrides.get(setting.name), "override"), (os.environ.get(setting.env), "environment")):
        # An empty variable is as good as none, so that `DIFFUSE_GRID= diffuse run ...` clears one.
        if text is not None and text.strip():
            return text.strip(), source
        if text is not None and source == "override":
            return setting.default, source
    return setting.default, "default"


def _read(name: str) -> Any:
    setting = _known(name)
    text, _ = _raw(setting)
    try:
        return setting.parse(text)
    except ValueError as allowed:
        raise ConfigError(f"{setting.env}={text!r} is not understood: use {allowed}") from None


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, tuple | list):
        return "x".join(map(str, value))
    return str(value)
