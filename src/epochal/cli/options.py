"""The words of a command line that are options of the form ``--name value`` or ``--name=value``."""

from __future__ import annotations

from collections.abc import Sequence


def flag_name(word: str) -> str:
    """The name of an option, as a variable would be written."""
    return word.lstrip("-").partition("=")[0].replace("-", "_")


def options_of(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Options with the words that follow them, in order; none for a switch."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            _, has_value, value = word.partition("=")
            found.append((flag_name(word), [value] if has_value else []))
        elif found:
            found[-1][1].append(word)
    return found
