"""Supervised learning: classification, regression and dense labels."""

from __future__ import annotations

from types import MappingProxyType

from epochal.health.families.family import Facts, Family, in_config, logged

_SCORES = frozenset("acc accuracy top1 top5 f1 auc auroc iou miou dice map mse mae rmse r2".split())
_CLASSES = ("num_classes", "num_labels", "n_classes", "nb_classes", "num_class")


def _recognise(facts: Facts) -> str | None:
    if (name := facts.series(word=_SCORES)) is not None:
        return logged(name)
    if (key := facts.key(*_CLASSES)) is not None:
        return in_config(key)
    return "a watched loader gives classes" if facts.has_labels else None


FAMILY = Family(
    name="supervised",
    title="supervised learning",
    recognise=_recognise,
    curves=("evaluation loss", "accuracy or error", "training loss", "gradient norm"),
    normal=MappingProxyType(
        {
            "training loss": (
                "starts at log(classes) or at the variance of the targets, and bends: it falls "
                "fast and then slowly"
            ),
            "evaluation loss": "follows the training loss with a gap that does not grow",
            "accuracy or error": "better than always predicting the most frequent class or mean",
        }
    ),
)
