"""Writes text with a model that `train.py` has trained, from the newest checkpoint of its run.

python examples/gpt2/sample.py baseline --prompt "Once upon a time"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from data import open_tokenizer
from distributed import joined
from epochal import EpochalError, UsageError, console
from epochal.records.format import format_count
from epochal.torch import load_checkpoint
from epochal.torch.checkpoint.manifest import MODEL
from evaluation import draw_samples
from flags import Command
from model import GPT
from resuming import find_origin
from training import shape_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the samples. The exit code is 2 if there is no such run or checkpoint."""
    given = vars(_parser().parse_args(arguments))
    try:
        for text in samples(**given):
            print(text, end="\n\n")
    except EpochalError as error:
        print(f"sample.py: {error}", file=sys.stderr)
        return 2
    return 0


def samples(
    run: str,
    *,
    prompt: str,
    tokens: int,
    temperature: float,
    top_k: int,
    samples: int,
    seed: int,
    device: str | None,
    **places: str,
) -> list[str]:
    """Load the model of a run, or of one checkpoint, and continue the prompt."""
    if min(tokens, top_k, samples) < 1 or temperature < 0:
        raise UsageError(
            "Use 1 or more for --tokens, --top_k and --samples, and 0 or more for --temperature."
        )
    command = Command(places, None, run, list_checkpoints=False, estimate=False)
    origin = find_origin(command, flag="the run")
    if origin is None:  # the run is called auto
        raise UsageError(f"There is no checkpoint of the run {run}.")
    flags = command.flags(origin.manifest.config)
    tokenizer = open_tokenizer(flags.tokenizer or "gpt2")
    with joined(device) as process:
        model = GPT(shape_of(flags, tokenizer))
        load_checkpoint(origin.path / MODEL, model)
        count = format_count(model.num_parameters)
        console.msg("%s", f"{origin.manifest.name} of {origin.run_name}: {count} parameters.")
        return draw_samples(
            model.to(process.device).eval(),
            tokenizer,
            process,
            prompt=prompt,
            num_tokens=tokens,
            num_samples=samples,
            temperature=temperature,
            top_k=top_k,
            seed=seed,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Write text with a trained GPT-2.")
    parser.add_argument(
        "run",
        nargs="?",
        default="latest",
        help="name of a run, project/name, path of a run or checkpoint, best, or latest (default)",
    )
    parser.add_argument("--prompt", default="Hello, I am a language model,", help="its beginning")
    parser.add_argument("--tokens", type=int, default=100, help="tokens to add (100)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 is the likeliest (0.8)")
    parser.add_argument("--top_k", type=int, default=50, help="draw from so many tokens (50)")
    parser.add_argument("--samples", type=int, default=1, help="number of samples (1)")
    parser.add_argument("--seed", type=int, default=42, help="another seed, another text (42)")
    parser.add_argument("--device", help="cpu or cuda (default: a GPU if there is one)")
    for name in ("project", "dir", "checkpoint_dir"):
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS, help="as for train.py")
    return parser


if __name__ == "__main__":
    sys.exit(main())
