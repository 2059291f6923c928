"""What the words in the name of a metric tell: its goal, its possible values, its plain name."""

from __future__ import annotations

import re
from functools import lru_cache

from epochal.series.trend import Goal

_MORE = frozenset(
    "accuracy acc top1 top5 precision recall f1 auc auroc auprc map miou iou dice bleu chrf meteor"
    " rouge rouge1 rouge2 rougel r2 psnr ssim reward".split()
)
_LESS = frozenset("loss perplexity ppl wer cer fid mse rmse mae".split())
_SHARES = frozenset(
    "accuracy acc top1 top5 precision recall f1 auc auroc auprc map miou iou dice wer cer".split()
)
_BETWEEN_WORDS = re.compile(r"[/._\s@-]+")
_EVALUATIONS = frozenset("eval val valid validation test dev".split())


@lru_cache(maxsize=4096)
def guess_goal(name: str) -> Goal | None:
    """Better is more for ``val_acc`` and ``eval/f1``, less for ``perplexity``; None for others."""
    last = _BETWEEN_WORDS.split(name.lower())[-1]
    if last in _MORE:
        return "max"
    return "min" if last in _LESS else None


def is_evaluation(name: str) -> bool:
    """Whether a name begins as those of an evaluation do: ``val/acc``, ``test_loss``."""
    return re.split(r"[/._]", name.lower(), maxsplit=1)[0] in _EVALUATIONS


def possible_range(
    name: str, smallest: float | None, largest: float | None
) -> tuple[float | None, float | None]:
    """Bounds for what is drawn around a metric, given its extremes; None for no bound.

    Shares such as an accuracy lie between 0 and 1. What was never below 0 has 0 as its bound.
    """
    if smallest is None or largest is None or smallest < 0:
        return None, None
    last = _BETWEEN_WORDS.split(name.lower())[-1]
    return 0.0, 1.0 if last in _SHARES and largest <= 1 else None


_BY_ROLE = {"loss": "train", "eval_loss": "val"}
# The score that is reported, by length-normalised choice; ``hellaswag_acc`` is another one.
_HELLASWAG = re.compile(r"(.*[/._])?hellaswag([_/.]?(accuracy|acc[_/.]?norm))?", re.IGNORECASE)


def plain_kind(name: str, *, role: str | None) -> str:
    """One word: ``train``, ``val``, ``hellaswag``, else the name with ``_`` for its blanks."""
    if role in _BY_ROLE:
        return _BY_ROLE[role]
    return "hellaswag" if _HELLASWAG.fullmatch(name) else plain_word(name)


def plain_word(text: str) -> str:
    """A text as one word, so that a line always has three."""
    joined = "_".join(text.split()) or "_"
    return joined if joined.isprintable() else repr(joined)[1:-1]
