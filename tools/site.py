"""Builds the documentation site from the pages of the repository.

python tools/site.py             build/docs, then site/ with mkdocs
python tools/site.py --pages     only build/docs
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OUT = ROOT / "build" / "docs"
# Pages from elsewhere in the repository, and where they are on the site.
ELSEWHERE: Mapping[str, str] = {
    "CHANGELOG.md": "development/changelog.md",
    "CODE_OF_CONDUCT.md": "development/code-of-conduct.md",
    "CONTRIBUTING.md": "development/contributing.md",
    "SECURITY.md": "development/security.md",
    "benchmarks/RESULTS.md": "development/results.md",
    "examples/README.md": "how-to/examples.md",
    "examples/gpt2/README.md": "how-to/gpt2.md",
    "web/README.md": "development/page.md",
}
# What is on the site under another page's address.
SHOWN_BY: Mapping[str, str] = {"README.md": "index.md", "LICENSE": "index.md"}
_LINK = re.compile(
    r"`[^`\n]+`"  # code, which is left alone
    r"|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]"
    r"\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)"
)


def pages() -> dict[str, Path]:
    """Every page of the site by its path there."""
    own = {path.relative_to(DOCS).as_posix(): path for path in DOCS.rglob("*.md")}
    return {**own, **{place: ROOT / source for source, place in ELSEWHERE.items()}}


def linked(text: str, place: str, source: Path) -> str:
    """The text with links that fit its place on the site; code is left alone."""
    fences = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(fences), 2):
        fences[number] = _LINK.sub(lambda link: _link(link, place, source), fences[number])
    return "".join(fences)


def _link(link: re.Match[str], place: str, source: Path) -> str:
    target, anchor = link["target"], link["anchor"] or ""
    if not target or "://" in target or target.startswith("mailto:"):
        return link[0]
    path = (source.parent / target).resolve()
    if path.is_relative_to(DOCS):
        return (
            link[0]
            if source.is_relative_to(DOCS)
            else _to(link, place, path.relative_to(DOCS).as_posix())
        )
    name = path.relative_to(ROOT).as_posix()
    if name in ELSEWHERE or name in SHOWN_BY:
        return _to(link, place, {**ELSEWHERE, **SHOWN_BY}[name], anchor)
    if not path.exists():
        raise SystemExit(f"{source.relative_to(ROOT)} links to {target}, which does not exist")
    address = source_url()
    return f"[{link['text']}]({address}/blob/main/{name})" if address else link["text"]


def _to(link: re.Match[str], place: str, target: str, anchor: str | None = None) -> str:
    relative = posixpath.relpath(target, posixpath.dirname(place) or ".")
    anchor = (link["anchor"] or "") if anchor is None else anchor
    return f"{link['image']}[{link['text']}]({relative}{anchor})"


def source_url() -> str:
    """The address of the repository; empty until it is known."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["tool"]["epochal-release"]["source_url"])


def write_pages() -> None:
    """Write build/docs."""
    shutil.rmtree(OUT, ignore_errors=True)
    shutil.copytree(DOCS, OUT, ignore=shutil.ignore_patterns("*.md"))
    for place, source in pages().items():
        path = OUT / place
        path.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        path.write_text(linked(text, place, source), encoding="utf-8")


def main() -> int:
    write_pages()
    if "--pages" in sys.argv[1:]:
        return 0
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
