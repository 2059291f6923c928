"""Prints sentences of more than 25 words.

python tools/language.py            README, docs and examples
python tools/language.py src web    docstrings and comments too
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_WORDS = 25
PAGES = ["README.md", "CONTRIBUTING.md", "docs", "examples/gpt2/README.md"]

# A word of running text. Code, addresses, signs and bare numbers do not count.
WORD = re.compile(r"[A-Za-z][\w'-]*")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=\S)")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|approx)\.", re.IGNORECASE)


def sentences(text: str) -> Iterator[str]:
    """The sentences of one paragraph."""
    text = re.sub(r"``[^`]+``|`[^`]+`", "`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", "", text)
    text = ABBREVIATION.sub(lambda match: match[1].replace(".", ""), text)
    yield from (sentence.strip() for sentence in END.split(" ".join(text.split())))


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """The line number and text of each paragraph, list item, heading and table cell."""
    block: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        bare = "" if line.startswith("<!--") else line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        ends = (
            not bare
            or bare.startswith(("```", "#", "- ", "* ", "|"))
            or bare[:2].rstrip(".").isdigit()
        )
        if (ends or fenced) and block:
            yield start, " ".join(block)
            block = []
        if fenced or bare.startswith("```"):
            continue
        if bare.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", bare):
                yield number, cell
        elif bare:
            start = start if block else number
            block.append(bare.lstrip("#-* "))


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The paragraphs of a Python file's docstrings."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                line = node.body[0].lineno
                for offset, paragraph in paragraphs(text):
                    if "::" not in paragraph and not re.search(r"  \S", paragraph):
                        yield line + offset - 1, paragraph


def files(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = ROOT / name
        yield from sorted(path.rglob("*")) if path.is_dir() else [path]


def long_sentences(names: list[str]) -> Iterator[str]:
    for path in files(names):
        if path.suffix == ".md" and path.name != "CHANGELOG.md":
            parts = paragraphs(path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            parts = docstrings(path)
        else:
            continue
        for line, paragraph in parts:
            for sentence in sentences(paragraph):
                count = len(WORD.findall(sentence))
                if count > MAX_WORDS:
                    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    yield f"{shown}:{line}: {count} words: {sentence}"


def main() -> int:
    found = list(long_sentences(sys.argv[1:] or PAGES))
    print("\n".join(found))
    print(f"{len(found)} sentences of more than {MAX_WORDS} words")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
