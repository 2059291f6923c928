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
    """The page; where it has not been built, a plain list of runs with build instructions."""
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
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Epochal</title>
<style>
  :root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
  body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; }
</style>
<h1>Epochal</h1>
<p>The page has not been built in this checkout: <code>make web</code> builds it (Node is needed).
   Runs are served all the same:</p>
<table><thead><tr><th>run</th><th>project</th><th>status</th><th>step</th></tr></thead>
<tbody id="rows"></tbody></table>
<p id="note"></p>
<script>
  const show = async () => {
    const list = await (await fetch("api/runs?limit=200")).json();
    const rows = list.rows.map((run) => {
      const row = document.createElement("tr");
      const texts = [run.name, run.project, run.problem ?? run.status.text, run.step ?? run.epoch];
      for (const text of texts) {
        row.appendChild(document.createElement("td")).textContent = text ?? "";
      }
      return row;
    });
    document.getElementById("rows").replaceChildren(...rows);
    document.getElementById("note").textContent =
      list.total ? `${list.total} runs` : "No runs in this folder yet.";
  };
  show();
  new EventSource("api/events").addEventListener("runs", show);
</script>
</html>
"""
