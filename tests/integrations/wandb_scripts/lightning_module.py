"""Lightning with its WandbLogger."""

# mypy: ignore-errors

import lightning
import torch
from lightning.pytorch.loggers import WandbLogger

torch.manual_seed(0)


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters({"width": 4})
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list, _: int) -> torch.Tensor:
        loss = self.layer(batch[0]).square().mean()
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.TensorDataset(torch.randn(32, 4))
logger = WandbLogger(project="scripts", name="lightning", save_dir=".", log_model=False)
trainer = lightning.Trainer(
    max_epochs=2,
    logger=logger,
    accelerator="cpu",
    log_every_n_steps=2,
    enable_progress_bar=False,
    enable_checkpointing=False,
    enable_model_summary=False,
)
trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=4))
logger.experiment.finish()
