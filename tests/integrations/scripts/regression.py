"""Trains a network with a plain loop and W&B, in the style of its examples."""

import torch
import wandb


def main() -> None:
    run = wandb.init(project="regression", name="waves", config={"lr": 0.02, "epochs": 4})
    config = wandb.config
    torch.manual_seed(0)
    inputs = torch.linspace(-3, 3, 64)[:, None]
    target = torch.sin(inputs)
    model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    wandb.watch(model, log=None)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    best = float("inf")
    for epoch in range(config.epochs):
        for start in range(0, 64, 16):
            part = slice(start, start + 16)
            loss = torch.nn.functional.mse_loss(model(inputs[part]), target[part])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            wandb.log({"train/loss": loss.item(), "epoch": epoch})
        with torch.no_grad():
            error = float(torch.nn.functional.mse_loss(model(inputs), target))
        best = min(best, error)
        wandb.log({"val": {"loss": error, "best": best}})
    run.summary["best_error"] = best
    wandb.finish()


if __name__ == "__main__":
    main()
