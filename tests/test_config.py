"""Settings: what is accepted, what wins, and what is said about the rest."""

from __future__ import annotations

import os

import pytest

from diffuse_trace import config
from diffuse_trace.errors import ConfigError


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for variable in [name for name in os.environ if name.startswith("DIFFUSE_")]:
        monkeypatch.delenv(variable)
    config.reset()
    yield
    monkeypatch.undo()
    config.reset()


def setenv(monkeypatch, **variables):
    for name, text in variables.items():
        monkeypatch.setenv(f"DIFFUSE_{name}", text)
    config.reset()


@pytest.mark.parametrize("name", config.SETTINGS)
def test_every_default_is_valid(name):
    config.get(name)


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("fuse", "paper", "paper"),
        ("grid", "4", (4,)),
        ("grid", "2x3", (2, 3)),
        ("grid", "2X3", (2, 3)),
        ("grid", "", None),
        ("halo", "0", 0),
        ("timeout", "2.5", 2.5),
        ("threads", "3", 3),
        ("threads", " ", None),
        ("profile", "on", True),
        ("profile", "False", False),
        ("yield", "auto", "auto"),
    ],
)
def test_accepted(monkeypatch, name, text, value):
    setenv(monkeypatch, **{name.upper(): text})
    assert config.get(name) == value


@pytest.mark.parametrize(
    "name, text",
    [
        ("fuse", "2"),
        ("grid", "2x"),
        ("grid", "0x2"),
        ("grid", "-1x2"),
        ("grid", "2,2"),
        ("halo", "-1"),
        ("halo", "1_0"),
        ("window", "0"),
        ("timeout", "0"),
        ("timeout", "nan"),
        ("timeout", "inf"),
        ("threads", "0"),
        ("profile", "yes"),
        ("mpi", "2"),
    ],
)
def test_refused_with_the_variable_and_the_cure(monkeypatch, name, text):
    setenv(monkeypatch, **{name.upper(): text})
    with pytest.raises(ConfigError, match=f"DIFFUSE_{name.upper()}='{text}' is not understood: use "):
        config.get(name)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ConfigError, match="no setting 'fusion'; there are fuse, grid"):
        config.get("fusion")


def test_a_value_is_read_once(monkeypatch):
    assert config.get("halo") == 1
    monkeypatch.setenv("DIFFUSE_HALO", "2")
    assert config.get("halo") == 1
    config.reset()
    assert config.get("halo") == 2


def test_override_wins_nests_and_ends(monkeypatch):
    setenv(monkeypatch, HALO="2")
    with config.override(halo=3, grid=(2, 2), profile=True):
        assert (config.get("halo"), config.get("grid"), config.get("profile")) == (3, (2, 2), True)
        with config.override(halo=None):
            assert config.get("halo") == 1  # None is the default, not the environment
            assert config.get("grid") == (2, 2)
        assert config.get("halo") == 3
    assert (config.get("halo"), config.get("grid"), config.get("profile")) == (2, None, False)


def test_a_refused_override_leaves_nothing_behind():
    with pytest.raises(ConfigError, match="DIFFUSE_HALO"), config.override(window=7, halo="wide"):
        pytest.fail("the block must not run")
    assert config.get("window") == 256
    assert config.get("halo") == 1


def test_code_key_changes_with_settings_that_change_code_only():
    before = config.code_key()
    with config.override(window=7, timeout=1):
        assert config.code_key() == before
    with config.override(fuse="0"):
        assert config.code_key() != before
    assert config.code_key() == before


def test_table_shows_values_and_sources(monkeypatch):
    setenv(monkeypatch, HALO="wide", GRID="")
    with config.override(window=7):
        rows = {row.setting.name: (row.value, row.source) for row in config.table()}
    assert list(rows) == list(config.SETTINGS)
    assert rows["halo"] == ("wide", "environment")  # shown although it is not understood
    assert rows["grid"] == ("", "default")
    assert rows["window"] == ("7", "override")
    assert rows["fuse"] == ("1", "default")


def test_mistakes_are_values_and_names(monkeypatch):
    assert config.mistakes() == []
    setenv(monkeypatch, HALO="wide", TIMEOUTS="3", XYZZY="1", RUN_DIR="/tmp", TEST_MARK="1")
    value, near, far = config.mistakes()
    assert value.startswith("DIFFUSE_HALO='wide' is not understood")
    assert near == "DIFFUSE_TIMEOUTS is not a setting; do you mean DIFFUSE_TIMEOUT?"
    assert far.startswith("DIFFUSE_XYZZY is not a setting")
