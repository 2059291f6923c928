"""Fills the addresses of the package from ``[tool.epochal-release]``, for hatchling.

Relative links of the README become links into the repository, because package indexes show it too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ReleaseFacts(MetadataHookInterface):
    """Adds the addresses that are known."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``urls`` and ``readme``."""
        text = (Path(self.root) / "pyproject.toml").read_text(encoding="utf-8")
        facts = tomllib.loads(text)["tool"]["epochal-release"]
        source, documentation = facts["source_url"].rstrip("/"), facts["documentation_url"]
        urls = {"Documentation": documentation} if documentation else {}
        if source:
            urls["Source"] = source
            urls["Issues"] = f"{source}/issues"
            urls["Changelog"] = f"{source}/blob/main/CHANGELOG.md"
        metadata["urls"] = urls
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": linked(readme, source) if source else readme,
        }


def linked(text: str, source: str) -> str:
    """The text with addresses in the repository in place of relative links."""
    text = re.sub(r'(!\[[^]]*\]\(|src=")(?![a-z]+:)', rf"\1{source}/raw/main/", text)
    return re.sub(r"(?<!!)(\[[^]!]*\]\()(?![a-z]+:|#)", rf"\1{source}/blob/main/", text)
