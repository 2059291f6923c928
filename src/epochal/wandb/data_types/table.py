"""``wandb.Table``: rows and columns, kept as one JSON file and shown as a table on the page."""

from __future__ import annotations

import hashlib
import math
import mimetypes
from collections.abc import Iterator, Sequence
from typing import Any

from epochal.journal.line import encode_json
from epochal.media.files import TABLE
from epochal.run.run import Run
from epochal.wandb.data_types.media import Media, MediaFile, WBValue, keep_file

_COLUMNS = ("Input", "Output", "Expected")


class Table(Media):
    """Rows under named columns: lists, an array, or a data frame of pandas."""

    MAX_ROWS = 10_000
    MAX_ARTIFACT_ROWS = 200_000
    _log_type = "table-file"

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        dtype: Any = None,
        optional: bool | list[bool] = True,
        allow_mixed_types: bool = False,
        log_mode: str | None = "IMMUTABLE",
    ) -> None:
        super().__init__()
        self.columns: list[Any] = []
        self.data: list[list[Any]] = []
        if log_mode not in (None, "IMMUTABLE", "MUTABLE", "INCREMENTAL"):
            raise ValueError(f"Invalid log_mode: {log_mode!r}")
        self.log_mode = log_mode
        if dataframe is None and hasattr(data, "to_dict") and hasattr(data, "columns"):
            dataframe = data
        if dataframe is not None:
            self.columns = [str(name) for name in dataframe.columns]
            self.data = [list(row) for row in dataframe.itertuples(index=False)]
            return
        given = rows if data is None else data
        listed = given.tolist() if hasattr(given, "tolist") else list(given or [])
        if columns is None:
            width = len(listed[0]) if listed and hasattr(given, "shape") else len(_COLUMNS)
            columns = _COLUMNS if width == len(_COLUMNS) else list(range(width))
        if not all(isinstance(name, (str, int)) for name in columns):
            raise ValueError("columns argument expects list of strings or ints")
        self.columns = list(columns)
        for row in listed:
            self.add_data(*row)

    def add_data(self, *data: Any) -> None:
        """Append a row, with one value for each column."""
        if len(data) != len(self.columns):
            raise ValueError(
                f"This table expects {len(self.columns)} columns: {self.columns}, found {len(data)}"
            )
        self.data.append(list(data))

    def add_row(self, *row: Any) -> None:
        """Append a row; the older name of ``add_data``."""
        self.add_data(*row)

    def add_column(self, name: str, data: Any, optional: bool = False) -> None:
        """Append a column, with one value for each row."""
        values = list(data)
        if self.data and len(values) != len(self.data):
            raise ValueError(f"Expected {len(self.data)} rows, found {len(values)}")
        if not self.data:
            self.data = [[] for _ in values]
        for row, value in zip(self.data, values, strict=True):
            row.append(value)
        self.columns.append(name)

    def get_column(self, name: str, convert_to: str | None = None) -> Any:
        """The values of a column, as a list or with ``convert_to="numpy"`` as an array."""
        index = self.columns.index(name)
        values = [row[index] for row in self.data]
        if convert_to == "numpy":
            import numpy as np

            return np.array(values)
        return values

    def get_dataframe(self) -> Any:
        """The table as a data frame of pandas, which must be installed."""
        from importlib import import_module

        return import_module("pandas").DataFrame.from_records(self.data, columns=self.columns)

    def get_index(self) -> list[int]:
        """The numbers of the rows."""
        return list(range(len(self.data)))

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        """Each row with its number."""
        yield from enumerate(self.data)

    def cast(self, col_name: str, dtype: Any, optional: bool = False) -> None:
        """Do nothing: columns have no types."""

    def files(self) -> Iterator[MediaFile]:
        """The table as one JSON file: ``columns`` and ``data``."""
        yield MediaFile(self._json([[_cell(value) for value in row] for row in self.data]), TABLE)

    def artifact_files(self, name: str) -> Iterator[tuple[str, MediaFile]]:
        """The table, and the pictures and the like in its cells, which it names by their paths."""
        files: dict[str, MediaFile] = {}
        rows = [[_cell_of_artifact(value, files) for value in row] for row in self.data]
        yield from files.items()
        yield name, MediaFile(self._json(rows), TABLE)

    def write_to(self, run: Run, name: str, step: int) -> None:
        """Keep the table; pictures and the like in its cells are kept as files of their own."""
        rows = [
            [
                self._kept(value, run, f"{name}/{column}/{number}", step)
                for column, value in zip(self.columns, row, strict=True)
            ]
            for number, row in enumerate(self.data)
        ]
        keep_file(run, name, MediaFile(self._json(rows), TABLE), step)

    def to_json(self, run: Any = None) -> dict[str, Any]:
        """The size of the table."""
        return {"_type": self._log_type, "ncols": len(self.columns), "nrows": len(self.data)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and self.data == other.data

    def __hash__(self) -> int:
        return id(self)

    def _json(self, rows: list[list[Any]]) -> bytes:
        return encode_json({"columns": [str(name) for name in self.columns], "data": rows})

    @staticmethod
    def _kept(value: Any, run: Run, name: str, step: int) -> Any:
        if not isinstance(value, WBValue):
            return _cell(value)
        value.write_to(run, name, step)
        return name


class EvalTable(Table):
    """A table of an evaluation, kept as any table; ``*_columns`` and ``backend`` have no effect."""

    def __init__(
        self,
        *args: Any,
        input_columns: list[str] | None = None,
        output_columns: list[str] | None = None,
        score_columns: list[str] | None = None,
        backend: Any = None,
        unsupported_media_mode: str = "stub",
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)


def _cell_of_artifact(value: Any, files: dict[str, MediaFile]) -> Any:
    """A cell as W&B writes it: of a picture its type, its path in the artifact and its digest."""
    if not isinstance(value, WBValue):
        return _cell(value)
    cell: dict[str, Any] = _cell(value.to_json())
    for file in value.files() if isinstance(value, Media) else ():
        digest = hashlib.sha256(file.data).hexdigest()
        suffix = mimetypes.guess_extension(file.media_type) or ""
        path = f"media/{value._log_type.removesuffix('-file')}s/{digest[:20]}{suffix}"
        files[path] = file
        cell |= {"path": path, "sha256": digest}
    return cell


def _cell(value: Any) -> Any:
    """A value as JSON has it: numbers that are not finite and other objects as texts."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_cell(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _cell(item) for key, item in value.items()}
    return str(value)
