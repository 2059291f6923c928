"""The training of ``epochal demo``: a small model in numpy, recorded as any other training.

Start reading at ``training.py``. ``text.py`` makes the text to learn; ``model.py`` learns it and
is drawn.
"""
