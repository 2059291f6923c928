"""Checks Compose files without Docker: keys, kinds of values, and that every name leads somewhere.

``python -m tools.compose deploy/*.yml`` prints what is wrong with them. It knows the part of the
Compose specification that is used here; a key that it does not know is a fault.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_TOP = {"name", "services", "volumes", "networks"}
# A key of a service, and the kinds that its value may have.
_SERVICE: Mapping[str, tuple[type, ...]] = {
    "build": (str, dict),
    "image": (str,),
    "command": (str, list),
    "environment": (dict, list),
    "ports": (list,),
    "volumes": (list,),
    "networks": (list, dict),
    "depends_on": (list, dict),
    "healthcheck": (dict,),
    "restart": (str,),
    "stop_grace_period": (str,),
    "ulimits": (dict,),
}
_RESTARTS = {"no", "always", "on-failure", "unless-stopped"}
_CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
_HEALTH = {"test", "interval", "timeout", "retries", "start_period", "start_interval", "disable"}
_DURATION = re.compile(r"(\d+(us|ms|s|m|h))+")
_PORT = re.compile(r"(\d{1,5}:)?\d{1,5}(/(tcp|udp))?")
_IMAGE = re.compile(r"[a-z0-9./_-]+:[\w.-]+(@sha256:[0-9a-f]{64})?")
_VARIABLE = re.compile(r"\$\{(\w+)(?:(:?[-?])([^}]*))?\}")


def problems(path: Path) -> list[str]:
    """What is wrong with a file, a sentence each."""
    try:
        loaded = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        return [f"{path.name} is not YAML: {error}"]
    if not isinstance(loaded, dict):
        return [f"{path.name} has no services"]
    return [f"{path.name}: {one}" for one in _file_problems(loaded, path.parent)]


def _file_problems(loaded: dict[str, Any], folder: Path) -> Iterator[str]:
    for key in loaded:
        if key not in _TOP and not key.startswith("x-"):
            yield f"{key} is not a key of a Compose file"
    services = loaded.get("services") or {}
    if not services:
        yield "there are no services"
    for name, service in services.items():
        for problem in _service_problems(service, loaded, folder):
            yield f"services.{name}: {problem}"
    for kind in ("volumes", "networks"):
        used = {one for service in services.values() for one in _used(service, kind)}
        for name in set(loaded.get(kind) or ()) - used:
            yield f"{kind}.{name} is not used"
    for text in _texts(services):
        for name, sign, _ in _VARIABLE.findall(text):
            if not sign:
                yield f"${{{name}}} needs a default or a sentence that asks for it"


def _service_problems(service: Any, loaded: dict[str, Any], folder: Path) -> Iterator[str]:
    if not isinstance(service, dict):
        yield "it is not a table"
        return
    for key, value in service.items():
        if key not in _SERVICE:
            yield f"{key} is not a key of a service that is known here"
        elif not isinstance(value, _SERVICE[key]):
            yield f"{key} has a value of the wrong kind: {value!r}"
    if ("image" in service) == ("build" in service):
        yield "it needs an image or a build, and not both"
    image = service.get("image")
    if image is not None and not _IMAGE.fullmatch(_VARIABLE.sub(lambda m: m[3], image)):
        yield f"the image {image} has no version"
    build = service.get("build")
    if isinstance(build, dict):
        dockerfile = folder / build["context"] / build.get("dockerfile", "Dockerfile")
        if not dockerfile.is_file():
            yield f"there is no file {dockerfile}"
    if service.get("restart", "no") not in _RESTARTS:
        yield f"restart: {service['restart']} is not known"
    for port in service.get("ports", ()):
        if not isinstance(port, str) or not _PORT.fullmatch(port):
            yield f"the port {port!r} is not a text such as '443:443'"
    for kind in ("volumes", "networks"):
        for name in _used(service, kind):
            if name not in (loaded.get(kind) or {}):
                yield f"there is no {name} in {kind}"
    for source in _sources(service):
        if source.startswith(".") and not (folder / source).exists():
            yield f"there is no file {source}"
    yield from _order_problems(service, loaded["services"])
    yield from _health_problems(service.get("healthcheck", {}))
    if not _DURATION.fullmatch(service.get("stop_grace_period", "10s")):
        yield f"stop_grace_period: {service['stop_grace_period']} is not a duration"


def _order_problems(service: dict[str, Any], services: dict[str, Any]) -> Iterator[str]:
    needed = service.get("depends_on", {})
    needed = needed if isinstance(needed, dict) else {name: {} for name in needed}
    for name, how in needed.items():
        condition = how.get("condition", "service_started")
        if name not in services:
            yield f"depends_on: there is no service {name}"
        elif condition not in _CONDITIONS:
            yield f"depends_on: {condition} is not a condition"
        elif condition == "service_healthy" and not _has_healthcheck(services[name]):
            yield f"depends_on: {name} has no healthcheck"
        elif service in _all_needed(services, name):
            yield f"depends_on: {name} needs this service"


def _all_needed(services: dict[str, Any], name: str) -> list[Any]:
    """The services that one needs, and those that they need."""
    found: list[str] = []
    left = [name]
    while left:
        one = left.pop()
        for other in services.get(one, {}).get("depends_on", ()):
            if other not in found:
                found.append(other)
                left.append(other)
    return [services.get(one) for one in found]


def _has_healthcheck(service: dict[str, Any]) -> bool:
    # The image that is built here has one.
    return "healthcheck" in service or "build" in service


def _health_problems(check: dict[str, Any]) -> Iterator[str]:
    for key in set(check) - _HEALTH:
        yield f"healthcheck.{key} is not known"
    test = check.get("test", ["CMD"])
    if isinstance(test, list) and test[:1] not in (["CMD"], ["CMD-SHELL"], ["NONE"]):
        yield "healthcheck.test begins with CMD, CMD-SHELL or NONE"
    for key in ("interval", "timeout", "start_period", "start_interval"):
        if key in check and not _DURATION.fullmatch(str(check[key])):
            yield f"healthcheck.{key}: {check[key]} is not a duration"


def _sources(service: dict[str, Any]) -> list[str]:
    """What the volumes of a service are made of: paths and names."""
    volumes = service.get("volumes", ())
    return [one.partition(":")[0] if isinstance(one, str) else one["source"] for one in volumes]


def _used(service: dict[str, Any], kind: str) -> list[str]:
    if kind == "networks":
        return list(service.get("networks", ()))
    return [one for one in _sources(service) if not one.startswith((".", "/", "~"))]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


if __name__ == "__main__":
    found = [problem for name in sys.argv[1:] for problem in problems(Path(name))]
    print("\n".join(found))
    sys.exit(1 if found else 0)
