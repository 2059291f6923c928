"""One cause is one finding: what follows from it is not said again."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import epochal
from epochal import watch
from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.records import Record
from epochal.store.local.by_path import load_run
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import event, metrics


def test_one_nan_in_a_watched_training_is_one_finding(tmp_path: Path) -> None:
    run = epochal.init("nan", dir=tmp_path, console=False, companion=False)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    watch(model, run, every=10, histograms=False)
    source = torch.Generator().manual_seed(0)
    for step in range(240):
        inputs = torch.randn(32, 8, generator=source)
        guesses, labels = model(inputs), inputs[:, :4].argmax(1)
        loss = functional.cross_entropy(guesses, labels)
        if step == 60:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        optimizer.step()
        run.log({"loss": loss, "grad_norm": norm}, step=step)
        if step % 10 == 9:
            right = (guesses.argmax(1) == labels).float().mean()
            run.log({"eval/loss": loss.detach() + 0.1, "eval/accuracy": right}, step=step)
    run.finish()
    found = [Finding.from_record(e.record) for e in load_run(Path(run.dir)).findings(most=None)]
    assert [f"{f.rule} {f.series}" for f in found if f and f.severity != "info"] == [
        "nonfinite loss"
    ]


def test_parameters_without_an_optimizer_explain_gradients_that_grow_and_layers_without() -> None:
    health = Health()
    names = ["adapter.b"]
    unowned = event("parameters-without-optimizer", at_step=10, parameters=1, of=6, names=names)
    norms = [1.0 + 0.5 * n for n in range(100)]
    records = steps(flat(100, 2.0), norm=norms)
    for n, record in enumerate(records):
        values = {"grads/adapter.a/norm": 0.0, "grads/head/norm": 1.0, "grads/body/norm": 1.0}
        watched = [unowned] if n == 10 else [metrics(n, values)] if n > 10 and n % 10 == 0 else []
        for one in (record, *watched):
            health.feed(one)
    assert {finding.rule for finding in health.open_findings} == {"untrained-parameters"}
    assert not health.guard.faults


def lost() -> list[Record]:
    """Learns, is thrown back to chance, and is evaluated at the same accuracy from then on."""
    losses = [*falling(400, start=2.3, floor=0.4), *flat(2400, 2.3, width=0.01)]
    accuracies = [*(0.1 + 0.02 * n for n in range(16)), *([0.1015] * 96)]
    scores = [*(2.3 - 0.1 * n for n in range(16)), *([2.3001] * 96)]
    return in_order(steps(losses, norm=1.0), evals(scores, every=25, accuracy=accuracies))


def test_a_loss_that_is_lost_is_not_also_a_plateau_or_a_flat_evaluation() -> None:
    health = Health(config={"num_classes": 10})
    found = [finding for record in lost() for finding in health.feed(record)]
    first = next(n for n, finding in enumerate(found) if finding.rule == "divergence")
    later = {finding.rule for finding in found[first + 1 :] if finding.state == "open"}
    assert later.isdisjoint({"plateau", "eval-flat", "no-better-than-baseline"})
    assert health.context.is_open("divergence", "train/loss")


def test_what_follows_is_said_when_the_cause_is_over() -> None:
    health = Health()
    records = steps(falling(400, start=2.3, floor=0.4, width=0.001))
    bad = {**records[50], "loss": None, "nonfinite": {"loss": "nan"}}
    found: list[Finding] = []
    for record in [*records[:50], bad, *records[51:200]]:
        found += health.feed(record)
    spiked = [{**record, "loss": 9.0} for record in records[200:204]]
    found += [finding for record in spiked for finding in health.feed(record)]
    assert [f.rule for f in found if f.state == "open"][:2] == ["nonfinite", "loss-spike"]
