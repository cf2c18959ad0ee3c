"""deploy/systemd: units that systemd accepts, with minimal permissions."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.packaging.building import ended
from tests.packaging.manifests import UNITS, unit

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")

MAX_EXPOSED = 20
"""Of 100, as rated by systemd-analyze security."""


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit with an existing program and folder, because systemd checks them."""
    source: Path = request.param
    text = source.read_text().replace("/opt/redrive/bin", str(Path(sys.executable).parent))
    (tmp_path / source.name).write_text(text.replace("/srv/redrive", str(tmp_path)))
    return tmp_path / source.name


def test_systemd_reports_no_problem(copied: Path) -> None:
    """It also reports unknown names, which it would ignore."""
    told = ended("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copied)
    assert (told.code, told.err) == (0, "")


def test_systemd_reports_a_wrong_unit(copied: Path) -> None:
    copied.write_text(copied.read_text().replace("Restart=on-failure", "Restrat=on-failure"))
    assert "Restrat" in ended("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copied).err


def test_it_is_let_do_little(copied: Path) -> None:
    limit = f"--threshold={MAX_EXPOSED}"
    told = ended("systemd-analyze", "security", "--offline=true", "--no-pager", limit, copied)
    assert told.code == 0, told.out


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_secrets_come_as_a_credential(path: Path) -> None:
    said = unit(path)
    assert said["LoadCredential"] == ["redrive.toml:/etc/redrive/redrive.toml"]
    assert "REDRIVE_CONFIG=%d/redrive.toml" in said["Environment"]
    assert said["DynamicUser"] == ["yes"]
    assert said["RestartPreventExitStatus"] == ["2 6"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_that_cannot_start_is_not_restarted_forever(path: Path) -> None:
    """The allowed number of restarts fits into the time in which systemd counts them."""
    head = dict(re.findall(r"^(StartLimit\w+)=(\d+)$", path.read_text(), re.MULTILINE))
    wait = int(unit(path)["RestartSec"][0])
    assert 0 < int(head["StartLimitBurst"]) * wait < int(head["StartLimitIntervalSec"])
