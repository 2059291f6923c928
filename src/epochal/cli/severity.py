"""How grave a line of a log is, from its level and from what programs print when they fail."""

from __future__ import annotations

import re

# Of findings.
MARKS = {"error": "✗", "warning": "!", "info": "·"}
STYLES = {"error": "bad", "warning": "warn", "info": ""}
_ALARMS = ("error", "critical", "fatal", "exception", "traceback")
_LEVELS = {"warning": "warn", "stderr": "warn", "debug": "dim"}
_CAPTURED = ("stdout", "stderr")
# Capitals and full names: "error 0.31" and "0 errors" are figures, not failures.
_FAILURE = re.compile(
    r"""Traceback\ \(most\ recent\ call\ last\)
      | ^\s+File\ ".*",\ line\ \d+
      | \b[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|$)
      | (?:^|[\s\[:|])(?:ERROR|FATAL|CRITICAL|PANIC)\b
      | (?i:\bout\ of\ memory\b|\bsegmentation\ fault\b|\bcore\ dumped\b|\bassertion\b.*\bfailed\b)
      | (?i:^\s*(?:fatal|error|panic)(?:\ error)?:\s)
      | (?i:device-side\ assert|illegal\ memory\ access|bus\ error)
    """,
    re.VERBOSE,
)
_WARNING = re.compile(r"(?:^|[\s\[:|])WARN(?:ING)?\b|\b\w*Warning:|^\s*(?i:warning):\s")


def severity_of(level: str, text: str) -> str:
    """The style of a message: ``bad``, ``warn``, ``dim``, or empty for an ordinary one.

    Lines that were captured as a program printed them say by themselves how grave they are.
    """
    if level in _ALARMS:
        return "bad"
    if level in _CAPTURED:
        if _FAILURE.search(text) or (level == "stderr" and _names_an_alarm(text)):
            return "bad"
        if _WARNING.search(text):
            return "warn"
    return _LEVELS.get(level, "")


def _names_an_alarm(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _ALARMS)
