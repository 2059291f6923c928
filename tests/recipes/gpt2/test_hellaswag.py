from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from epochal.errors import FormatError, UsageError
from epochal.recipes.gpt2.hellaswag import Example, find_hellaswag, measure, read_examples
from epochal.recipes.gpt2.model import GPT, Shape
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import open_tokenizer

BYTES = open_tokenizer("bytes")
PLACE = Place(torch.device("cpu"))


def row(label: int = 1, endings: int = 4, **more: object) -> str:
    texts = ["zzzz", "aa", "qqqqqqq", "xxxx"][:endings]
    return json.dumps({"ind": 24, "ctx": "aaaa", "endings": texts, "label": label, **more})


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained_on(token: int) -> GPT:
    """A model that expects one token, whatever came before."""
    torch.manual_seed(0)
    model = GPT(Shape(vocab_size=384, context_length=8, num_layers=1, num_heads=1, embd_size=4))
    with torch.no_grad():
        model.ln_f.weight.zero_()
        model.ln_f.bias.copy_(torch.tensor([1.0, 0, 0, 0]))
        model.wte.weight.zero_()
        model.wte.weight[token, 0] = 9.0
    return model


def test_the_public_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "hellaswag_val.jsonl", row(activity_label="x"), "", row(label=3))
    assert [example.label for example in read_examples(path)] == [1, 3]
    assert read_examples(path, limit=1) == [Example("aaaa", ("zzzz", "aa", "qqqqqqq", "xxxx"), 1)]


def test_the_likeliest_ending_is_chosen(tmp_path: Path) -> None:
    examples = [Example("b", ("zz", "aa", "qq", "xx"), 1)] * 3
    examples += [Example("b", ("zz", "aa", "qq", "xx"), 0)]
    found = measure(trained_on(ord("a")), BYTES, examples, place=PLACE)
    assert (found.acc, found.acc_norm, found.num_examples) == (0.75, 0.75, 4)


def test_the_sum_favours_short_endings_and_the_mean_does_not() -> None:
    model = trained_on(ord("a"))
    # By the mean "aaaz" is best; the sum prefers "z", with one token fewer to be wrong about.
    examples = [Example("b", ("aaaaz z z", "zz", "zzzz", "zzzzz"), 0)]
    found = measure(model, BYTES, examples, place=PLACE)
    assert (found.acc, found.acc_norm) == (0.0, 1.0)


def test_what_does_not_fit_loses_its_beginning() -> None:
    examples = [Example("b" * 50, ("z" * 5, "a" * 5, "q" * 50, "x"), 1)] * 9
    found = measure(trained_on(ord("a")), BYTES, examples, place=PLACE)
    assert found.acc_norm == 1.0


def test_the_file_is_looked_for_beside_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert find_hellaswag(None, data="data") is None
    path = write(tmp_path / "data" / "hellaswag_val.jsonl", row())
    assert find_hellaswag(None, data="data") == path.relative_to(tmp_path)
    assert find_hellaswag(None, data=None) is None
    with pytest.raises(UsageError, match="--hellaswag nowhere: there is no such file"):
        find_hellaswag("nowhere", data=None)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("nonsense", "line 2 is no example"),
        ('{"ctx": "a"}', "line 2 is no example"),
        (row(endings=3), "line 2 must have 4 endings"),
        (row(label=4), "line 2 must have 4 endings and a label from 0 to 3"),
    ],
)
def test_a_line_that_is_no_example_is_named(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_examples(write(tmp_path / "a.jsonl", row(), line))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no examples"):
        read_examples(write(tmp_path / "a.jsonl", ""))
