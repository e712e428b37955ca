"""Readers of real file formats and the default data sets: numpy in, numpy out."""

from neurips25.data.batches import IGNORE_INDEX, TokenBatch, TokenBatches, evaluation_windows
from neurips25.data.files import replace_text, replaced_file
from neurips25.data.seekable import SeekableBatches, host_rows
from neurips25.data.text import (
    python_reference_text,
    read_bytes,
    read_documents,
    read_text,
    split_text,
    split_tokens,
)
from neurips25.data.token_shards import (
    TokenShard,
    open_token_shard,
    open_token_shards,
    write_text_shards,
    write_token_shard,
)
from neurips25.data.tokenizers import (
    ByteTokenizer,
    CharTokenizer,
    HuggingFaceTokenizer,
    TiktokenTokenizer,
    Tokenizer,
    tokenizer_from_dict,
)

__all__ = [
    "IGNORE_INDEX",
    "ByteTokenizer",
    "CharTokenizer",
    "HuggingFaceTokenizer",
    "SeekableBatches",
    "TiktokenTokenizer",
    "TokenBatch",
    "TokenBatches",
    "TokenShard",
    "Tokenizer",
    "evaluation_windows",
    "host_rows",
    "open_token_shard",
    "open_token_shards",
    "python_reference_text",
    "read_bytes",
    "read_documents",
    "read_text",
    "replace_text",
    "replaced_file",
    "split_text",
    "split_tokens",
    "tokenizer_from_dict",
    "write_text_shards",
    "write_token_shard",
]
