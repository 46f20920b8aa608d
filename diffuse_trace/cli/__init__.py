"""The command `diffuse`: run, explain, report, env."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import ConfigError, LaunchError
from . import env, explain, report, run
from .machine import versions

_EXAMPLES = """\
examples:
  diffuse run -n 4 script.py --steps 100       on four MPI ranks
  diffuse run -n 4 --profile script.py         and print what was fused, exchanged and spent
  diffuse explain script.py:step -- --steps 1  how the function `step` is fused
  diffuse report new.json --against old.json   what differs between two profiled runs
  diffuse env                                  versions, MPI, devices, settings and what is wrong with them
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; each subcommand sets `handler`."""
    top = argparse.ArgumentParser(
        prog="diffuse",
        description="Runs NumPy-style programs, fused, on one process or on many MPI ranks.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"diffuse-trace {versions()['diffuse_trace']}")
    commands = top.add_subparsers(title="commands", metavar="command", required=True)
    for module in (run, explain, report, env):
        module.add_parser(commands)
    return top


def _spelled(argv: list[str]) -> list[str]:
    """``--profile=FILE`` in a form in which ``--profile`` alone does not take the script for its file."""
    for n, word in enumerate(argv):
        if word in ("-m", "--") or (n and not word.startswith("-") and word.endswith(".py")):
            break
        if word.startswith("--profile="):
            return [*argv[:n], "--profile-file", word.removeprefix("--profile="), *argv[n + 1 :]]
    return argv


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv`, by default that of the process; returns the exit code."""
    options = parser().parse_args(_spelled(sys.argv[1:] if argv is None else list(argv)))
    try:
        return options.handler(options)
    except (ConfigError, LaunchError) as error:
        print(f"{options.prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # as in `diffuse env | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
