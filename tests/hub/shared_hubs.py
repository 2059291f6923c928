"""Hubs that share a database and a bucket, as processes that can be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epochal.shipping.client import HubClient


@dataclass
class SharedHub:
    """One of the hubs; ``number`` tells their caches apart."""

    catalog: str
    bucket: str
    cache: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    first_token: str | None = None
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> SharedHub:
        command = [sys.executable, "-m", "epochal", "hub", "serve", "--port", str(self.port)]
        command += ["--catalog", self.catalog, "--bucket", self.bucket]
        environment = {**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"}
        environment["EPOCHAL_CACHE_DIR"] = str(self.cache)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("http://"):
                self.port = int(line.strip().rstrip("/").rpartition(":")[2])
            if line.startswith("ep_"):
                self.first_token = line.strip()
            if line.startswith("A token for a machine"):
                return self
        raise AssertionError("the hub did not start")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(120)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def client(self, token: str) -> HubClient:
        return HubClient(self.url, token, timeout_s=120)

    def ask(self, path: str, token: str) -> Any:
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)
