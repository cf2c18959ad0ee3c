"""Parses `deploy/`: its YAML, its units, and the commands and variables in all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.packaging.building import DEPLOY
from tests.packaging.containerfile import last, stages

COMPOSE = DEPLOY / "compose.yaml"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
README = DEPLOY / "README.md"


class Command(NamedTuple):
    """The words after `redrive`, and where they are written."""

    where: str
    words: tuple[str, ...]


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return document


def of_redrive() -> dict[str, Any]:
    """Return the services that run the image of Redrive."""
    services = compose()["services"]
    return {name: service for name, service in services.items() if "build" in service}


def objects() -> list[dict[str, Any]]:
    return [each for path in KUBERNETES for each in yaml.safe_load_all(path.read_text())]


def pods() -> dict[str, dict[str, Any]]:
    """Return the specs of pods, by the name of the object that creates them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in objects()
        if "template" in each.get("spec", {})
    }


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all containers of a pod, init containers included."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def unit(path: Path) -> dict[str, list[str]]:
    """Return the lines of [Service]; a name can occur more than once."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def commands() -> Iterator[Command]:
    for path in (DEPLOY / "Containerfile", DEPLOY / "example" / "Containerfile"):
        yield Command(str(path.relative_to(DEPLOY)), tuple(last(stages(path)[-1], "CMD").words))
    for name, service in of_redrive().items():
        yield Command(f"compose {name}", tuple(service["command"]))
    for name, pod in pods().items():
        for container in containers(pod):
            yield Command(f"kubernetes {name}", tuple(container["args"]))
    for path in UNITS:
        started = unit(path)["ExecStart"][0].replace("${APPLICATION}", "shop:app").split()
        yield Command(path.name, tuple(started[1:]))
    yield from _told()


def _told() -> Iterator[Command]:
    """Yield commands in the README: after `redrive`, or after `docker compose run --rm` and a service."""
    call = re.compile(
        r"(?:/bin/redrive|-- redrive|run --rm (?:server|migrate)|^redrive) ([^|>\n#]+)", re.MULTILINE
    )
    for block in re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL):
        for found in call.findall(block):
            yield Command("README.md", tuple(found.split()))


def variables() -> Iterator[tuple[str, str]]:
    """Yield every REDRIVE_ variable in any file, with the file."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and path.suffix != ".pyc" and "secrets" not in path.parts:
            for name in re.findall(r"\bREDRIVE_[A-Z_]+", path.read_text()):
                yield str(path.relative_to(DEPLOY)), name
