"""Text for the T6 experiment: the default corpus, files, directories, token shards."""

import hashlib
import json
import pathlib
from typing import NamedTuple

import jax
import numpy as np
from ml_collections import ConfigDict

from experiments.workdir import has_begun
from neurips25 import data


class Corpus(NamedTuple):
    """Tokens of both splits and what made them.

    Attributes:
      train: arrays or shards of token ids.
      validation: token ids.
      tokenizer: None for token shards, whose vocabulary is not in the files.
      vocab_size: number of ids, 0 when only the config can know it.
      name: for records and tables.
    """

    train: tuple[np.ndarray | data.TokenShard, ...]
    validation: np.ndarray | data.TokenShard
    tokenizer: data.Tokenizer | None
    vocab_size: int
    name: str


def load_corpus(config: ConfigDict) -> Corpus:
    """Reads the corpus that ``config.data`` names.

    Args:
      config: the experiment's config.

    Returns:
      The corpus.

    Raises:
      ValueError: an unknown tokenizer, an empty or undecodable file, shards without a
        validation split. The message names the file.
      FileNotFoundError: no such path.
    """
    choice, path = config.data.tokenizer, config.data.path
    if choice == "bin":
        return _load_shards(path)
    if choice == "byte":
        tokenizer: data.Tokenizer = data.ByteTokenizer()
        content = data.read_bytes(path) if path else data.python_reference_text()
        tokens = data.ByteTokenizer().encode(content)
    else:
        text = data.read_text(path) if path else data.python_reference_text()
        tokenizer = _tokenizer(choice, text)
        tokens = tokenizer.encode(text)
    train, validation = data.split_tokens(tokens, config.data.validation_fraction)
    name = pathlib.Path(path).name if path else "Python language reference"
    return Corpus((train,), validation, tokenizer, tokenizer.vocab_size, f"{name} ({choice})")


def _tokenizer(choice: str, text: str) -> data.Tokenizer:
    if choice == "char":
        return data.CharTokenizer.from_text(text)
    if choice.startswith("tiktoken:"):
        return data.TiktokenTokenizer.from_name(choice.removeprefix("tiktoken:"))
    if choice.endswith(".tiktoken"):
        return data.TiktokenTokenizer.from_ranks_file(choice)
    if choice.endswith(".json"):
        return data.HuggingFaceTokenizer.from_file(choice)
    raise ValueError(
        f"config.data.tokenizer={choice!r} is not char, byte, bin, tiktoken:NAME, "
        "a .tiktoken file or a tokenizer.json"
    )


def _load_shards(path: str) -> Corpus:
    if not path:
        raise ValueError(
            "config.data.tokenizer is bin: --config.data.path=DIR must name the shards"
        )
    # Strict: a shard left out would change which tokens every later step sees.
    shards = data.open_token_shards(path, strict=True)
    validation = [s for s in shards if "_val_" in s.path.name]
    train = tuple(s for s in shards if "_val_" not in s.path.name)
    if not validation or not train:
        raise ValueError(
            f"{path}: needs *_val_*.bin and *_train_*.bin, has {[s.path.name for s in shards]}"
        )
    if len(validation) > 1:
        raise ValueError(f"{path}: has {len(validation)} validation shards, needs one")
    return Corpus(train, validation[0], None, 0, f"{pathlib.Path(path).name} (token shards)")


def check_corpus(corpus: Corpus, workdir: pathlib.Path) -> None:
    """Stores what the corpus is in ``corpus.json``, or checks it against what is stored.

    Text that changed between two starts would give the tokens another meaning without any
    error, so the tokenizer and a digest of the tokens belong to the run, once it has begun.

    Args:
      corpus: the corpus.
      workdir: the run directory.

    Raises:
      ValueError: the directory's run has seen another text or another tokenizer.
    """
    now = {
        "name": corpus.name,
        "tokens": [_digest(part) for part in (*corpus.train, corpus.validation)],
        "tokenizer": None if corpus.tokenizer is None else corpus.tokenizer.to_dict(),
    }
    file = workdir / "corpus.json"
    if not file.exists() or not has_begun(workdir):
        if jax.process_index() == 0:
            data.replace_text(file, json.dumps(now) + "\n")
        return
    then = json.loads(file.read_text(encoding="utf-8"))
    for field in ("tokens", "tokenizer"):
        if then[field] != now[field]:
            raise ValueError(
                f"{file}: the {field} of {corpus.name} are not those that this run has seen "
                f"({then['name']}); use another --workdir for another text"
            )


def _digest(tokens: np.ndarray | data.TokenShard) -> str:
    if isinstance(tokens, data.TokenShard):  # gigabytes: name and size must do
        return f"{tokens.path.name}, {len(tokens)} tokens"
    return hashlib.sha256(np.ascontiguousarray(tokens).tobytes()).hexdigest()
