"""`diffuse run`: a script or module on one process or on many ranks."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any

from .. import config
from ..errors import ConfigError, LaunchError
from ..runtime import bootstrap
from . import machine, mpi
from .job import run_job

_EXAMPLES = """\
examples:
  diffuse run script.py                             one process, no MPI needed
  diffuse run -n 4 script.py --steps 100            four ranks; what follows the script is the script's
  diffuse run -n 4 -m package.module --steps 100    a module, as with python -m
  diffuse run -n 4 --grid 4x1 --profile script.py   rows on four ranks, and a table of what took how long
  diffuse run --profile=FILE.json script.py         the same, kept for `diffuse report`
  diffuse run --trace FILE.json script.py           a timeline, a track for each rank
  diffuse run -n 2 --all-output script.py           what every rank prints, not rank 0 only

Ctrl-C ends all ranks, Ctrl-\\ shows where each of them is. The exit code is the script's: that of the first rank
that failed, 128 + n if a rank was killed by signal n, 2 if the job could not be started.

mpiexec -n 4 python script.py works too, and on several machines it is the way to go.
"""


def add_parser(commands: Any) -> None:
    """Add this command to the subparsers of `diffuse`."""
    parser = commands.add_parser(
        "run",
        help="run a script on MPI ranks",
        description="Run a script on one process or on many MPI ranks of this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="diffuse run [-n N] [options] script.py [arguments ...]\n"
        "       diffuse run [-n N] [options] -m module [arguments ...]",
    )
    parser.add_argument("-n", "-np", "--ranks", dest="ranks", type=_count, default=1, metavar="N", help="ranks (1)")
    parser.add_argument("--profile", action="store_true", help="print what was fused, exchanged and spent")
    parser.add_argument("--profile-file", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--trace", metavar="FILE", help="profile, and write a timeline that Perfetto opens")
    parser.add_argument("--check-finite", action="store_true", help="stop at the first task that makes NaN or infinity")
    parser.add_argument("--all-output", action="store_true", help="show the output of all ranks, as '[rank] line'")
    parser.add_argument("--grid", type=_setting("grid"), metavar="2x2", help="ranks along each axis (automatic)")
    parser.add_argument(
        "--timeout", type=_setting("timeout"), metavar="S", help="seconds a rank waits for another before it gives up"
    )
    parser.add_argument(
        "--threads", type=_setting("threads"), metavar="T", help="threads of a rank (cores / ranks, at least 1)"
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module; its arguments follow")
    parser.add_argument("script", nargs="?", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(handler=run, prog=parser.prog)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks: use a whole number from 1 up")
    return int(text)


def _setting(name: str) -> Any:
    """An argparse type that accepts what the setting accepts and gives the text for its variable."""

    def check(text: str) -> str:
        try:
            if config.SETTINGS[name].parse(text) is None:
                raise ValueError("a value")
        except ValueError as allowed:
            raise argparse.ArgumentTypeError(f"{text!r} is not understood: use {allowed}") from None
        return text

    return check


def run(options: argparse.Namespace) -> int:
    """Run what the options say and return the exit code; one process replaces this one and does not return.

    Raises:
        LaunchError: there is nothing to run, or no MPI to run it with.
        ConfigError: a setting is not understood, or the grid does not fit the number of ranks.
    """
    target = _target(options)
    for name, value in (("grid", options.grid), ("timeout", options.timeout), ("threads", options.threads)):
        if value is not None:
            os.environ[config.SETTINGS[name].env] = value
    for name, value in (("report", options.profile_file), ("trace", options.trace)):
        if value is not None:
            os.environ[config.SETTINGS[name].env] = _writable(value)
    if options.profile or options.profile_file is not None or options.trace is not None:
        os.environ[config.SETTINGS["profile"].env] = "1"
    if options.check_finite:
        os.environ[config.SETTINGS["check"].env] = "finite"
    _check_settings(options.ranks)
    if options.ranks == 1:
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *target], mpi.clean_environment())
    layout = _layout(options.ranks)
    launcher = mpi.find_launcher(mpi.library())
    environment = _environment(launcher, layout)
    # -P: nothing beside the bootstrap, or in the working directory, gets in the way of the standard library.
    start = [sys.executable, "-P", bootstrap.__file__, *target]
    return run_job([*mpi.command(launcher, layout), *start], environment, layout.ranks, options.all_output)


def _writable(path: str) -> str:
    """The path of a file that the run will write: refused now where it cannot be."""
    there = os.path.exists(path)
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise LaunchError(f"{path} cannot be written: {error.strerror}") from None
    if not there:
        os.remove(path)
    return os.path.abspath(path)


def _target(options: argparse.Namespace) -> list[str]:
    if options.module is not None:
        if not options.module:
            raise LaunchError("-m needs the name of a module")
        return ["-m", *options.module]
    if options.script is None:
        raise LaunchError("what shall run? Give a script, or -m and a module")
    if not Path(options.script).exists():
        raise LaunchError(f"there is no script {options.script!r}")
    return [options.script, *options.arguments]


def _check_settings(ranks: int) -> None:
    """Fail for what every rank would fail for; warn of variables that nothing reads."""
    config.reset()
    for name in config.SETTINGS:
        config.get(name)
    grid = config.get("grid")
    if grid is not None and math.prod(grid) != ranks:
        axes = "x".join(map(str, grid))
        raise ConfigError(f"the grid {axes} takes {math.prod(grid)} ranks, but -n is {ranks}")
    for mistake in config.mistakes():
        print(f"diffuse run: warning: {mistake}", file=sys.stderr)


def _layout(ranks: int) -> mpi.Layout:
    cores = machine.cores()
    threads = config.get("threads") or max(1, cores // ranks)
    bind = ranks * threads <= cores and not machine.restricted()
    return mpi.Layout(ranks, threads, bind, crowded=ranks > cores)


def _environment(launcher: mpi.Launcher, layout: mpi.Layout) -> dict[str, str]:
    """The environment of a job; what the user has set wins over what is set here."""
    chosen = mpi.variables(launcher) | {
        "DIFFUSE_THREADS": str(layout.threads),
        "OMP_NUM_THREADS": str(layout.threads),
        "PYTHONUNBUFFERED": "1",
    }
    if layout.crowded:
        chosen["DIFFUSE_YIELD"] = "1"
    given = {name: value for name, value in mpi.clean_environment().items() if value or name not in chosen}
    return chosen | given
