"""The files of a run: writer, reader, summaries, blobs and encoded pictures, boards, repair."""
