"""Starts the script on one rank of a job of `diffuse run`.

`diffuse run` gives each rank this file, the script and its arguments.  The file is run by its path, before anything
of the package is imported, so it needs the standard library only and works for scripts that never use the package.

Launcher and ranks meet in the folder that ``DIFFUSE_RUN_DIR`` names (K is a rank):

    out.K, err.K   pipes that the launcher reads; a rank without them is silent
    log.K          stderr of a silent rank, shown if the rank dies without saying why
    pid.K          process id
    end.K          exit code, written when the script has ended and its output is flushed
    exit           rank and code of the first rank that ended with a code other than 0
    error          traceback of the first rank that failed; there is one, so it is shown once for the job
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import errno
import faulthandler
import io
import os
import runpy
import signal
import sys
import threading
import time
import traceback
import types

#: Environment variable with the job's folder.
FOLDER = "DIFFUSE_RUN_DIR"
#: Seconds that a failed rank waits for the output of the others.
PATIENCE = 0.7

# Rank and size as Open MPI, hydra (MPICH, Intel MPI, MVAPICH) and Slurm tell them.
_IDENTITIES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_ATEXIT_LIMIT = 5.0  # seconds that exit functions of a failed rank may take: they could wait for another rank
_INTERRUPTED = 128 + signal.SIGINT


def identity() -> tuple[int, int]:
    """Rank and number of ranks of this process; (0, 1) outside MPI."""
    for rank, size in _IDENTITIES:
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ.get(size, "1"))
    return 0, 1


def claim(name: str, text: str) -> bool:
    """Write a file of the job's folder unless another rank has written it; whether it is there now.

    It appears with all its content: the loser may end the job, and the winner with it, at once.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return False
    path = os.path.join(folder, name)
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with open(draft, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # no such folder: a rank on another machine
        return False
    with contextlib.suppress(OSError):
        os.unlink(draft)
    return True


def settle(code: int, patience: float = PATIENCE) -> None:
    """Call before ending with an error: flushes, then waits a little for the other ranks to come to their end.

    The launcher ends the job as soon as one rank ends with an error.  Ranks that fail together, or that print and
    leave together, would lose what the slower ones still have to say.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    rank, size = identity()
    if not claim(f"end.{rank}", str(code)):
        return
    folder = os.environ[FOLDER]
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if sum(name.startswith("end.") and not name.endswith(".draft") for name in os.listdir(folder)) >= size:
                return
        time.sleep(0.01)


def run_target(target: list[str]) -> None:
    """Run ``[script, *arguments]`` or ``["-m", module, *arguments]`` as Python does, in this process."""
    if target[0] == "-m":
        start, sys.argv = os.getcwd(), target[1:]
    else:
        start, sys.argv = os.path.dirname(os.path.realpath(target[0])), target
    # With -P Python has put nothing in front of sys.path; otherwise its entry is replaced.
    if not sys.flags.safe_path:
        sys.path[0] = start
    elif not os.environ.get("PYTHONSAFEPATH"):
        sys.path.insert(0, start)
    if target[0] == "-m":
        runpy.run_module(target[1], run_name="__main__", alter_sys=True)
    elif os.path.isdir(target[0]) or target[0].endswith((".zip", ".pyz")):
        runpy.run_path(target[0], run_name="__main__")
    else:
        _run_file(target[0])


def _run_file(script: str) -> None:
    # Not with runpy.run_path, which takes the module away at its end, when exit functions may still need it, and
    # makes sys.argv[0] the absolute path.
    path = os.path.abspath(script)
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = main
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def user_traceback(error: BaseException) -> types.TracebackType | None:
    """The traceback of an error in a target: what lies below the frames of this file and of runpy."""
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    frames, found = error.__traceback__, False
    while frames is not None:
        mine = frames.tb_frame.f_code.co_filename in own
        if found and not mine:
            break
        found |= mine
        frames = frames.tb_next
    return frames if found else error.__traceback__


def main() -> None:
    """Run the target in sys.argv with this rank's output routed; ends the job if the script fails."""
    target = sys.argv[1:]
    rank, _ = identity()
    _die_with_parent()
    _route_output(rank)
    faulthandler.enable()
    code = 0
    try:
        run_target(target)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            code = (stop.code or 0) & 0xFF
        else:
            code = 1
            _report(f"rank {rank}: {stop.code}\n")
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BaseException as error:
        code = 1
        _report_error(error.with_traceback(user_traceback(error)), rank)
    if code:
        _end(code, rank)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    claim(f"end.{rank}", "0")


def _end(code: int, rank: int) -> None:
    """Leave with an error in a way that ends the job.

    Not through the interpreter's normal end: mpi4py's MPI_Finalize would wait there for the other ranks, for ever.
    """
    claim("exit", f"{rank} {code}")
    watchdog = threading.Timer(_ATEXIT_LIMIT, os._exit, (code,))
    watchdog.daemon = True
    watchdog.start()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    settle(code)
    os._exit(code)


def _report_error(error: BaseException, rank: int) -> None:
    hook = sys.excepthook
    text = io.StringIO()
    if hook is sys.__excepthook__:
        traceback.print_exception(error, file=text)
    elif getattr(hook, "__module__", "").partition(".")[0] == "diffuse_trace":
        hook(type(error), error, error.__traceback__)  # the runtime's: reports by the same protocol and ends the job
        return
    else:
        # A hook of the user's prints to sys.stderr: what it prints is the report.
        try:
            with contextlib.redirect_stderr(text):
                hook(type(error), error, error.__traceback__)
        except BaseException:
            text = io.StringIO()
        if not text.getvalue():
            traceback.print_exception(error, file=text)
    _report(f"rank {rank}:\n{text.getvalue()}")


def _report(text: str) -> None:
    if not claim("error", text):
        with contextlib.suppress(Exception):
            sys.stderr.write(text)


def _die_with_parent() -> None:
    """Have Linux kill this rank when mpiexec dies, so that a killed job leaves nothing behind."""
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def _route_output(rank: int) -> None:
    folder = os.environ.get(FOLDER, "")
    if not os.path.isdir(folder):
        return
    claim(f"pid.{rank}", str(os.getpid()))
    if rank:
        _replace(0, os.open(os.devnull, os.O_RDONLY))
    out, err = (_pipe(os.path.join(folder, f"{name}.{rank}")) for name in ("out", "err"))
    if out is None and rank:
        out = os.open(os.devnull, os.O_WRONLY)
    if err is None and rank:
        err = os.open(os.path.join(folder, f"log.{rank}"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    if out is not None:
        _replace(1, out)
    if err is not None:
        _replace(2, err)


def _pipe(path: str) -> int | None:
    try:
        # Without a reader on this machine a blocking open would wait for ever.
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):
            return None
        raise
    os.set_blocking(pipe, True)
    return pipe


def _replace(standard: int, descriptor: int) -> None:
    os.dup2(descriptor, standard)
    os.close(descriptor)


if __name__ == "__main__":
    main()
