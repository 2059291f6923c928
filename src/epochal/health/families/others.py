"""Families that are known by name, with what is normal for them."""

from __future__ import annotations

from types import MappingProxyType

from epochal.health.families.family import Facts, Family, in_config, logged

_OPPONENTS = frozenset(
    "d_loss g_loss loss_d loss_g d_losses g_losses disc_loss gen_loss discriminator "
    "generator".split()
)
_PAIRS = frozenset("contrastive infonce ntxent nt_xent simclr clip_loss triplet uniformity".split())
_DENSITIES = frozenset("elbo recon reconstruction fid diffusion denoising bits_per_dim vae".split())
_SCHEDULES = ("num_train_timesteps", "noise_schedule", "beta_schedule", "diffusion_steps")
_TRANSCRIPTS = frozenset("wer cer bleu sacrebleu chrf ter rouge rouge1 rougel".split())


def _recognise_adversarial(facts: Facts) -> str | None:
    return logged(facts.series(word=_OPPONENTS))


def _recognise_contrastive(facts: Facts) -> str | None:
    return logged(facts.series(word=_PAIRS))


def _recognise_generative(facts: Facts) -> str | None:
    return logged(facts.series(word=_DENSITIES)) or in_config(facts.key(*_SCHEDULES))


def _recognise_transduction(facts: Facts) -> str | None:
    return logged(facts.series(word=_TRANSCRIPTS))


ADVERSARIAL = Family(
    name="adversarial",
    title="two networks that train against each other",
    recognise=_recognise_adversarial,
    curves=("quality of samples", "losses of both networks"),
    normal=MappingProxyType(
        {"losses of both networks": "oscillate, and neither falls to 0 for long"}
    ),
    loss_falls=False,
)
CONTRASTIVE = Family(
    name="contrastive",
    title="contrastive learning",
    recognise=_recognise_contrastive,
    curves=("score of a probe", "loss", "temperature"),
    normal=MappingProxyType(
        {"loss": "starts at log(batch size), depends on it, and never reaches 0"}
    ),
)
GENERATIVE = Family(
    name="generative",
    title="a generative model",
    recognise=_recognise_generative,
    curves=("evaluation loss", "quality of samples", "terms of the loss"),
    normal=MappingProxyType(
        {
            "evaluation loss": "may be below 0 for densities",
            "terms of the loss": "the KL rises at first; the loss of a diffusion hardly falls late",
        }
    ),
)
TRANSDUCTION = Family(
    name="transduction",
    title="a model from one sequence to another",
    recognise=_recognise_transduction,
    curves=("error rate or BLEU", "evaluation loss", "training loss"),
    normal=MappingProxyType(
        {"training loss": "a CTC loss stands on a plateau of blanks before it falls"}
    ),
)
