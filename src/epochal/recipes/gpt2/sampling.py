"""What the model writes, drawn with a generator of its own: training randomness is not touched."""

from __future__ import annotations

import torch

from epochal.recipes.gpt2.model import GPT
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import Tokenizer

_SEED = 42
_TOP = 50


@torch.no_grad()
def draw_samples(
    model: GPT,
    tokenizer: Tokenizer,
    *,
    place: Place,
    prompt: str,
    num_samples: int = 5,
    num_tokens: int = 32,
) -> list[str]:
    """Continue a prompt several times, each token from the 50 likeliest.

    The generator starts anew each time, so that two samplings differ only by what was learned.
    A model whose numbers are no longer finite writes nothing more.
    """
    generator = torch.Generator(place.device).manual_seed(_SEED + place.rank)
    context = model.shape.context_length
    start = tokenizer.encode(prompt) or [tokenizer.end]
    tokens = torch.tensor([start] * num_samples, device=place.device)
    for _ in range(num_tokens):
        with place.autocast():
            logits = model.logits(tokens[:, -context:])[:, -1, :]
        # Beyond the tokenizer's own tokens the vocabulary is padding.
        likeliest = logits[:, : tokenizer.num_tokens].float().softmax(-1)
        if not likeliest.isfinite().all():
            break
        chances, places = likeliest.topk(min(_TOP, likeliest.shape[-1]))
        drawn = torch.multinomial(chances, 1, generator=generator)
        tokens = torch.cat((tokens, places.gather(-1, drawn)), dim=1)
    return [tokenizer.decode(row) for row in tokens.tolist()]
