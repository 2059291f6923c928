"""Kinds besides numbers: distributions, texts, files, pictures."""

from __future__ import annotations

from epochal.records.kind import Field, Kind

HISTOGRAM = Kind(
    "histogram",
    "step",
    "the distribution of many values, in equal bins",
    (
        Field("name", "text"),
        Field("lo", meaning="left edge of the first bin"),
        Field("hi", meaning="right edge of the last bin"),
        Field("counts", "list", meaning="values in each bin"),
        Field("count", "count", meaning="finite values"),
        Field("min"),
        Field("max"),
        Field("mean"),
        Field("std"),
        Field("nonfinite_count", "count", meaning="values that are not finite"),
        Field("sampled_from", "count", meaning="of how many values these were taken evenly"),
    ),
)
TEXT = Kind("text", "step", "a text", (Field("name", "text"), Field("text", "text")))
BLOB = Kind(
    "blob",
    "step",
    "a file in `blobs/`, such as an image",
    (
        Field("name", "text"),
        Field("file", "text", meaning="its name in `blobs/`"),
        Field(
            "media_type",
            "text",
            meaning="`application/vnd.epochal.table+json`: `columns`, and rows in `data`",
        ),
        Field("bytes", "count", "bytes"),
        Field("caption", "text"),
    ),
)
GRAPH = Kind(
    "graph",
    "none",
    "a picture of a model, and facts under any names",
    (
        Field("name", "text"),
        Field("svg", "text"),
        Field(
            "nodes",
            "list",
            meaning="one object for each layer or operation",
            fields=(
                Field("name", "text"),
                Field("op", "text"),
                Field("inputs", "list", meaning="names of nodes"),
            ),
        ),
    ),
)

SAMPLES = (HISTOGRAM, TEXT, BLOB, GRAPH)
