"""A real S3 server, in a process of its own: moto's."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass
class S3Server:
    """``environment`` is what programs read to find it."""

    endpoint: str
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> str:
        """Make an empty bucket; its address."""
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request):
            pass
        return f"s3://{name}"


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = S3Server(f"http://127.0.0.1:{port}", process)
        while True:
            assert process.poll() is None, "the S3 server did not start"
            try:
                with urllib.request.urlopen(f"{server.endpoint}/moto-api/", timeout=5):
                    break
            except OSError:
                time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()
