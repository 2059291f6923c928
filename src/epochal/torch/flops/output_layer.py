"""Finds the layer of a model that gives a value for every word of its vocabulary."""

from __future__ import annotations

from torch import nn


def output_layer(model: nn.Module) -> tuple[str, nn.Linear] | None:
    """The output layer and its name; None for a model that has no vocabulary.

    It is the one the model itself names, else one that shares an embedding's weight, else the last
    linear layer with an output for every word; an inner layer may have as many by chance.
    """
    linear = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    named = getattr(model, "get_output_embeddings", None)
    told = named() if callable(named) else None
    embeddings = [m for m in model.modules() if isinstance(m, nn.Embedding)]
    sizes = {embedding.num_embeddings for embedding in embeddings}
    tied = {id(embedding.weight) for embedding in embeddings}
    wide = [(name, m) for name, m in linear.items() if m.out_features in sizes]
    for name, layer in wide:
        if layer is told or id(layer.weight) in tied:
            return name, layer
    return wide[-1] if wide else None
