"""deploy/compose.yaml: valid by the schema of Compose, secure by default, and in an order that works."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.packaging.building import ended, made
from tests.packaging.manifests import COMPOSE, compose, of_redrive

SERVICES: dict[str, Any] = compose()["services"]
NAMES = sorted(SERVICES)
CHECK = Path(sys.executable).parent / "check-jsonschema"


def test_it_is_valid() -> None:
    made(CHECK, "--builtin-schema", "vendor.compose-spec", COMPOSE)


@pytest.mark.skipif(
    shutil.which("docker") is None or ended("docker", "compose", "version").code != 0,
    reason="there is no docker compose here",
)
def test_docker_takes_it() -> None:
    made("docker", "compose", "--file", COMPOSE, "--profile", "*", "config", "--quiet")


@pytest.mark.parametrize("name", NAMES)
def test_everything_a_service_names_exists(name: str) -> None:
    service, whole = SERVICES[name], compose()
    assert set(service.get("depends_on", {})) <= set(SERVICES)
    assert set(service["networks"]) <= set(whole["networks"])
    assert set(service.get("secrets", ())) <= set(whole["secrets"])
    for volume in service.get("volumes", ()):
        source = volume.partition(":")[0]
        assert (COMPOSE.parent / source).is_dir() if source.startswith(".") else source in whole["volumes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_caller_that_waits_for_another_waits_until_it_succeeds(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        ends = SERVICES[other].get("restart") == "no"
        assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")
        assert ends or "test" in SERVICES[other]["healthcheck"]


@pytest.mark.parametrize("name", NAMES)
def test_its_health_is_known_where_it_can_be(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check == {"disable": True} if name in ("migrate", "worker") else {"test", "interval"} <= set(check)


@pytest.mark.parametrize("name", NAMES)
def test_only_this_machine_can_reach_it(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert port.startswith("127.0.0.1:")
    assert "network_mode" not in SERVICES[name]
    assert compose()["networks"]["inside"]["internal"]


@pytest.mark.parametrize("name", NAMES)
def test_it_may_do_no_more_than_it_has_to(name: str) -> None:
    service = SERVICES[name]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    if name in of_redrive():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "user" not in service  # the image sets it


@pytest.mark.parametrize("name", NAMES)
def test_it_fills_neither_the_disk_nor_the_memory(name: str) -> None:
    assert {"max-size", "max-file"} <= set(SERVICES[name]["logging"]["options"])
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])


def test_there_is_no_password_in_it() -> None:
    """Not even a placeholder: every secret is in a file, or has no default."""
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY", variable):
                safe = variable.endswith("_FILE") and value.startswith("/run/secrets/")
                assert safe or value == f"${{{variable}:-}}", f"{name}: {variable}"
    assert "://redrive:" not in COMPOSE.read_text()
    assert all(set(each) == {"file"} for each in compose()["secrets"].values())


def test_services_that_redrive_does_not_need_are_not_started() -> None:
    asked_for = {name for name, service in SERVICES.items() if "profiles" in service}
    assert asked_for == {"redis", "opensearch"}
    for service in SERVICES.values():
        assert not asked_for & set(service.get("depends_on", {}))


def test_all_run_one_image() -> None:
    assert set(of_redrive()) == {"migrate", "server", "worker"}
    assert len({service["image"] for service in of_redrive().values()}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_of_a_version(name: str) -> None:
    tag = SERVICES[name]["image"].rpartition(":")[2]
    assert re.match(r"\d", tag)
