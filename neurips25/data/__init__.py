"""Readers of real file formats and the default data sets: numpy in, numpy out."""

from neurips25.data.array_batches import ArrayBatch, ArrayBatches, evaluation_batches
from neurips25.data.batches import IGNORE_INDEX, TokenBatch, TokenBatches, evaluation_windows
from neurips25.data.cogs import CogsExample, WordVocabulary, read_cogs, write_cogs
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
    "ArrayBatch",
    "ArrayBatches",
    "ByteTokenizer",
    "CharTokenizer",
    "CogsExample",
    "HuggingFaceTokenizer",
    "SeekableBatches",
    "TiktokenTokenizer",
    "TokenBatch",
    "TokenBatches",
    "TokenShard",
    "Tokenizer",
    "WordVocabulary",
    "evaluation_batches",
    "evaluation_windows",
    "host_rows",
    "open_token_shard",
    "open_token_shards",
    "python_reference_text",
    "read_bytes",
    "read_cogs",
    "read_documents",
    "read_text",
    "replace_text",
    "replaced_file",
    "split_text",
    "split_tokens",
    "tokenizer_from_dict",
    "write_cogs",
    "write_text_shards",
    "write_token_shard",
]
