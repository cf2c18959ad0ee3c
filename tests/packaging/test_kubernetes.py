"""deploy/kubernetes: valid by the schemas of Kubernetes, and pods with minimal permissions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.packaging.building import made
from tests.packaging.manifests import KUBERNETES, containers, objects, pods

from redrive import Settings

VALIDATE = Path(sys.executable).parent / "kubernetes-validate"
PODS = pods()
OLDEST = "1.30"
"""The first version of Kubernetes that has every feature in use."""
NO_SECRETS = {"REDRIVE_CODE_VERSION", "REDRIVE_SERVER_HOSTS"}


def test_all_of_it_is_valid() -> None:
    for version in ([], ["--kubernetes-version", OLDEST]):
        made(VALIDATE, "--strict", "--no-warn", "--quiet", *version, *KUBERNETES)


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_is_restricted(pod: dict[str, Any]) -> None:
    """As the namespace demands, and more."""
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    for container in containers(pod):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_secret_is_a_file_that_others_cannot_read(pod: dict[str, Any]) -> None:
    [settings] = [each["secret"] for each in pod["volumes"] if "secret" in each]
    assert settings["defaultMode"] & 0o007 == 0
    for container in containers(pod):
        assert {each["name"] for each in container.get("env", ())} <= NO_SECRETS
        [mounted] = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "settings"]
        assert environment()["REDRIVE_CONFIG"].startswith(f"{mounted}/")


def test_no_secret_is_in_the_files() -> None:
    assert not [each for each in objects() if each["kind"] == "Secret"]


@pytest.mark.parametrize("name", ["redrive-server", "redrive-worker"])
def test_a_pod_waits_for_the_job(name: str) -> None:
    """It does not migrate: before it starts, the program checks the tables."""
    [first], [main] = PODS[name]["initContainers"], PODS[name]["containers"]
    assert first["args"] == ["migrate", "--check"]
    assert first["image"] == main["image"]
    assert {"name": "REDRIVE_CODE_VERSION", "value": main["image"].rpartition(":")[2]} in main["env"]


def test_the_job_is_named_after_its_version_and_goes_away() -> None:
    [job] = of_kind("Job")
    [container] = PODS[job["metadata"]["name"]]["containers"]
    version = container["image"].rpartition(":")[2]
    assert job["metadata"]["name"] == f"redrive-migrate-{version.replace('.', '-')}"
    assert job["spec"]["ttlSecondsAfterFinished"] > 0


def test_the_ingress_leads_to_the_server() -> None:
    [ingress], [service] = of_kind("Ingress"), of_kind("Service")
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    backend = path["backend"]["service"]
    assert backend["name"] == service["metadata"]["name"]
    assert backend["port"]["name"] in {each["name"] for each in service["spec"]["ports"]}
    assert rule["host"] == urlsplit(environment()["REDRIVE_SERVER_URL"]).hostname
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]


def test_probes_use_the_endpoint_for_their_purpose() -> None:
    [server] = PODS["redrive-server"]["containers"]
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    assert [server[name]["httpGet"]["path"] for name in probes] == ["/healthz", "/healthz", "/readyz"]


def test_ports_and_labels_meet() -> None:
    [server] = PODS["redrive-server"]["containers"]
    assert server["ports"] == [{"name": "http", "containerPort": Settings().server_port}]
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind("Deployment")]
    for each in (*of_kind("Service"), *of_kind("PodDisruptionBudget")):
        selector = each["spec"]["selector"]
        wanted = selector.get("matchLabels", selector)
        assert len([found for found in labels if wanted.items() <= found.items()]) == 1, each["metadata"][
            "name"
        ]
    [policy] = [each for each in of_kind("NetworkPolicy") if "ingress" in each["spec"]]
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == Settings().server_port


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in objects() if each["kind"] == kind]


def environment() -> dict[str, str]:
    [found] = of_kind("ConfigMap")
    data: dict[str, str] = found["data"]
    return data
