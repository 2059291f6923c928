"""The engine over run folders and other trackers' files on this machine's file systems."""
