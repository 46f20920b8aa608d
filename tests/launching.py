"""Runs scripts on ranks, as a user would: ``python -m diffuse_trace run``."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from diffuse_trace.cli import mpi
from diffuse_trace.errors import LaunchError

ROOT = Path(__file__).resolve().parent.parent


def launch(
    script: str | Path,
    ranks: int = 1,
    *,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    stdin: str = "",
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a script on ranks and return its exit code, stdout and stderr.

    Args:
        script: the path of a script, or its source.
        ranks: on one, no MPI is involved.
        args: of the script.
        env: variables on top of those of this process.
        options: of `diffuse run`.
        stdin: text that rank 0 reads.
        timeout: seconds after which the test fails, with the stack of every rank.
    """
    with script_file(script) as path:
        process = start(["run", "-n", str(ranks), *options, str(path), *args], env)
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            # Ctrl-\ has `diffuse run` collect the stacks; one rank is the script itself.
            process.send_signal(signal.SIGABRT if ranks == 1 else signal.SIGQUIT)
            try:
                out, err = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            raise AssertionError(f"not finished after {timeout} s\nstdout:\n{out}\nstderr:\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start ``diffuse`` with these arguments, its streams in pipes."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-m", "diffuse_trace", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": "1"} | dict(env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_signals,
    )


def _heed_signals() -> None:
    # What a shell starts in the background ignores these, and so would all that it starts.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def script_file(script: str | Path) -> Iterator[Path]:
    """The path of a script; a source is written to a file for the length of the block."""
    if isinstance(script, Path):
        yield script
        return
    with TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(textwrap.dedent(script))
        yield path


@functools.cache
def missing_mpi() -> str:
    """Why there can be no more than one rank here; empty if there can."""
    try:
        mpi.find_launcher(mpi.library())
    except LaunchError as error:
        return str(error)
    return ""
