"""Trains an autoencoder with Lightning, in the style of its examples."""

from typing import Any

import lightning
import torch
from lightning.pytorch.loggers import TensorBoardLogger as Logger


class AutoEncoder(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self, hidden: int = 4, lr: float = 0.01) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(16, hidden), torch.nn.Tanh())
        self.decoder = torch.nn.Linear(hidden, 16)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        (inputs,) = batch
        loss = torch.nn.functional.mse_loss(self.decoder(self.encoder(inputs)), inputs)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        (inputs,) = batch
        loss = torch.nn.functional.mse_loss(self.decoder(self.encoder(inputs)), inputs)
        self.log("val_loss", loss)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main() -> None:
    lightning.seed_everything(42)
    inputs = torch.sin(torch.arange(64)[:, None] * torch.linspace(0.1, 1, 16)[None])
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs), batch_size=16)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        log_every_n_steps=2,
        enable_progress_bar=False,
        logger=Logger(save_dir="logs", name="autoencoder"),
    )
    trainer.fit(AutoEncoder(), data, data)


if __name__ == "__main__":
    main()
