from __future__ import annotations

import torch

from epochal.recipes.gpt2.evaluation import draw_samples
from epochal.recipes.gpt2.model import GPT, Shape
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import open_tokenizer

BYTES = open_tokenizer("bytes")


def model() -> GPT:
    torch.manual_seed(0)
    return GPT(Shape(vocab_size=384, context_length=8, num_layers=1, num_heads=1, embd_size=4))


def drawn(rank: int = 0, **more: int) -> list[str]:
    place = Place(torch.device("cpu"), rank)
    return draw_samples(model(), BYTES, place=place, prompt="Hello", **more)


def test_samples_differ_begin_with_the_prompt_and_repeat_themselves() -> None:
    texts = drawn()
    assert len(set(texts)) == 5
    assert all(text.startswith("Hello") for text in texts)
    assert drawn() == texts
    assert drawn(rank=1) != texts


def test_the_training_s_randomness_is_not_touched() -> None:
    made = model()
    before = torch.get_rng_state()
    draw_samples(made, BYTES, place=Place(torch.device("cpu")), prompt="x")
    assert torch.equal(torch.get_rng_state(), before)


def test_only_tokens_of_the_tokenizer_are_drawn() -> None:
    made = model()
    with torch.no_grad():
        made.wte.weight[257:] += 100.0  # padding, however likely the model finds it
    place = Place(torch.device("cpu"))
    (text,) = draw_samples(made, BYTES, place=place, prompt="é", num_samples=1, num_tokens=20)
    assert len(text.encode("utf-8", errors="surrogateescape")) >= 2


def test_no_prompt_begins_with_the_end_of_a_document() -> None:
    texts = draw_samples(model(), BYTES, place=Place(torch.device("cpu")), prompt="", num_tokens=1)
    assert len(texts) == 5


def test_a_model_that_diverged_writes_the_prompt_alone() -> None:
    made = model()
    with torch.no_grad():
        made.wte.weight.fill_(float("nan"))
    place = Place(torch.device("cpu"))
    assert draw_samples(made, BYTES, place=place, prompt="Hello", num_samples=1) == ["Hello"]
