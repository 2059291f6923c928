"""The numbers of a decoder transformer that its work follows from, read from any configuration.

GPT-2's names and those of Llama, Mistral, Mixtral, Qwen, Gemma, OLMo, DeepSeek and their kin are
understood, in a mapping or as attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochal.errors import UsageError

_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim", "width"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "heads"),
    "kv_heads": ("num_key_value_heads", "n_kv_heads", "n_kv_head", "kv_heads"),
    "head_size": ("head_dim", "head_size"),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "intermediate"),
    "vocabulary": ("padded_vocab_size", "vocab_size", "n_vocab", "vocabulary"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts"),
    "experts_per_token": ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k"),
    "expert_width": ("moe_intermediate_size", "expert_intermediate_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
    "dense_first": ("first_k_dense_replace",),
    "sparse_every": ("decoder_sparse_step", "moe_layer_freq"),
}
_PLAIN_MLP = frozenset(
    "gpt2 gpt_neo gpt_neox gptj gpt_bigcode opt bloom falcon mpt phi starcoder2 codegen".split()
)
_GATED_ACTIVATIONS = ("silu", "swish", "swiglu", "geglu")
# Where no activation is named, these tell a model of Llama's kind, whose MLP is gated.
_LLAMA_SIGNS = ("rms_norm_eps", "num_key_value_heads", "n_kv_heads")
_GATED_WITH_GELU = ("gemma", "cohere")


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in ``layers`` of the layers: ``per_token`` of ``count`` see a token.

    ``shared_width`` is the width of the experts every token passes, ``shared_gate`` whether a gate
    of one output weighs them.
    """

    count: int
    per_token: int
    width: int
    layers: int
    shared_width: int = 0
    shared_gate: bool = False


@dataclass(frozen=True, slots=True)
class Latent:
    """Queries and keys through low-rank vectors, as DeepSeek has them; ranks and sizes per head.

    ``query_rank`` is None where queries are projected at once.
    """

    query_rank: int | None
    kv_rank: int
    plain_size: int
    rotary_size: int
    value_size: int


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """A decoder transformer's sizes; ``windows`` has each layer's window, None for everything."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    gated: bool = False
    experts: Experts | None = None
    latent: Latent | None = None
    windows: tuple[int | None, ...] = ()

    @property
    def attention_weights(self) -> int:
        """Weights of one layer's query, key, value and output projections."""
        latent = self.latent
        if latent is None:
            queries = self.heads * self.head_size
            return self.width * (2 * queries + 2 * self.kv_heads * self.head_size)
        size = latent.plain_size + latent.rotary_size
        queries = self.heads * size
        rank = latent.query_rank
        query = self.width * queries if rank is None else rank * (self.width + queries)
        keys = self.width * (latent.kv_rank + latent.rotary_size)
        keys += latent.kv_rank * self.heads * (latent.plain_size + latent.value_size)
        return query + keys + self.heads * latent.value_size * self.width

    @property
    def score_sizes(self) -> tuple[int, int]:
        """Over all heads: the size of queries against keys, and of what is mixed by the scores."""
        if self.latent is None:
            return self.heads * self.head_size, self.heads * self.head_size
        size = self.latent.plain_size + self.latent.rotary_size
        return self.heads * size, self.heads * self.latent.value_size

    def block_weights(self) -> int:
        """Weights of all blocks that one token is multiplied with: of experts, its own."""
        matrices = 3 if self.gated else 2
        dense = matrices * self.width * self.intermediate
        sparse = 0
        experts = self.experts
        if experts is not None:
            sparse = matrices * self.width * experts.width * experts.per_token
            sparse += self.width * experts.count
            sparse += matrices * self.width * experts.shared_width
            sparse += self.width if experts.shared_gate else 0
        num_sparse = experts.layers if experts is not None else 0
        return (
            self.layers * self.attention_weights
            + (self.layers - num_sparse) * dense
            + num_sparse * sparse
        )

    def last_weights(self) -> int:
        """Weights of the last product of each dense layer, whose result is only added.

        A mixture weighs its experts' results, so that their gradients need them.
        """
        num_sparse = 0 if self.experts is None else self.experts.layers
        return (self.layers - num_sparse) * self.intermediate * self.width


