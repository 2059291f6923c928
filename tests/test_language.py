"""The language of the code: no name that the glossary replaced."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Names of the first release that got the word of the field; they must not return.
REPLACED = frozenset(
    """
    Charge Bell knock DeathWatch Witness testify Docket Seen Ailing Sieve graver
    told_as said_again Vocabulary IdentifiedRun RecordingRun write_unseen on_look Pace Shown Held
    LeftPart take_over as_they_stand Wish Places lanes Desk Chronicle heed leave_out
    archive_wish Meeting waiting_room Clockwork is_graver TagBook SaysWhatIsMissing say_lost
    """.split()
)


def test_replaced_names_stay_out() -> None:
    defined = re.compile(rf"^\s*(class|def|async def) ({'|'.join(REPLACED)})\b", re.MULTILINE)
    found = [
        f"{file.relative_to(ROOT)}: {match[0].strip()}"
        for file in (ROOT / "src").rglob("*.py")
        for match in defined.finditer(file.read_text(encoding="utf-8"))
    ]
    assert found == []
