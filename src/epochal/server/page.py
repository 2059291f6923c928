"""Loads the built page and the hashes of its scripts and styles."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

_SCRIPT = re.compile(rb"<script\b[^>]*>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
_STYLE = re.compile(rb"<style\b[^>]*>(.*?)</style\s*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Page:
    """One self-contained HTML file; ``is_built`` is False for the fallback."""

    html: bytes
    is_built: bool

    @cached_property
    def tag(self) -> str:
        """The entity tag of the file."""
        return f'W/"{hashlib.blake2b(self.html, digest_size=12).hexdigest()}"'

    @cached_property
    def compressed(self) -> bytes:
        """The file for browsers that read gzip."""
        return gzip.compress(self.html, compresslevel=6, mtime=0)

    @property
    def script_hashes(self) -> tuple[str, ...]:
        """The hashes of its inline scripts, as a Content-Security-Policy names them."""
        return tuple(map(_hash, _SCRIPT.findall(self.html)))

    @property
    def style_hashes(self) -> tuple[str, ...]:
        """The hashes of its inline styles."""
        return tuple(map(_hash, _STYLE.findall(self.html)))


def load_page() -> Page:
    """The page; where it has not been built, a sentence that says how to build it."""
    built = resources.files(__package__).joinpath("index.html")
    if built.is_file():
        return Page(built.read_bytes(), is_built=True)
    return Page(_FALLBACK.encode(), is_built=False)


def _hash(content: bytes) -> str:
    # Browsers hash what they parsed, and parsing turns every line end into a newline.
    normal = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return "sha256-" + base64.b64encode(hashlib.sha256(normal).digest()).decode()


_FALLBACK = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Epochal</title>
<p>The page has not been built in this checkout: <code>make web</code> builds it (Node is needed).
The runs are served as JSON at <a href="api/runs">api/runs</a>.</p>
</html>
"""
