"""The seam: the files on disk that the training side writes and everything else reads."""
