from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError
from epochal.query import filter as q
from epochal.store.local.catalog import folder_store
from epochal.store.selection import parse_order, parse_query
from epochal.store.store import Store
from tests.store.journals import Journal


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for name, created, config in (
        ("gpt-small", 1.0, {"lr": 1e-4, "model": {"depth": 6}, "tied": True, "note": "x"}),
        ("gpt-large", 2.0, {"lr": 3e-3, "model": {"depth": 24}, "tied": False}),
        ("resnet", 3.0, {"lr": 1, "model.depth": 50, "opt": "sgd"}),
    ):
        tags = ["vision"] if name == "resnet" else ["text", "long run"]
        journal = Journal(tmp_path, name, created=created, config=config, tags=tags)
        for step in range(3):
            metrics = {"train/loss": created / (step + 1), "acc": step}
            journal.add({"log": "metrics", "step": step, "m": metrics})
        if name != "gpt-large":
            journal.finish("finished" if name == "resnet" else "failed")
    return folder_store(tmp_path)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("config.lr < 3e-4", "gpt-small"),
        ('config.lr < 1e-2 and status == "running" and name ~ "gpt.*"', "gpt-large"),
        ("config.model.depth >= 24", "gpt-large resnet"),
        ("config.tied", "gpt-small"),
        ("config.tied == false", "gpt-large"),
        ("not exists(config.tied)", "resnet"),
        ("exists(config.opt) or config.lr == 0.0001", "gpt-small resnet"),
        ("config.opt != 'sgd'", "gpt-small gpt-large"),
        ("'vision' in tags", "resnet"),
        ("'text' in tags and not (name == 'gpt-small')", "gpt-large"),
        ("name in ['resnet', \"gpt-small\"]", "gpt-small resnet"),
        ("status not in ['failed', 'finished']", "gpt-large"),
        ("tags ~ '^long'", "gpt-small gpt-large"),
        ("name !~ 'gpt'", "resnet"),
        ("name ~ '^gpt' and name !~ 'small'", "gpt-large"),
        ("text ~ '(?i)VISION|^running$'", "gpt-large resnet"),
        ("text ~ '^id-gpt'", "gpt-small gpt-large"),
        ("summary.loss.min < 0.5", "gpt-small"),
        ("summary.train/loss.last > 0.9", "resnet"),
        ('summary."train/loss" <= 1', "gpt-small gpt-large resnet"),
        ("best.loss < 0.4", "gpt-small"),
        ("summary.acc.count == 3", "gpt-small gpt-large resnet"),
        ("summary.nothing < 1", ""),
        ("step == 2 and project == 'p'", "gpt-small gpt-large resnet"),
        ("created > '1970-01-02'", ""),
        ("created >= 2", "gpt-large resnet"),
        ("true and config.lr == 1", "resnet"),
        ("config.note == null or config.lr == true", ""),
        ("config.opt < 3", ""),
    ],
)
def test_queries_select(store: Store, query: str, names: str) -> None:
    assert sorted(run.outline().name for run in store.runs(query)) == sorted(names.split())


@pytest.mark.parametrize(
    ("query", "sentence", "column"),
    [
        ("config.lr <", "after '<'; the query ends here", 11),
        ("config.lr = 3", "write '==' instead", 10),
        ("step > 1 step", "expected 'and', 'or' or the end", 9),
        ("(step > 1", "expected ')'", 9),
        ("step > 1)", "this parenthesis was not opened", 8),
        ("step > 'x", "expected a closing '", 7),
        ("name ~ '('", "missing ): (", 7),
        ("name ~ 'a(?!b)'", "use !~ for what must not occur", 7),
        ("name ~ '(a)\\1'", "join two conditions with 'and'", 7),
        ("name ~ 3", "expected a pattern in quotes", 7),
        ("status == 'done'", "there is no status 'done'", 10),
        ("created > 'soon'", "expected a date", 10),
        ("config > 1", "expected a name after config", 0),
        ("step.x > 1", "step has nothing inside it", 0),
        ("exists(3)", "expected a field", 7),
        ("step in 3", "expected a list", 8),
        ("step < [1]", "a list cannot stand beside '<'", 7),
        ("step > 1 && epoch > 1", "write 'and' instead", 9),
        ("  ", "the query is empty", 0),
        ("step > $", "no meaning for '$'", 7),
        (r'name == "C:\"', r'expected a closing "; write \\ for a backslash', 8),
    ],
)
def test_a_mistake_is_shown_with_a_mark_under_it(query: str, sentence: str, column: int) -> None:
    with pytest.raises(UsageError) as caught:
        parse_query(query)
    first, shown, mark = str(caught.value).split("\n")
    assert sentence in first
    assert (shown, mark) == (f"    {query}", f"    {' ' * column}^")


