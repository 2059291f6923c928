"""A made-up run that holds every kind of record there is, with the accidents a real run may have.

It is what pages, exports and rules are tried on. Nothing in it was trained or measured, and its
notes and tags say so. ``write.py`` is the way in; ``scenario.py`` says what happens when.
"""
