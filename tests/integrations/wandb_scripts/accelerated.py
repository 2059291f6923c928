"""Accelerate with log_with="wandb"."""

# mypy: ignore-errors

import torch
from accelerate import Accelerator

torch.manual_seed(0)
accelerator = Accelerator(log_with="wandb", cpu=True)
accelerator.init_trackers(
    "scripts", config={"lr": 0.1}, init_kwargs={"wandb": {"name": "accelerated", "tags": ["t"]}}
)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(32, 4), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for step, batch in enumerate(data):
    loss = model(batch).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.log({"loss": loss.item(), "lr": 0.1}, step=step)
accelerator.end_training()
