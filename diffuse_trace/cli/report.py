"""`diffuse report`: a profile that was kept, or the difference of two."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import LaunchError
from ..report import Report, compare, render

_EXAMPLES = """\
examples:
  diffuse run --profile=new.json script.py        profile a run and keep the report
  diffuse report new.json                         print it again
  diffuse report new.json --against old.json      the times of each plan, old and new
"""


def add_parser(commands: Any) -> None:
    """Add this command to the subparsers of `diffuse`."""
    parser = commands.add_parser(
        "report",
        help="print a kept profile, or compare two",
        description="Print the report of a profiled run again, or what differs between two runs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", help="what `diffuse run --profile=FILE` wrote")
    parser.add_argument("--against", metavar="OTHER", help="an earlier report to compare with")
    parser.set_defaults(handler=report, prog=parser.prog)


def report(options: argparse.Namespace) -> int:
    """Print what the options ask for.  Raises `LaunchError` where a file is missing or holds no report."""
    new = _load(options.file)
    text = render(new) if options.against is None else compare(new, _load(options.against))
    print(text, end="")
    return 0


def _load(path: str) -> Report:
    try:
        return Report.load(path)
    except OSError as error:
        raise LaunchError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise LaunchError(str(error)) from None
