"""PyTorch Lightning with `EpochalLogger`. Nothing else in the script knows Epochal.

    pip install epochal lightning
    python examples/with_lightning.py

`self.log` gives the metrics, `save_hyperparameters` the config, and checkpoints are events:

    epochal show
    epochal serve
"""

import os

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from epochal.integrations.lightning import EpochalLogger

EPOCHS = int(os.environ.get("EPOCHS", "5"))


class Regression(lightning.LightningModule):
    """A small network that learns a product of two numbers."""

    def __init__(self, width: int = 64, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.lr = lr
        self.model = nn.Sequential(nn.Linear(4, width), nn.GELU(), nn.Linear(width, 1))

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        x, y = batch
        self.log("eval/loss", nn.functional.mse_loss(self.model(x), y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def data(count: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Return random numbers, and the product of the first two."""
    x = torch.randn(count, 4)
    return DataLoader(TensorDataset(x, x[:, :1] * x[:, 1:2]), batch_size=32)


lightning.seed_everything(0)
trainer = lightning.Trainer(
    logger=EpochalLogger("examples", "lightning"),
    max_epochs=EPOCHS,
    log_every_n_steps=1,
    accelerator="auto",
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), data(2048), data(256))
