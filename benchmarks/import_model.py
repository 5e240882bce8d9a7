"""Import a random model of the size of NLLB-200-600M, and compare it with transformers.

    python benchmarks/import_model.py TOKENIZER WORK --text FILE       # one process, float32

TOKENIZER is a folder with a tokenizer of NLLB's kind, which `save_pretrained` of transformers has written. Its
vocabulary is filled up to 256,206 symbols. Three phases run in processes of their own, so that their memory is
measured separately: `make` writes the model, `import` converts it, and `compare` compares logits and outputs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

VOCABULARY_SIZE, NUM_UNUSED = 256_206, 2
NUM_LOGIT_SENTENCES, NUM_BEAM_SENTENCES = 20, 5


def make(tokenizer: Path, work: Path) -> None:
    """Write a random model, with a tokenizer of its vocabulary size."""
    import torch
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    folder = work / "checkpoint"
    torch.manual_seed(0)
    config = M2M100Config(vocab_size=VOCABULARY_SIZE, max_length=200)
    model: Any = M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        norm, end = model.model.decoder.layer_norm, config.eos_token_id
        model.model.shared.weight.normal_(std=0.03)
        norm.bias.normal_()
        model.model.shared.weight[end] += 5.5 * norm.bias / norm.bias.square().sum()
        for stack in (model.model.encoder, model.model.decoder):
            for name, parameter in stack.layers.named_parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=1.2 * parameter.shape[1] ** -0.5)
                elif "norm" not in name:
                    parameter.normal_(std=0.1)
    model.save_pretrained(folder, max_shard_size="1GB")
    values = json.loads((tokenizer / "tokenizer.json").read_text("utf-8"))
    vocabulary = values["model"]["vocab"]
    added = [
        token for token in values["added_tokens"] if token["id"] >= len(vocabulary) - 1 and token["content"] != "<mask>"
    ]
    vocabulary.pop("<mask>", None)
    tags = [token["content"] for token in added]
    for i in range(len(vocabulary), VOCABULARY_SIZE - NUM_UNUSED - len(tags) - 1):
        vocabulary[f"unused-{i}"] = i
    ids = {content: len(vocabulary) + i for i, content in enumerate([*tags, "<mask>"])}
    vocabulary.update(ids)
    for token in values["added_tokens"]:
        token["id"] = ids.get(token["content"], token["id"])
    for path in tokenizer.iterdir():
        (folder / path.name).write_bytes(path.read_bytes()) if path.name.startswith("tokenizer") else None
    (folder / "tokenizer.json").write_text(json.dumps(values, ensure_ascii=False), "utf-8")


def convert(work: Path) -> None:
    """Import the model."""
    import manyglot

    manyglot.import_model(work / "checkpoint", work / "model")


def compare(work: Path, text: Path) -> None:
    """Compare logits and outputs of the imported model with those of transformers."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.importers.equality import ModelPair

    lines = [line for line in text.read_text("utf-8").splitlines() if 20 < len(line) < 120]
    pair = ModelPair(work / "checkpoint", work / "model")
    start = time.perf_counter()
    some = lines[:NUM_LOGIT_SENTENCES]
    difference = pair.largest_logit_difference(some, some[::-1], "eng_Latn", "deu_Latn")
    print(f"logits of {len(some)} sentences: largest difference {difference:.2e}, {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    beams = pair.compare_beams(lines[:NUM_BEAM_SENTENCES], "eng_Latn", "deu_Latn", max_length=60)
    print(f"beams: {beams}, {time.perf_counter() - start:.0f} s")


def main() -> None:
    """Run one phase, or each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--phase", choices=("make", "import", "compare"))
    arguments = parser.parse_args()
    if arguments.phase is None:
        for phase in ("make", "import", "compare"):
            subprocess.run([sys.executable, *sys.argv, "--phase", phase], check=True)
        return
    start = time.perf_counter()
    match arguments.phase:
        case "make":
            make(arguments.tokenizer, arguments.work)
        case "import":
            convert(arguments.work)
        case "compare":
            compare(arguments.work, arguments.text)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{arguments.phase}: {time.perf_counter() - start:.0f} s, peak memory {peak:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
