"""What watching a model and its data adds to the evidence sheet."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import epochal
from epochal.store.evidence.sheet import Evidence


class Cut(nn.Module):
    """A body that gets no gradient, because its output is detached."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.body(inputs).relu().detach())
        return logits


def facts_of(sheet: Evidence) -> list[str]:
    return [fact for section in sheet.sections for fact in section.facts]


def test_the_sheet_states_gradients_settings_and_data(tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs, labels = torch.randn(20, 4).repeat(8, 1), torch.arange(20).remainder(2).repeat(8)
    model = Cut()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=10.0)
    with epochal.init("p", "a", dir=tmp_path, console=False, companion=False) as run:
        epochal.watch(model)
        loader = epochal.watch_data(
            DataLoader(TensorDataset(inputs, labels), 16, shuffle=True), name="train"
        )
        for batch, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), targets)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            run.log({"loss": loss})
    loaded = epochal.load(tmp_path / "p" / "a")
    facts = facts_of(loaded.evidence)
    assert "gradients: 2 of 4 parameters have one in the measured steps" in facts
    assert "no gradient recorded: body.weight, body.bias" in facts
    assert any("lr × weight_decay 0.1 a step" in fact for fact in facts)
    assert any("0.6931 = ln 2" in fact for fact in facts)
    assert any("20 distinct contents in the 160 samples" in fact for fact in facts)
    recorded = [entry.record for entry in loaded.view.entries("data")]
    counted = sum(record["labels"]["0"] for record in recorded)
    total = sum(sum(record["labels"].values()) for record in recorded)
    assert f"train labels: 2 classes of {total} labels: 0 {100 * counted / total:.3g} %" in str(
        loaded.evidence
    )
