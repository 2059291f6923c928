"""Findings and the guide are filled from thresholds and evidence, so that no number drifts."""

from __future__ import annotations

import ast
import inspect
import re
import string
import sys

import pytest

from epochal.health.finding import fill
from epochal.health.registry import RULES
from epochal.health.rule import Message, Rule, declared

# Numbers in prose that are no thresholds: code, names of types, "0" and "1" as such, and bounds
# that no setting changes.
_CODE = re.compile(r"`[^`]*`|\b[a-z]+\d+\b")
_ALLOWED = {
    "data-labels": ("-100",),
    "large-returns": ("-10 and 10",),
    "low-sol": ("80 % is excellent",),
    "loss-spike": ("8 widths", "1.6 times"),
    "lr-too-low": ("0.01 % to 3 %",),
    "moe-imbalance": ("1.5 ×", "80 %", "0.001 to 0.1", "0.0001 to 0.01", "0.95 ×"),
    "plateau": ("2 ×",),
}
_PLAIN = re.compile(r"\b[01]\b(?![.,]\d| ?%)")


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("{n}", {"n": 12_345}, "12,345"),
        ("{loss}", {"loss": 0.00105883}, "0.00106"),
        ("{loss}", {"loss": 2.30258}, "2.30"),
        ("{loss}", {"loss": 0.1}, "0.1"),
        ("{ratio}", {"ratio": 11.4803}, "11.5"),
        ("{ratio}", {"ratio": 999.7}, "1,000"),
        ("{name}", {"name": "a.weight"}, "a.weight"),
        ("{ratio:times} times", {"ratio": 3.44}, "3.4 times"),
        ("{ratio:times} times", {"ratio": 1234.5}, "1,234 times"),
        ("{ratio:times} times", {"ratio": 3.5e8}, "3.5e+08 times"),
        ("{share:percent}", {"share": 0.35}, "35 %"),
        ("{share:percent}", {"share": 0.004}, "0.4 %"),
        ("{size:bytes}", {"size": 3 * 1024**3}, "3.0 GiB"),
        ("{seconds:duration}", {"seconds": 90}, "1m 30s"),
        ("{limit:plain}", {"limit": 100.0}, "100"),
    ],
)
def test_numbers_have_the_format_of_findings(
    template: str, values: dict[str, object], text: str
) -> None:
    assert fill(template, values) == text


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("{level}", {"ratio": 2.0})


def texts(rule: type[Rule]) -> list[str]:
    return [rule.healthy, *rule.reports.values()]


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_the_guide_takes_its_numbers_from_the_thresholds(rule: type[Rule]) -> None:
    for text in texts(rule):
        assert placeholders(text) <= declared(rule.Thresholds()).keys()
        assert "{" not in rule.described(text)
        prose = re.sub(r"{[^}]*}", "", _CODE.sub("", text))
        for allowed in _ALLOWED.get(rule.name, ()):
            prose = prose.replace(allowed, "")
        assert re.findall(r"\d[\d.,]*", _PLAIN.sub("", prose)) == []


def names_in(module: str) -> set[str]:
    """The names that a module gives to arguments, and its texts: keys of evidence are of both."""
    nodes = list(ast.walk(ast.parse(inspect.getsource(sys.modules[module]))))
    texts = {str(one.value) for one in nodes if isinstance(one, ast.Constant)}
    return texts | {one.arg for one in nodes if isinstance(one, ast.keyword) and one.arg}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_every_message_can_be_filled_and_has_a_severity_that_the_rule_explains(
    rule: type[Rule],
) -> None:
    known = names_in(rule.__module__) | declared(rule.Thresholds()).keys()
    assert rule.messages
    for message in rule.messages.values():
        assert isinstance(message, Message)
        assert message.severity in rule.reports
        for text in message.sentence, message.advice:
            assert placeholders(text) <= known
            assert text.endswith((".", "}"))
