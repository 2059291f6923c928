"""The package ``wandb`` of processes that ``python -m epochal.wandb`` starts: epochal.wandb itself.

This folder is in front of their ``PYTHONPATH``, so every ``import wandb`` finds it, in children,
ranks and spawned processes too. Submodules come from ``epochal.wandb.submodules``.
"""

from epochal.wandb.submodules import stand_in_for

stand_in_for(__name__)
