"""The files of ``deploy/`` fit together, and use options that ``epochal hub serve`` has."""

from __future__ import annotations

import configparser
import ipaddress
import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from epochal.cli.command import Shared
from epochal.cli.serve import serve
from epochal.shipping.protocol import MAX_LINES_BYTES

DEPLOY = Path(__file__).parents[2] / "deploy"


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())
    return loaded


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


def test_the_hub_of_compose_trusts_the_network_of_its_proxy() -> None:
    loaded = compose()
    (network,) = (one["subnet"] for one in loaded["networks"]["hub"]["ipam"]["config"])
    given = loaded["services"]["hub"]["command"]
    assert given[given.index("--trust") + 1] == network
    assert ipaddress.ip_network(network).is_private
    for service in loaded["services"].values():
        assert service["networks"] == ["hub"]


def test_only_the_proxy_is_reached_from_outside() -> None:
    services = compose()["services"]
    assert "ports" not in services["hub"]
    assert services["caddy"]["ports"] == ["80:80", "443:443"]


def test_the_proxy_leads_to_the_hub() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    assert "reverse_proxy hub:6060" in text
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


def test_the_unit_starts_a_hub() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(DEPLOY / "epochal-hub.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/epochal")
    args = parsed(arguments)
    assert args["host"] == "127.0.0.1"  # a proxy stands in front
    assert str(args["folder"]).startswith(f"/var/lib/{unit['Service']['StateDirectory']}/")
