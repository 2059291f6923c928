"""The files of a run: writer, reader, blobs, boards, repair, and its processes."""
