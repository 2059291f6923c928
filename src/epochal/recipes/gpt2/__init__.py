"""The reference trainer: GPT-2 with everything on, to run as it is and to copy from.

    python -m epochal.recipes.gpt2 --preset tiny
    torchrun --standalone --nproc_per_node=8 -m epochal.recipes.gpt2 --data shards/

Start reading at ``train.py``: the loop. ``flags.py`` says what can be asked for, ``model.py`` what
is trained, ``data.py`` on what, ``evaluation.py`` how it is judged, ``resuming.py`` from where.
"""
