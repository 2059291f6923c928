"""Every rule there is, in the order they look at a record; advice, built on the others, last."""

from __future__ import annotations

from epochal.health.rule import Rule

CURVE_RULES: tuple[type[Rule], ...] = ()
MACHINE_RULES: tuple[type[Rule], ...] = ()
ADVICE_RULES: tuple[type[Rule], ...] = ()

RULES: tuple[type[Rule], ...] = (*CURVE_RULES, *MACHINE_RULES, *ADVICE_RULES)
