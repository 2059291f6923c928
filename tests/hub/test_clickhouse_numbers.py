"""Lines come back as they were sent, however a server stores their numbers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.store.clickhouse import numbers, schema
from epochal.store.clickhouse import tables as tables_module
from epochal.store.clickhouse.connection import Address, ClickHouseError, Via, parse_address
from epochal.store.clickhouse.schema import LINES, LIVE, stored
from epochal.store.clickhouse.tables import Tables
from tests.hub.clickhouse import ENGINES, new_database

pytestmark = pytest.mark.slow
STEM = "loop.0001.0000"
ODD = [
    b'{"m":{"loss":0.12345678901234567,"lr":1e-05,"n":3,"whole":1.0}}',
    b'{"m":{"loss":-2.718281828459045,"norm":123456.78901234567}}',
    b'{"m":{"tiny":0.00000012345678901234,"many":0.123456789012345678901234567890}}',
    b'{"m":{"zeros":007.1234567890123,"last":1.1234567890120}}',
    b'{"m":{"large":1%s.000000000000}}' % (b"0" * 400),
    b'{"text":"a gap \x01 and 0.12345678901234567"}',
    b"\x01",
    b"\xff\xfe is not UTF-8: 0.12345678901234567 \xc3",
    b'{"text":"\\t\\\\ \t 0.1234567890123 a\'b"}',
    b"0.1234567890123",
    b"",
    b" ",
    "Grüße 0.9876543210987654 ✓".encode(),
]


@pytest.fixture(params=ENGINES)
def address(request: pytest.FixtureRequest) -> Address:
    return new_database(request.param)


@pytest.fixture
def tables(address: Address) -> Iterator[Tables]:
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        yield tables


def read(tables: Tables, run_id: str, end: int) -> list[bytes]:
    return b"".join(tables.lines(run_id, STEM, first=0, end=end)).split(b"\n")[:-1]


def test_odd_lines_come_back(tables: Tables) -> None:
    tables.append("one", STEM, first=0, lines=b"\n".join(ODD) + b"\n")
    assert read(tables, "one", len(ODD)) == ODD
    # And people who query the table see them.
    query = f"SELECT line FROM {tables.name(LINES)} ORDER BY ordinal LIMIT 1 BY ordinal"
    assert tables.ask(f"{query} FORMAT TabSeparatedRaw") == b"\n".join(ODD) + b"\n"


def test_long_lines_come_in_blocks_of_some_bytes(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "_FIRST_WINDOW", 16)
    monkeypatch.setattr(tables_module, "_WINDOW_BYTES", 20_000)
    stored = [b"%d " % number + b"x" * (20 if number < 400 else 500) for number in range(4000)]
    tables.append("one", STEM, first=0, lines=b"\n".join(stored) + b"\n")
    blocks = list(tables.lines("one", STEM, first=0, end=4000))
    assert b"".join(blocks).splitlines() == stored
    assert 50 < len(blocks) < 200
    assert max(map(len, blocks[-50:])) < 25_000


SPELLINGS = [
    "-0.0",
    "1e400",
    "NaN",
    '"NaN"',
    '"nan(0x7)"',
    "9007199254740993",
    "1E+5",
    "+.5",
    "0x1p3",
]
NUMBER = (
    st.floats().map(repr)
    | st.floats(1e-5, 1e16).map(repr)
    | st.floats(0, 1e20).map(lambda number: f"{number:.17f}")
    | st.floats(width=32).map(repr)
    | st.integers().map(str)
    | st.decimals(allow_nan=False).map(str)
    | st.sampled_from(SPELLINGS)
)
NAMED = st.tuples(st.sampled_from(["loss", "lr", "a.b"]), NUMBER)


def written(step: int, values: list[tuple[str, str]]) -> bytes:
    """A record with values in any order, some names more than once."""
    texts = ",".join(f'"{name}":{value}' for name, value in values)
    return f'{{"log":"metrics","step":{step},"m":{{{texts}}}}}'.encode()


RECORD = st.builds(written, st.integers(), st.lists(NAMED, max_size=8))
TEXT = st.lists(NUMBER | st.text(), max_size=8).map(
    lambda pieces: "|".join(pieces).encode("utf-8", "replace")
)
ANY_LINE = (RECORD | TEXT | st.binary()).map(lambda line: line.replace(b"\n", b" "))


def test_any_line_comes_back(tables: Tables) -> None:
    runs = iter(range(1 << 30))

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.lists(ANY_LINE, min_size=1, max_size=100))
    def check(lines: list[bytes]) -> None:
        run_id = f"run{next(runs)}"
        tables.append(run_id, STEM, first=0, lines=b"\n".join(lines) + b"\n")
        assert read(tables, run_id, len(lines)) == lines

    check()


def test_a_server_that_refuses_to_take_lines_apart_stores_them_whole(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Via(("run", "part", "ordinal", "text"), "SELECT nobody(line) FROM {rows}")
    monkeypatch.setattr(tables_module, "TAKEN_APART", refused)
    if tables._via is not None:
        tables._via = refused
    for first in range(0, len(ODD), 5):
        some = ODD[first : first + 5]
        tables.append("one", STEM, first=first, lines=b"\n".join(some) + b"\n")
    assert read(tables, "one", len(ODD)) == ODD


NOISY = [b'{"m":{"loss":%s}}' % repr(0.1 + random.Random(n).random()).encode() for n in range(2000)]


def num_apart(tables: Tables) -> int:
    return int(
        tables.ask(
            f"SELECT countIf(notEmpty(numbers)) FROM {tables.name(LINES)} FORMAT TabSeparatedRaw"
        )
    )


def test_a_server_with_a_coarse_parser_takes_every_number_apart() -> None:
    with contextlib.closing(Tables(new_database("chdb"), every_s=0.0)) as tables:
        tables.ask("SET precise_float_parsing = 0")  # as servers before 26.7 have it
        try:
            tables.append("one", STEM, first=0, lines=b"\n".join(NOISY) + b"\n")
        finally:
            tables.ask("SET precise_float_parsing = 1")
        assert read(tables, "one", len(NOISY)) == NOISY
        num_long = sum(len(line) >= len(b'{"m":{"loss":0.123456789012}}') for line in NOISY)
        assert num_apart(tables) == num_long


def test_lines_of_one_insert_are_one_block_of_the_server() -> None:
    with contextlib.closing(Tables(new_database("chdb"), every_s=0.0)) as tables:
        small = {"max_block_size": 100, "min_insert_block_size_rows": 100}
        for name, value in {**small, "max_insert_threads": 4}.items():
            tables.ask(f"SET {name} = {value}")
        try:
            tables.append("one", STEM, first=0, lines=b"\n".join(NOISY) + b"\n")
        finally:
            for name in (*small, "max_insert_threads"):
                tables.ask(f"SET {name} = DEFAULT")
        database, _, table = stored(LINES, tables.address).partition(".")
        answer = tables.ask(
            f"SELECT count(), max(min_block_number) FROM system.parts WHERE database = '{database}'"
            f" AND table = '{table}' FORMAT TabSeparatedRaw"
        )
        assert answer.split() == [b"1", b"1"]


def test_a_server_that_writes_numbers_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    address = new_database("chdb")
    Tables(address).close()
    monkeypatch.setattr(numbers, "_SAMPLE_LINE", "1.234567890123e3")
    with pytest.raises(ClickHouseError, match="writes numbers otherwise than the servers"):
        Tables(address)


def test_tables_use_what_the_version_of_the_server_knows(address: Address) -> None:
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        made = {
            table.name: tables.ask(
                f"SHOW CREATE TABLE {stored(table, address)} FORMAT TabSeparatedRaw"
            )
            for table in (LINES, LIVE)
        }
        is_new = tables.server_version > (20, 0)
    for piece, table in (
        (b"CODEC(T64('bit'), ZSTD(1))", LINES),
        (b"LowCardinality(String)", LINES),
        (b"TTL received + ", LIVE),
        (b"fsync_after_insert = 1", LINES),
        (b"fsync_part_directory = 1", LIVE),
    ):
        assert (piece in made[table.name]) == is_new, piece


def layout_of(tables: Tables) -> set[str]:
    answer = tables.ask(f"DESCRIBE TABLE {tables.name(LINES)} FORMAT JSONEachRow")
    return {msgspec.json.decode(line)["name"] for line in answer.splitlines()}


def test_tables_from_before_keep_their_lines_and_take_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = new_database("chdb")
    with monkeypatch.context() as before:
        before.setattr(schema, "_STEPS", schema._STEPS[:2])
        before.setattr(schema, "VERSION", 2)
        before.setattr(numbers, "SINCE", (99, 0))
        with contextlib.closing(Tables(address, every_s=0.0)) as tables:
            tables.append("one", STEM, first=0, lines=b"\n".join(ODD) + b"\n")
            assert "numbers" not in layout_of(tables)
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        assert "numbers" not in layout_of(tables)
        tables.append("one", STEM, first=len(ODD), lines=b"\n".join(NOISY) + b"\n")
        assert read(tables, "one", len(ODD) + len(NOISY)) == [*ODD, *NOISY]


class _Known:
    """A server that answers which columns its lines have."""

    def __init__(self, version: tuple[int, int], columns: str) -> None:
        self.version = version
        self._columns = columns

    def query(self, statement: str, **settings: object) -> bytes:
        return b"4" if "length(numbers)" in statement else self._columns.encode()

    def insert(self, *args: object, **settings: object) -> None: ...

    def close(self) -> None: ...


NONE, LINE_WHOLE, LINE_APART = "0\t0", "5\t0", "6\t1"


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ([_Known((26, 9), NONE), _Known((26, 9), NONE)], True),
        ([_Known((26, 9), NONE), _Known((18, 16), NONE)], False),
        ([_Known((26, 9), LINE_WHOLE), _Known((26, 9), NONE)], False),
        ([_Known((26, 9), LINE_APART), _Known((26, 9), NONE)], True),
        ([_Known((26, 9), LINE_APART), _Known((18, 16), NONE)], None),
        ([_Known((26, 9), LINE_APART), _Known((26, 9), LINE_WHOLE)], None),
    ],
)
def test_all_servers_of_a_cluster_store_lines_in_one_way(
    servers: list[_Known], expected: bool | None
) -> None:
    address = parse_address("clickhouse://a,b/db?cluster=two")
    if expected is None:
        with pytest.raises(ClickHouseError, match="do not store lines in one way"):
            schema._is_apart(address, servers)
    else:
        assert schema._is_apart(address, servers) is expected


def test_a_small_number_keeps_the_others_of_its_line_from_nothing() -> None:
    line = b'{"loss":2.0287300883532224,"lr":0.00007509063507079443,"norm":0.0009277740848515414}'
    with contextlib.closing(Tables(new_database("chdb"), every_s=0.0)) as tables:
        tables.append("one", STEM, first=0, lines=line + b"\n")
        assert read(tables, "one", 1) == [line]
        query = f"SELECT length(numbers) FROM {tables.name(LINES)} FORMAT TabSeparatedRaw"
        assert tables.ask(query) == b"2\n"


def _float64(chance: random.Random) -> float:
    return 2.5 + chance.gauss(0, 0.1)


def _float32(chance: random.Random) -> float:
    return float(np.float32(_float64(chance)))


@pytest.mark.parametrize(("value", "most"), [(_float64, 8.0), (_float32, 5.0)])
def test_a_noisy_point_takes_few_bytes(
    value: Callable[[random.Random], float], most: float
) -> None:
    address, chance, num_lines = new_database("chdb"), random.Random(0), 20_000
    names = [f"train/metric_{number}" for number in range(10)]
    form = '{"log":"metrics","t":%.3f,"step":%d,"m":{' + ",".join(f'"{n}":%r' for n in names)
    lines = [
        form % (1.7e9 + step / 10, step, *[value(chance) for _ in names])
        for step in range(num_lines)
    ]
    sent = "".join(f"{line}}}}}\n" for line in lines).encode()
    with contextlib.closing(Tables(address, every_s=0.0)) as tables:
        tables.append("one", STEM, first=0, lines=sent)
        tables.optimize()
        database, _, table = stored(LINES, address).partition(".")
        answer = tables.ask(
            f"SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{database}'"
            f" AND table = '{table}' FORMAT TabSeparatedRaw"
        )
        assert read(tables, "one", num_lines) == sent.split(b"\n")[:-1]
    assert int(answer) / num_lines / len(names) < most