def test_long_and_deep_queries_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 2000 characters"):
        parse_query("step > 1 or " * 200)
    with pytest.raises(UsageError, match="nested at most 50 times"):
        parse_query("(" * 60 + "step" + ")" * 60)


def test_a_backslash_stands_for_itself_but_before_a_quote_or_another() -> None:
    assert q.parse(r"name ~ 'a\d\''") == q.Comparison(
        "~", q.Field(("name",), 0), q.Constant(r"a\d'", 7), 5
    )


def test_two_backslashes_are_one_in_texts_and_names() -> None:
    assert q.parse(r'config."a\\" == "C:\\"') == q.Comparison(
        "==", q.Field(("config", "a\\"), 0), q.Constant("C:\\", 16), 13
    )


@given(st.text(max_size=40) | st.text("\\\"' a", max_size=12), st.sampled_from("\"'"))
def test_any_text_can_be_quoted(text: str, quote: str) -> None:
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    condition = q.parse(f"name == {quote}{escaped}{quote} and step")
    assert isinstance(condition, q.Junction)
    comparison = condition.operands[0]
    assert isinstance(comparison, q.Comparison)
    assert isinstance(comparison.right, q.Constant)
    assert comparison.right.value == text


@given(st.text(max_size=40))
def test_any_text_is_a_query_or_a_mistake(text: str) -> None:
    try:
        parse_query(text)
    except UsageError:
        return


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("name", "gpt-large gpt-small resnet"),
        ("-summary.loss.last", "resnet gpt-large gpt-small"),
        ("config.opt, -config.lr", "resnet gpt-large gpt-small"),
        ("-config.tied,name", "gpt-small gpt-large resnet"),
    ],
)
def test_orders_sort_and_put_what_is_missing_last(store: Store, order: str, names: str) -> None:
    assert [run.outline().name for run in store.runs(order=order)] == names.split()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("acc == 2", "gpt-small gpt-large resnet"),
        ("loss < 0.5", "gpt-small"),
        ("lr < 3e-4 or model.depth == 50", "gpt-small resnet"),
        ("tags == 'vision'", "resnet"),
        ("tags != 'vision'", "gpt-small gpt-large"),
    ],
)
def test_a_name_alone_is_a_metric_or_of_the_config(store: Store, query: str, names: str) -> None:
    assert sorted(run.outline().name for run in store.runs(query)) == sorted(names.split())


def test_a_name_that_no_run_has_is_a_mistake(store: Store) -> None:
    with pytest.raises(UsageError, match="no run has 'stepp'; did you mean 'step'"):
        store.runs("stepp > 1")
    with pytest.raises(UsageError, match="no run has 'nothing'"):
        store.runs(order="-nothing")
    assert list(store.runs("project == 'q' and acc > 1")) == []


def test_a_mistake_in_an_order_is_shown() -> None:
    with pytest.raises(UsageError, match="expected one field"):
        parse_order("step > 1")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("summary.loss.mean@2 < 3", "b"),  # 4 and 1, of the last two points
        ("summary.loss.max@2 == 4", "b"),
        ("summary.loss.last@1 == summary.loss.last", "a b"),
        ("summary.loss.best@1 == 5", "a"),
        ("summary.loss.count@2 == 2", "a b"),
        ("duration >= 30", "a"),
        ("summary.recall@10 == 5", "a b"),  # a metric of this name
    ],
)
def test_statistics_of_the_last_points_and_the_duration_select(
    tmp_path: Path, query: str, names: str
) -> None:
    define = {"log": "define", "name": "loss", "goal": "min"}
    for name, losses, end in (("a", [9, 7, 5], 1100.0), ("b", [9, 4, 1], 1010.0)):
        journal = Journal(tmp_path, name, created=1000.0).add(define)
        for step, loss in enumerate(losses):
            record = {"log": "metrics", "step": step, "m": {"loss": float(loss), "recall@10": 5.0}}
            journal.add({**record, "t": end if step == 2 else 1000.0 + step})
    store = folder_store(tmp_path)
    assert [run.outline().name for run in store.runs(query, order="name")] == names.split()
    known = store.known_runs(query, order="name", budget_s=60).runs
    assert [run.outline().name for run in known] == names.split()
    order = [run.outline().name for run in store.runs(order="summary.loss.mean@2")]
    assert order == ["b", "a"]