def shape_of(config: Any) -> TransformerShape:
    """Read the shape of a decoder transformer from a mapping or an object with such attributes.

    Raises ``UsageError`` naming what is missing.
    """
    if isinstance(config, TransformerShape):
        return config
    inner = _get(config, "text_config")
    if inner is not None:
        config = inner
    width, heads = _count(config, "width"), _count(config, "heads")
    layers = _count(config, "layers")
    intermediate = _optional(config, "intermediate") or 4 * width
    head_size = _optional(config, "head_size") or width // heads
    return TransformerShape(
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=_optional(config, "kv_heads") or (1 if _get(config, "multi_query") else heads),
        head_size=head_size,
        intermediate=intermediate,
        vocabulary=_count(config, "vocabulary"),
        gated=_is_gated(config),
        experts=_experts(config, layers=layers, intermediate=intermediate),
        latent=_latent(config),
        windows=_windows(config, layers),
    )


def is_shaped(config: Any) -> bool:
    """Whether a configuration has the sizes of a decoder transformer."""
    inner = _get(config, "text_config") or config
    needed = ("layers", "width", "heads", "vocabulary")
    return all(_optional(inner, name) is not None for name in needed)


def _is_gated(config: Any) -> bool:
    told = _get(config, "gated")
    if told is not None:
        return bool(told)
    family = str(_get(config, "model_type") or "").lower()
    if family in _PLAIN_MLP:
        return False
    if family.startswith(_GATED_WITH_GELU):
        return True
    activation = next(
        (
            str(found).lower()
            for name in ("hidden_act", "hidden_activation", "activation_function", "activation")
            if (found := _get(config, name)) is not None
        ),
        None,
    )
    if activation is not None:
        return activation.startswith(_GATED_ACTIVATIONS)
    return any(_get(config, name) is not None for name in _LLAMA_SIGNS)


def _experts(config: Any, *, layers: int, intermediate: int) -> Experts | None:
    count = _optional(config, "experts")
    if not count or count < 2:
        return None
    width = _optional(config, "expert_width") or intermediate
    shared = _get(config, "shared_expert_intermediate_size")
    shared_width = int(shared or width * (_optional(config, "shared_experts") or 0))
    return Experts(
        count=count,
        per_token=_count(config, "experts_per_token"),
        width=width,
        layers=_num_sparse(config, layers),
        shared_width=shared_width,
        shared_gate=bool(shared),
    )


def _num_sparse(config: Any, layers: int) -> int:
    dense = {int(index) for index in _get(config, "mlp_only_layers") or ()}
    first = _optional(config, "dense_first") or 0
    every = _optional(config, "sparse_every") or 1
    # Qwen counts its step from 1, DeepSeek from 0.
    offset = 1 if _get(config, "decoder_sparse_step") is not None else 0
    return sum(
        1
        for index in range(layers)
        if index not in dense and index >= first and (index + offset) % every == 0
    )


def _latent(config: Any) -> Latent | None:
    rank = _get(config, "kv_lora_rank")
    if not rank:
        return None
    query_rank = _get(config, "q_lora_rank")
    return Latent(
        query_rank=None if query_rank is None else int(query_rank),
        kv_rank=int(rank),
        plain_size=int(_get(config, "qk_nope_head_dim")),
        rotary_size=int(_get(config, "qk_rope_head_dim")),
        value_size=int(_get(config, "v_head_dim")),
    )


def _windows(config: Any, layers: int) -> tuple[int | None, ...]:
    window = _get(config, "sliding_window")
    if not window or _get(config, "use_sliding_window") is False:
        return ()
    kinds = _get(config, "layer_types")
    if kinds:
        return tuple(int(window) if "sliding" in str(kind) else None for kind in kinds)
    first = _get(config, "max_window_layers")
    full = int(first) if first is not None and _get(config, "use_sliding_window") else 0
    return tuple(None if index < full else int(window) for index in range(layers))


def _count(config: Any, field: str) -> int:
    found = _optional(config, field)
    if found is None:
        raise UsageError(
            f"this configuration has none of {', '.join(_NAMES[field])}: give a decoder"
            " transformer's configuration, or a model and inputs= to count one step."
        )
    return found


def _optional(config: Any, field: str) -> int | None:
    for name in _NAMES[field]:
        value = _get(config, name)
        if isinstance(value, (int, float)) and value > 0:
            return int(value)
    return None


def _get(config: Any, name: str) -> Any:
    if isinstance(config, Mapping):
        return config.get(name)
    return getattr(config, name, None)
