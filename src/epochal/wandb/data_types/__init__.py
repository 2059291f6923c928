"""The types of ``wandb.data_types``: what ``log`` accepts beside numbers."""

from epochal.wandb.data_types.files import Audio, Molecule, Object3D, Video, box3d
from epochal.wandb.data_types.histogram import Histogram
from epochal.wandb.data_types.html import Html, Plotly
from epochal.wandb.data_types.image import Image
from epochal.wandb.data_types.media import Media, WBValue
from epochal.wandb.data_types.table import EvalTable, Table


class Classes(WBValue):
    """Names of classes; accepted, and not shown."""

    def __init__(self, class_set: object) -> None:
        self._class_set = class_set


class Graph(WBValue):
    """A graph of layers; accepted, and not shown: ``watch(model, log_graph=True)`` draws one."""

    def __init__(self, format: str = "keras") -> None:  # noqa: A002 (W&B's name)
        self.format = format


__all__ = [
    "Audio",
    "Classes",
    "EvalTable",
    "Graph",
    "Histogram",
    "Html",
    "Image",
    "Media",
    "Molecule",
    "Object3D",
    "Plotly",
    "Table",
    "Video",
    "WBValue",
    "box3d",
]
