"""The files of a run: writer, reader, blobs and encoded pictures, boards, repair."""
