"""How newer servers store a line: its text with gaps, and the long numbers as numbers.

The digits of a noisy number take more than 8 bytes in any codec of text. As a number it takes 6.7,
or 3 where it was a float32. The server takes each line apart when it is inserted, and puts it
together again to compare: a line that would come back otherwise is stored as text alone.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from epochal.store.clickhouse.connection import ClickHouseError, Server, Via, literal

# The first version with all that is used here; 26.9 is the one that is tested.
SINCE = (24, 8)
# Fewer digits take less as text. Smaller numbers stay in the text: servers write them otherwise.
_LONG = "'[1-9][0-9]*[.][0-9]{12,}|0[.]0{0,3}[1-9][0-9]{11,}'"
_GAP = "'\\x01'"
# Numbers that every version writes without an exponent: a newer server has to read them too.
_PLAIN = "number >= 0.0001 AND number < 1e15"
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
    f" arrayMap(x -> toFloat64(x), extractAll(plain, {_LONG})) AS floats,"
    " arrayMap(x -> reinterpretAsUInt64(x), floats) AS bits,"
    f" arrayAll(number -> {_PLAIN}, floats) AND {_whole('gaps', 'bits')} = line AS same"
    " FROM {rows})",
    # Before 26.7, up to one number in forty is read wrong by its last bit without it.
    {"precise_float_parsing": 1},
)
# For a server that refuses the other one.
WHOLE = Via(
    ("run", "part", "ordinal", "text"), "SELECT run, part, ordinal, line AS text FROM {rows}"
)
_SAMPLE = (0.1234567890123, 2.718281828459045, 1234.567890123456, 0.00012345678901234)
_SAMPLE_LINE = "|".join(map(repr, _SAMPLE))


def takes_apart(server: Server) -> bool:
    """Whether a server takes the numbers out of a line."""
    if server.version < SINCE:
        return False
    row = f"(SELECT '' AS run, '' AS part, 0 AS ordinal, {literal(_SAMPLE_LINE)} AS line)"
    query = TAKEN_APART.query.replace("{rows}", row)
    statement = f"SELECT length(numbers) FROM ({query}) FORMAT TabSeparatedRaw"
    try:
        return int(server.query(statement, **TAKEN_APART.settings)) == len(_SAMPLE)
    except ClickHouseError as error:
        if not error.code or error.is_passing:
            raise
        return False


def check_reading(server: Server) -> None:
    """Raise ``ClickHouseError`` where a server would write the numbers of lines otherwise."""
    bits = (int.from_bytes(struct.pack("<d", number), "little") for number in _SAMPLE)
    numbers = ", ".join(f"toUInt64({one})" for one in bits)
    gaps = "concat('', " + ", '|', ".join([_GAP] * len(_SAMPLE)) + ")"
    whole = server.query(f"SELECT {_whole(gaps, f'[{numbers}]')} FORMAT TabSeparatedRaw")
    if whole != f"{_SAMPLE_LINE}\n".encode():
        major, minor = server.version
        raise ClickHouseError(
            f"ClickHouse {major}.{minor} writes numbers otherwise than the servers that stored the"
            " lines: remove settings of floats from the profile of its user, or install the"
            " version that was there before.",
            is_final=True,
        )
