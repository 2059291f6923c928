"""Arithmetic on one series: smoothing, trends, statistics, time left.

`window` and `trend` run in the training process and need nothing but Python; `smooth`, `reduce`
and `downsample` answer readers and use numpy. Import the module that is needed: this package
itself loads none of them.
"""
