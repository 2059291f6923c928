"""The rule on what a preflight found."""

import torch
from torch import Tensor, nn
from torch.nn import functional

import epochal
from epochal.health.rules.preflight import PreflightFailed
from epochal.records import Record
from tests.health.machine_records import opened, updated


class Cut(nn.Module):
    """A body that no gradient reaches, unless ``is_whole``."""

    def __init__(self, *, is_whole: bool) -> None:
        super().__init__()
        self.body, self.head, self.is_whole = nn.Linear(8, 16), nn.Linear(16, 4), is_whole

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.body(inputs))
        output: Tensor = self.head(hidden if self.is_whole else hidden.detach())
        return output


def record(*, is_whole: bool) -> Record:
    torch.manual_seed(0)
    batch = torch.randn(16, 8), torch.randint(4, (16,))
    result = epochal.preflight(
        Cut(is_whole=is_whole),
        batch,
        lambda output, pair: functional.cross_entropy(output, pair[1]),
    )
    return {"log": "event", "t": 1.0, "name": "preflight", **result.to_dict()}


def test_a_wrong_answer_is_a_finding_until_a_later_preflight_passes() -> None:
    wrong, right = record(is_whole=False), record(is_whole=True)
    (found,) = opened(PreflightFailed, [wrong])
    assert (found.severity, found.certainty) == ("warning", "fact")
    assert found.sentence.startswith("Preflight, gradients: ")
    assert "body.weight" in found.sentence
    assert "detach()" in found.advice
    assert [one.state for one in updated(PreflightFailed, [wrong, right])] == ["open", "closed"]
    assert opened(PreflightFailed, [right]) == []
