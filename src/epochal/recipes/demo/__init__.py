"""The first five minutes: a small training in numpy, written down as any other training would be.

Start reading at ``training.py``. ``text.py`` makes what is learned, ``model.py`` learns it and
``pictures.py`` draws it. ``every_kind/`` is something else: a made-up run that holds every kind of
record there is, for those who build on the journal.
"""
