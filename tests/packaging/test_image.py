"""The image: linted, and its steps executed directly, because containers can't be built here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.packaging.building import DEPLOY, ROOT, UV, ended, made
from tests.packaging.containerfile import environment, every, last, stages

from redrive import __version__

HADOLINT = Path(sys.executable).parent / "hadolint"
FILES = [DEPLOY / "Containerfile", DEPLOY / "example" / "Containerfile"]
BUILD, RUNTIME = stages(DEPLOY / "Containerfile")
SECONDS = 30.0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_it_is_linted(path: Path) -> None:
    assert made(HADOLINT, "--failure-threshold", "style", path) == ""


def test_it_runs_as_an_unprivileged_user() -> None:
    user, group = last(RUNTIME, "USER").text.split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert last(RUNTIME, "ENTRYPOINT").words == ["redrive"]
    assert last(RUNTIME, "STOPSIGNAL").text == "SIGTERM"


def test_nothing_is_executed_and_no_tool_is_copied_into_it() -> None:
    assert every(RUNTIME, "RUN") == []
    taken = [each.words[0] for each in every(RUNTIME, "COPY")]
    assert taken == ["/opt/redrive", "deploy/healthcheck.py"]


def test_all_is_of_this_version() -> None:
    assert f'image.version="{__version__}"' in last(RUNTIME, "LABEL").text
    texts = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    named = {found for text in texts for found in re.findall(r"\bredrive:(\d[\w.]*\w)", text)}
    assert named == {__version__}


def test_copied_files_reach_the_builder() -> None:
    """The ignore file ignores everything except what it names."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {name for stage in (BUILD, RUNTIME) for each in every(stage, "COPY") for name in each.words[:-1]}
    assert "*" in lines
    assert copied - {"/opt/redrive"} == let_in
    assert all((ROOT / name).exists() for name in let_in)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root folder that the steps create; the programs of the tests replace those of the base image."""
    root = tmp_path_factory.mktemp("image")
    for each in every(BUILD, "COPY"):
        *names, target = each.words
        copy(names, root / "build" / target)
    extras = next(each.text.partition("=")[2] for each in every(BUILD, "ARG"))
    step = every(BUILD, "RUN")[-1].text.replace("--no-cache ", "")  # the tests have installed it
    step = step.replace("/usr/local/bin/python3", sys.executable)
    step = re.sub(r"(?<=[ /])/(dist|opt)\b", rf"{root}/\1", step.replace("$(ls /dist", f"$(ls {root}/dist"))
    path = f"{UV.parent}{os.pathsep}{os.environ['PATH']}"
    made("sh", "-ec", step, cwd=root / "build", environment={"EXTRAS": extras, "PATH": path})
    shutil.copy(DEPLOY / "healthcheck.py", root / "opt" / "redrive")
    return root


def copy(names: list[str], target: Path) -> None:
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


@pytest.fixture
def inside(image: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of the image, a settings file, and a free port."""
    settings = tmp_path / "redrive.toml"
    settings.write_text(f'database_url = "sqlite:///{tmp_path}/work.db"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    of_image = {name: value for name, value in environment(RUNTIME).items() if name != "PATH"}
    given = {"REDRIVE_CONFIG": str(settings), "REDRIVE_SERVER_PORT": port}
    given["REDRIVE_SERVER_URL"] = "https://redrive.example.com"
    path = f"{image}/opt/redrive/bin{os.pathsep}{os.environ['PATH']}"
    return {**of_image, **given, "HOME": str(tmp_path), "PATH": path}


def test_it_serves_once_a_user_can_sign_in(image: Path, inside: dict[str, str]) -> None:
    """And it is healthy, even if its public name differs from that of the health check."""
    program = image / "opt" / "redrive" / "bin" / "redrive"
    refused = ended(program, *last(RUNTIME, "CMD").words, environment=inside)
    assert refused.code == 2, refused.err
    assert "redrive member add" in refused.err
    made(program, "key", "create", "ci", "--role", "admin", environment=inside)
    assert not healthy(image, inside)
    with served(program, inside) as process:
        end = time.monotonic() + SECONDS
        while not healthy(image, inside):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(getattr(signal, last(RUNTIME, "STOPSIGNAL").text))
        assert process.wait(SECONDS) == 0


def healthy(image: Path, inside: dict[str, str]) -> bool:
    check = last(RUNTIME, "HEALTHCHECK").text.partition("CMD ")[2]
    assert check == '["python", "/opt/redrive/healthcheck.py"]'
    done = ended(image / "opt/redrive/bin/python", image / "opt/redrive/healthcheck.py", environment=inside)
    assert done.err == ""
    return done.code == 0


@contextmanager
def served(program: Path, inside: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the entry point in the folder of the example."""
    command = [str(program), "serve", "shop:app"]
    with subprocess.Popen(command, cwd=DEPLOY / "example", env=inside, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
