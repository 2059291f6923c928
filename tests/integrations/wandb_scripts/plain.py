"""A training loop in the style of W&B's own examples."""

# mypy: ignore-errors

import numpy as np
import torch
import wandb

torch.manual_seed(0)
rng = np.random.default_rng(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data, target = torch.randn(64, 4), torch.randn(64, 1)

wandb.login()
run = wandb.init(
    project="scripts",
    name="plain",
    notes="both ways",
    tags=["a", "b"],
    group="g",
    job_type="train",
    config={"lr": 0.05, "layers": [4, 8, 1], "model": {"act": "relu"}},
)
wandb.config.update({"batch": 64})
wandb.config.epochs = 30
wandb.define_metric("val/*", step_metric="epoch")
for step in range(wandb.config.epochs):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    wandb.log({"train": {"loss": loss, "lr": np.float32(0.05)}, "epoch": step // 10}, commit=False)
    wandb.log({"item": loss.item(), "on": step % 2 == 0})
    if step % 10 == 9:
        wandb.log(
            {
                "weights": wandb.Histogram(model[0].weight.detach().numpy()),
                "counted": wandb.Histogram(np_histogram=np.histogram(rng.random(50), bins=8)),
                "picture": wandb.Image(rng.integers(0, 256, (6, 5, 3), dtype=np.uint8)),
                "table": wandb.Table(columns=["x", "y"], data=[[step, "a"], [0.5, None]]),
                "page": wandb.Html("<b>bold</b>", inject=False),
                "note": f"step {step}",
                "val/loss": float(loss) * 2,
            },
            step=step * 2,
        )
wandb.log({"bad": float("nan"), "inf": float("inf")})
wandb.run.summary["best"] = 0.25
wandb.summary.update({"final": {"acc": 0.5}})
wandb.finish()
