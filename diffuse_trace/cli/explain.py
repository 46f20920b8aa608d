"""`diffuse explain`: how a jitted function of a script is fused."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from typing import Any

from ..errors import LaunchError
from ..runtime.bootstrap import run_target, user_traceback
from .run import _count

_EXAMPLES = """\
examples:
  diffuse explain script.py:step                      at the first call of `step`
  diffuse explain script.py:step -- --size 1000       the script gets arguments
  diffuse explain --ranks 4 script.py:step            the plan for four ranks, on this one process

The script runs, on one process, until it first calls the function. Exit code: 0 if the plan was printed, 1 if the
script failed or ended without that call.
"""


def add_parser(commands: Any) -> None:
    """Add this command to the subparsers of `diffuse`."""
    parser = commands.add_parser(
        "explain",
        help="show how a function is fused",
        description="Run a script up to the first call of a jitted function and print the function's plan:\n"
        "tasks, groups and why each ends where it does, exchanges, temporaries.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="diffuse explain [--ranks N] script.py:function [-- arguments ...]",
    )
    parser.add_argument("--ranks", type=_count, metavar="N", help="plan as for N ranks, without running them")
    parser.add_argument("target", metavar="script.py:function", help="the script, and the name of the function")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(handler=explain, prog=parser.prog)


def explain(options: argparse.Namespace) -> int:
    """Run the script until the function is called; its wrapper prints its plan and ends the script.

    Raises:
        LaunchError: the target does not name a script and a function.
    """
    script, colon, name = options.target.rpartition(":")
    if not (colon and script and all(part.isidentifier() for part in name.split("."))):
        raise LaunchError(f"{options.target!r} does not name a function: write script.py:function")
    if not Path(script).is_file():
        raise LaunchError(f"there is no script {script!r}")
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    from .. import explaining  # brings JAX: not for the other commands

    request = explaining.request_explanation(name, ranks=options.ranks)
    failed = False
    try:
        run_target([script, *arguments])
    except SystemExit as stop:
        failed = bool(stop.code)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except Exception as error:
        failed = True
        traceback.print_exception(error.with_traceback(user_traceback(error)))
    # Asked after the run, however that ended: the script may have caught the SystemExit.
    if request.met:
        return 0
    seen = dict.fromkeys(request.seen)  # once each, in the order of the first call
    ending = "failed before it called" if failed else "ended without a call of"
    listed = f"jitted functions that it called: {', '.join(seen)}" if seen else "it called no jitted function"
    print(f"diffuse explain: {script} {ending} {name}; {listed}", file=sys.stderr)
    return 1
