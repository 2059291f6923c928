"""What a training costs in seconds of one core, measured; `list` adds it up.

The figures are medians over recorded trainings on CPUs, from the start of the run to its end, with
the companion. Those of 25 kinds, whose evidence is of a GPU or later, are of 100 steps without a
record, and about three seconds for it. Those of twelve others are of whole trainings, most of
them without a record, while the cores were busy. Those of the last 24 are of recorded trainings,
15 at a time on 16 cores.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.clinic.plan import Training

# Starting Python and torch, the end of the companion, and collecting the evidence.
_START_S = 5.0
_RUN_S: dict[str, float] = {
    "mlp": 5,
    "linear": 4,
    "logistic": 4.5,
    "tabular": 4.5,
    "cnn_bn": 7,
    "resnet": 10.5,
    "segmentation": 10.5,
    "char_transformer": 12.5,
    "gpt2": 10.5,
    "gru": 10.5,
    "vae": 5,
    "diffusion": 7,
    "gan": 6,
    "ppo": 5,
    "policy_gradient": 9,
    "dqn": 4.5,
    "contrastive": 6,
    "finetune": 3,
    "lora": 6.5,
    "moe_mlp": 7.5,
    "moe": 17,
    "moe_top2": 13.5,
    "ddp_mlp": 5,
    "ddp_cnn": 8.5,
    "ddp_transformer": 12,
    "vit": 15,
    "seq2seq": 10,
    "tagger": 9.5,
    "forecaster": 6.5,
    "word2vec": 7,
    "recommender": 6,
    "graph": 6,
    "flow": 9.5,
    "multitask": 8,
    "actor_critic": 8,
    "distill": 6,
    "triplet": 13,
    "preferences": 10,
    "audio": 9,
    "speech": 27,
    "orbits": 7,
    "upscale": 12,
    "vq": 15,
    "masked_words": 19,
    "clicks": 12,
    "bandit": 7,
    "keypoints": 15.5,
    "clouds": 11.5,
    "painting": 11.5,
    "physics": 13.5,
    "energy": 10.5,
    "survival": 10.5,
    "demand": 17.5,
    "state_space": 19,
    "sorting": 15.5,
    "two_towers": 12,
    "gliding": 10.5,
    "denoise": 11,
    "counting": 11,
    "changes": 10,
    "simsiam": 16.5,
    "tags": 7.5,
    "dates": 14,
    "knowledge": 6.5,
    "keywords": 11,
    "anomaly": 7.5,
    "mixture": 8.5,
    "molecules": 9.5,
    "columns": 15,
    "offline": 8,
    "ddp_colours": 10,
    "rotation": 8,
    "patches": 15,
    "speakers": 13,
    "ddp_mixer": 14,
    "grades": 9,
    "tracing": 7,
    "softmaxes": 13,
    "likes": 10,
    "curves": 8,
    "codes": 11,
    "bodies": 12,
    "maze": 7,
    "driving": 9,
    "loads": 10,
    "noughts": 10,
    "offers": 12,
    "fields": 11,
    "answers": 12,
    "reaching": 10,
    "boxes": 14,
    "birds": 14,
    "songs": 12,
    "depth": 14,
    "ddp_pairs": 20,
    "searches": 10,
    "shops": 10,
    "retrieval": 9,
    "strokes": 10,
    "pixels": 11,
    "heartbeats": 13,
    "forces": 14,
    "twins": 13,
    "operator": 13,
    "wares": 10,
    "routed": 16,
    "ddp_sentences": 23,
}


def cpu_s(training: Training) -> float:
    """About how long one core works for a training, all of its ranks together."""
    return (_START_S + _RUN_S[training.kind_name]) * training.kind.world


def cpu_hours(trainings: Iterable[Training]) -> float:
    """About how long one core works for all of them."""
    return sum(map(cpu_s, trainings)) / 3600
