"""What a training shows in a terminal: lines, blocks, a progress bar, and how much of each.

Runs in the training process: nothing here loads numpy, psutil or torch; rich only for a terminal.
"""
