"""Kinds besides numbers: distributions, texts, samples, files, graphs."""

from __future__ import annotations

from epochal.records.kind import Field, counts, kind, nested, numbers, texts

HISTOGRAM = kind(
    "histogram",
    "step",
    "the distribution of many values, in equal bins",
    Field("name", "text"),
    Field("lo", meaning="left edge of the first bin"),
    Field("hi", meaning="right edge of the last bin; `lo` where all values are equal"),
    Field("counts", "list", meaning="values in each bin"),
    Field("count", "count", meaning="finite values"),
    *numbers("min", "max", "mean", "std"),
    Field("nonfinite_count", "count", meaning="values that are not finite"),
    Field("sampled_from", "count", meaning="of how many values these were taken evenly"),
)
TEXT = kind(
    "text",
    "step",
    "a text",
    *texts("name", "text"),
    Field("format", "text", meaning="`markdown`, or absent for plain text"),
    Field("caption", "text"),
)
_FILE = (
    Field("name", "text"),
    Field("file", "text", meaning="its name in `blobs/`; `NAME.raw` has pixels to be encoded"),
    Field(
        "media_type",
        "text",
        meaning="`application/vnd.epochal.table+json`: `columns`, and rows in `data`",
    ),
    Field("bytes", "count", "bytes", meaning="absent where pixels were not encoded yet"),
    Field("caption", "text"),
)
BLOB = kind(
    "blob",
    "step",
    "a sample that is a file in `blobs/`, such as a picture or a table",
    *_FILE,
    Field("index", "count", meaning="its place in a list that was logged under one name"),
    *counts("width", "height", unit="pixels"),
    Field("frames", "count", meaning="of a video that is an animated picture"),
    Field("rows", "count", meaning="of a table"),
    nested(
        "boxes",
        "list",
        "drawn over a picture; edges are shares of its width and height",
        *texts("group", "label"),
        *numbers("score", "x0", "y0", "x1", "y1"),
    ),
    nested(
        "masks",
        "list",
        "grey pictures of class numbers that belong to a picture",
        *texts("group", "file"),
        Field("labels", "object", meaning="names of classes by their numbers"),
    ),
    nested(
        "chart",
        "object",
        "how to draw a table; all but kind and title are names of columns",
        Field("kind", "text", choices=("line", "scatter", "bar", "histogram", "matrix")),
        *texts("x", "y", "color", "value", "title"),
    ),
    Field("files", "list", meaning="names of further files, such as pictures in cells"),
)
FILE = kind("file", "step", "a file that the user keeps with the run", *_FILE)
GRAPH = kind(
    "graph",
    "none",
    "a picture of a model, and facts under any names",
    *texts("name", "svg"),
    nested(
        "nodes",
        "list",
        "one object for each layer or operation",
        *texts("name", "op"),
        Field("inputs", "list", meaning="names of nodes"),
    ),
)

SAMPLES = (HISTOGRAM, TEXT, BLOB, FILE, GRAPH)
