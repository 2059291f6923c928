"""Keep files with a run: a configuration, a tokenizer, a report.

Run it with ``python examples/files.py``. ``epochal serve`` offers the file for download.
"""

import json
import tempfile
from pathlib import Path

import epochal

with epochal.init("samples", "files") as run, tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "vocabulary.json"
    path.write_text(json.dumps({"the": 0, "a": 1, "model": 2}))

    run.log_file(path)  # the file is copied: you may delete yours
    run.log_file(path, name="tokenizer/vocabulary.json")  # under a name of your choice

    for file in run.files():
        print(file.name, file.bytes, file.path)
