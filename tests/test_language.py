"""The language of docs and code: short sentences, and no name that the glossary replaced."""

from __future__ import annotations

import re
from pathlib import Path

from tools.language import long_sentences, sentences

ROOT = Path(__file__).parent.parent
READ_BY_USERS = [
    *("README.md", "CONTRIBUTING.md", "docs/index.md", "docs/explanation", "docs/how-to"),
    *("docs/reference", "docs/development/coverage.md", "examples/gpt2/README.md"),
]
# Names of the first release that got the word of the field; they must not return.
REPLACED = frozenset(
    """
    Charge Bell knock DeathWatch Witness testify Docket Seen Ailing Sieve graver
    told_as said_again Vocabulary IdentifiedRun RecordingRun write_unseen on_look Pace Shown Held
    LeftPart take_over as_they_stand Wish Places lanes Desk Chronicle heed leave_out
    archive_wish Meeting waiting_room Clockwork is_graver TagBook SaysWhatIsMissing say_lost
    """.split()
)


def test_docs_have_short_sentences() -> None:
    assert list(long_sentences(READ_BY_USERS)) == []


def test_a_long_sentence_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\nShort. {'word ' * 26}end.\n\n```\n{'code ' * 40}\n```\n")
    (found,) = long_sentences([str(page)])
    assert "page.md:3: 27 words" in found


def test_code_and_abbreviations_do_not_count() -> None:
    assert list(sentences("Use `a. b c` here, e.g. this. Then that.")) == [
        "Use ` here, eg this.",
        "Then that.",
    ]


def test_replaced_names_stay_out() -> None:
    defined = re.compile(rf"^\s*(class|def|async def) ({'|'.join(REPLACED)})\b", re.MULTILINE)
    found = [
        f"{file.relative_to(ROOT)}: {match[0].strip()}"
        for file in (ROOT / "src").rglob("*.py")
        for match in defined.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []
