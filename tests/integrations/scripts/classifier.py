"""Trains a classifier with Accelerate, in the style of its examples."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed


def main() -> None:
    num_epochs, batch_size = 3, 16
    config = {"lr": 0.05, "num_epochs": num_epochs, "seed": 42, "batch_size": batch_size}
    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir="logs")
    accelerator.init_trackers("blobs", config)
    set_seed(config["seed"])
    centres = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [0.0, -1.0]])
    labels = torch.arange(96) % 3
    points = centres[labels] + 0.3 * torch.randn(96, 2)
    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(points, labels), batch_size=batch_size
    )
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for epoch in range(num_epochs):
        total_loss, num_right = 0.0, 0
        for batch, target in data:
            output = model(batch)
            loss = torch.nn.functional.cross_entropy(output, target)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            total_loss += loss.detach().item()
            num_right += int((output.argmax(-1) == target).sum())
        metrics = {"train_loss": total_loss / len(data), "accuracy": num_right / 96}
        accelerator.log({**metrics, "epoch": epoch}, step=epoch)
    accelerator.end_training()


if __name__ == "__main__":
    main()
