"""Pages and figures that a browser draws: ``wandb.Html`` and ``wandb.Plotly``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epochal.wandb.data_types.image import Image, is_figure
from epochal.wandb.data_types.media import Media, MediaFile, path_or_data


class Html(Media):
    """A page, as a text or as the path of a file that ends in ``.html``."""

    _log_type = "html-file"

    def __init__(self, data: Any, inject: bool = True, data_is_not_path: bool = False) -> None:
        super().__init__()
        is_text = isinstance(data, (str, os.PathLike))
        is_path = is_text and str(data).endswith(".html") and _is_file(str(data))
        if is_path and not data_is_not_path:
            self.html = Path(data).read_text(encoding="utf-8")
        elif isinstance(data, str):
            self.html = data
        elif hasattr(data, "read"):
            self.html = path_or_data(data, what="Html").decode()
        else:
            raise ValueError("data must be a string or an io object")

    def files(self) -> Iterator[MediaFile]:
        """The page; nothing is added to it."""
        yield MediaFile(self.html.encode(), "text/html")


class Plotly(Media):
    """A figure of plotly, kept as its JSON; one of Matplotlib is kept as a picture."""

    _log_type = "plotly-file"

    def __init__(self, val: Any) -> None:
        super().__init__()
        self._picture = Image(val) if is_figure(val) else None
        if self._picture is None and not hasattr(val, "to_plotly_json"):
            raise ValueError("Logged plots must be plotly figures or matplotlib plots.")
        self._figure = val

    @classmethod
    def make_plot_media(cls, val: Any) -> Image | Plotly:
        """A figure as what it is kept as."""
        return Image(val) if is_figure(val) else cls(val)

    def files(self) -> Iterator[MediaFile]:
        """The figure."""
        if self._picture is not None:
            yield from self._picture.files()
            return
        whole = getattr(self._figure, "to_json", None)
        plain = self._figure.to_plotly_json()
        text = whole() if callable(whole) else json.dumps(plain, default=str)
        yield MediaFile(str(text).encode(), "application/json")


def is_plotly(value: Any) -> bool:
    """Whether a value is a figure of plotly."""
    return type(value).__module__.startswith("plotly.") and hasattr(value, "to_plotly_json")


def _is_file(path: str) -> bool:
    try:
        return os.path.isfile(path)
    except ValueError:  # a text with a NUL
        return False
