"""Lines come back as they were sent, however a server stores their numbers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.store.clickhouse import tables as tables_module
from epochal.store.clickhouse.connection import Address, Via
from epochal.store.clickhouse.schema import LINES, stored
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
    query = f"SELECT line FROM {tables.name(LINES)} ORDER BY ordinal FORMAT TabSeparatedRaw"
    assert tables.ask(query) == b"\n".join(ODD) + b"\n"


def test_any_line_comes_back(tables: Tables) -> None:
    number = st.floats().map(repr) | st.decimals(allow_nan=False).map(str)
    text = st.lists(number | st.text(), max_size=8).map("|".join)
    line = text.map(lambda one: one.encode("utf-8", "replace").replace(b"\n", b" "))
    runs = iter(range(1 << 30))

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(line, min_size=1, max_size=50))
    def check(lines: list[bytes]) -> None:
        run_id = f"run{next(runs)}"
        tables.append(run_id, STEM, first=0, lines=b"\n".join(lines) + b"\n")
        assert read(tables, run_id, len(lines)) == lines

    check()


def test_a_server_that_takes_no_line_apart_stores_it_whole(
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
