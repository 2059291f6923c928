"""The files of ``deploy/`` fit together, and use options that ``epochal hub serve`` has."""

from __future__ import annotations

import configparser
import importlib
import ipaddress
import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from epochal.cli.command import Shared
from epochal.cli.serve import serve
from epochal.shipping.protocol import MAX_LINES_BYTES

DEPLOY = Path(__file__).parents[2] / "deploy"
TEAM, COMPANY = "docker-compose.yml", "docker-compose.company.yml"
# The hubs of a Compose file, with its proxy's file.
HUBS = {TEAM: (["hub"], "Caddyfile"), COMPANY: (["hub1", "hub2"], "Caddyfile.company")}
of_both = pytest.mark.parametrize("file", [TEAM, COMPANY])
# Where lightkube has what an API version of Kubernetes is made of.
MODELS = {
    "v1": "core_v1",
    "apps/v1": "apps_v1",
    "networking.k8s.io/v1": "networking_v1",
    "policy/v1": "policy_v1",
}


def compose(file: str = TEAM) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / file).read_text())
    return loaded


def manifests() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes.yml").read_text())
    return {document["kind"]: document for document in documents}


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Read arguments as the program does; a wrong one ends the test."""
    assert arguments[:2] == ["hub", "serve"]
    return serve.make_context("serve", arguments[2:], obj=Shared()).params


def filled_in(text: str, **values: str) -> str:
    """A text of a Compose file with its variables."""
    return re.sub(r"\$\{(\w+)(?::[-?]([^}]*))?\}", lambda m: values.get(m[1], m[2]), text)


def instructions() -> dict[str, str]:
    joined = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}


def test_the_hub_of_compose_has_options_that_exist() -> None:
    given = [
        filled_in(one, HUB_HOST="hub.example.org")
        for one in compose()["services"]["hub"]["command"]
    ]
    args = parsed(given)
    assert (args["host"], args["port"], args["allow_host"]) == (
        "0.0.0.0",
        6060,
        ("hub.example.org",),
    )
    assert args["max_size"] == 500e9
    assert not args["allow_control"]


@of_both
def test_compose_knows_every_key(file: str) -> None:
    schema = pytest.importorskip("compose_pydantic", reason="compose-pydantic is not installed")
    schema.ComposeSpecification(
        **{key: value for key, value in compose(file).items() if not key.startswith("x-")}
    )


def test_the_hubs_of_compose_share_a_database_and_a_bucket() -> None:
    services = compose(COMPANY)["services"]
    first, second = services["hub1"], services["hub2"]
    assert first == second
    given = [filled_in(one, HUB_HOST="hub.example.org") for one in first["command"]]
    args = parsed(given)
    assert args["catalog"] == "postgresql://epochal@postgres/epochal"
    assert args["allow_host"] == ("hub.example.org", "hub1", "hub2")
    (volume,) = (one.partition(":")[2] for one in first["volumes"])
    assert Path(args["bucket"]).parent == Path(volume)
    database = services["postgres"]["environment"]
    assert (database["POSTGRES_USER"], database["POSTGRES_DB"]) == ("epochal", "epochal")
    assert database["POSTGRES_PASSWORD"] == first["environment"]["PGPASSWORD"]


@of_both
def test_the_hubs_of_compose_trust_the_network_of_their_proxy(file: str) -> None:
    loaded = compose(file)
    ((name, settings),) = loaded["networks"].items()
    (network,) = (one["subnet"] for one in settings["ipam"]["config"])
    for hub in HUBS[file][0]:
        given = loaded["services"][hub]["command"]
        assert given[given.index("--trust") + 1] == network
    assert ipaddress.ip_network(network).is_private
    for service in loaded["services"].values():
        assert service["networks"] == [name]


@of_both
def test_only_the_proxy_is_reached_from_outside(file: str) -> None:
    reached = {
        name: one["ports"] for name, one in compose(file)["services"].items() if "ports" in one
    }
    assert reached == {"caddy": ["80:80", "443:443"]}


@of_both
def test_the_proxy_leads_to_the_hubs(file: str) -> None:
    hubs, name = HUBS[file]
    assert f"./{name}:/etc/caddy/Caddyfile:ro" in compose(file)["services"]["caddy"]["volumes"]
    text = (DEPLOY / name).read_text()
    assert f"reverse_proxy {' '.join(f'{hub}:6060' for hub in hubs)} {{" in text
    assert text.count("{") == text.count("}")
    (most,) = re.findall(r"max_size (\d+)MB", text)
    assert int(most) * 1_000_000 >= MAX_LINES_BYTES


def test_the_image_copies_files_that_exist_and_starts_a_hub() -> None:
    found = instructions()
    root = DEPLOY.parent
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            for name in line.split()[1:-1]:
                assert (root / name).exists(), name
    assert json.loads(found["ENTRYPOINT"]) == ["epochal"]
    args = parsed(json.loads(found["CMD"]))
    assert (str(args["folder"]), args["port"]) == ("/data", int(found["EXPOSE"]))
    assert found["USER"] == "epochal"
    assert '"/src[hub]"' in found["RUN"]  # hubs may share a database and a bucket


def test_the_unit_starts_a_hub() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(DEPLOY / "epochal-hub.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/epochal")
    args = parsed(arguments)
    assert args["host"] == "127.0.0.1"  # a proxy stands in front
    assert str(args["folder"]).startswith(f"/var/lib/{unit['Service']['StateDirectory']}/")


def test_kubernetes_knows_every_key() -> None:
    pytest.importorskip("lightkube.models", reason="lightkube is not installed")
    for kind, document in manifests().items():
        models = importlib.import_module(f"lightkube.models.{MODELS[document['apiVersion']]}")
        model = getattr(models, kind)
        msgspec.convert(document, model)  # types, and what must be there
        assert model.from_dict(document).to_dict() == document  # and nothing else


def test_the_hubs_of_kubernetes_have_options_and_probes_that_exist() -> None:
    found = manifests()
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    args = parsed(container["args"])
    assert (args["catalog"], args["bucket"], args["port"]) == (
        "postgresql://epochal@db1,db2/epochal",
        "s3://runs/team",
        container["ports"][0]["containerPort"],
    )
    probes = [container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz"]
    assert all(probe["httpHeaders"] == [{"name": "Host", "value": "localhost"}] for probe in probes)
    instructed = re.search(r"--uid (\d+)", instructions()["RUN"])
    pod = found["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    assert instructed is not None
    assert int(instructed[1]) == pod["runAsUser"]


def test_what_kubernetes_names_is_there() -> None:
    found = manifests()
    name = found["Deployment"]["metadata"]["name"]
    assert {document["metadata"]["name"] for document in found.values()} == {name}
    template = found["Deployment"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": found["Secret"]["metadata"]["name"]}}]
    labels = template["metadata"]["labels"]
    selectors = [found[kind]["spec"]["selector"] for kind in ("Deployment", "PodDisruptionBudget")]
    assert selectors == [{"matchLabels": labels}] * 2
    assert found["Service"]["spec"]["selector"] == labels
    (rule,) = found["Ingress"]["spec"]["rules"]
    assert parsed(container["args"])["allow_host"] == (rule["host"],)
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": name, "port": {"name": found["Service"]["spec"]["ports"][0]["name"]}}
    assert (
        found["PodDisruptionBudget"]["spec"]["minAvailable"]
        < found["Deployment"]["spec"]["replicas"]
    )
