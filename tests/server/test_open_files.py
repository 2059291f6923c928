"""A server may have as many files open as the system lets it."""

import resource
import subprocess
import sys

_SERVER = """
import resource
from epochal.server.process import allow_open_files
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
allow_open_files(512)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
allow_open_files(256)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_server_raises_its_limit_of_open_files_and_never_lowers_it() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 512 if hard == resource.RLIM_INFINITY else min(512, hard)
    printed = subprocess.run(
        [sys.executable, "-c", _SERVER], check=True, capture_output=True, text=True
    ).stdout
    assert printed == f"{wanted} {hard}\n" * 2
