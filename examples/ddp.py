"""Two processes train one model and write into one run.

    torchrun --nproc-per-node 2 examples/ddp.py

`init` finds the ranks in the variables of torchrun. Every rank logs its own numbers; rank 1 is
made slow here, so that there is something to find:

    epochal doctor           # which rank the others wait for
    epochal serve            # charts draw one line for each rank
"""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import epochal

STEPS = int(os.environ.get("STEPS", "100"))

dist.init_process_group("gloo")  # "nccl" on GPUs
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

with epochal.init("examples", "ddp", total_steps=STEPS) as run:
    epochal.watch(model)
    for step in range(STEPS):
        began = time.perf_counter()
        x = torch.randn(64, 8)
        y = x.sum(dim=1, keepdim=True)
        if rank == 1:
            time.sleep(0.02)  # a slow disk, for example
        loss = nn.functional.mse_loss(model(x), y)
        work_ms = 1000 * (time.perf_counter() - began)  # without the time it waits for the other
        optimizer.zero_grad()
        loss.backward()  # waits for the gradients of the other rank
        optimizer.step()
        run.log_step(step, duration_ms=work_ms, loss=loss)

dist.destroy_process_group()
