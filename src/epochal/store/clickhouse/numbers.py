"""How newer servers store a line: its text with gaps, and the long numbers as numbers.

The digits of a noisy number take more than 8 bytes in any codec of text. As a number it takes 6.7,
or 3 where it was a float32. The server takes each line apart when it is inserted, and puts it
together again to compare: a line that would come back otherwise is stored as text alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from epochal.store.clickhouse.connection import Via

# Fewer digits take less as text.
_LONG = "'[0-9]+[.][0-9]{12,}'"
_GAP = "'\\x01'"
COLUMNS: Mapping[str, str] = {"text": "String", "numbers": "Array(UInt64)"}
# The bits of numbers, transposed: signs, exponents and zeros of many stand together.
CODECS: Mapping[str, str] = {"text": "ZSTD(1)", "numbers": "T64('bit'), ZSTD(1)"}


def _whole(text: str, numbers: str) -> str:
    pieces = f"splitByChar({_GAP}, {text})"
    digits = f"arrayMap(x -> toString(reinterpretAsFloat64(x)), {numbers})"
    return (
        "arrayStringConcat(arrayMap((piece, number) -> concat(piece, number),"
        f" {pieces}, arrayResize({digits}, length({pieces}), '')))"
    )


# A line as it was sent; a text without numbers may have the character of a gap itself.
LINE = f"if(empty(numbers), text, {_whole('text', 'numbers')})"


TAKEN_APART = Via(
    ("run", "part", "ordinal", *COLUMNS),
    "SELECT run, part, ordinal, if(same, gaps, line) AS text,"
    " if(same, bits, emptyArrayUInt64()) AS numbers FROM (SELECT run, part, ordinal, line,"
    f" if(position(line, {_GAP}) > 0, '', line) AS plain,"
    f" replaceRegexpAll(plain, {_LONG}, {_GAP}) AS gaps,"
    " arrayMap(x -> reinterpretAsUInt64(toFloat64(x)),"
    f" extractAll(plain, {_LONG})) AS bits, {_whole('gaps', 'bits')} = line AS same FROM {{rows}})",
)
# For a server that refuses the other one.
WHOLE = Via(
    ("run", "part", "ordinal", "text"), "SELECT run, part, ordinal, line AS text FROM {rows}"
)
