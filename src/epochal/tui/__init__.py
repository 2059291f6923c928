"""The terminal's view of runs: charts, vital signs, machine and log, drawn from what stores answer.

cells glyphs canvas scale chart spark        shapes to characters; pure
view zoom keys                               what the person at the keyboard has asked for
vitals progress machine run_log state       what is known of the runs, read as far as it is shown
panels/ screen snapshot                      all of it on a screen, or once on paper
paint terminal session                       characters to a terminal, keys from it
"""
