"""What a data set of a composition task holds: padded tokens, labels, features, files.

The tasks are those of Kozachinskiy et al., "Strassen Attention, Split VC Dimension and
Compositionality in Transformers", arXiv:2501.19215: token sequences with a label 0 or 1 at
each token. ``composition_tasks.py`` and ``match3.py`` generate them; here is what all four
share, from the model's input features to ``.npz`` files. All of it numpy on the host.
"""

import dataclasses
import enum
import os
import pathlib
import zipfile
import zlib

import numpy as np
from numpy.typing import ArrayLike

from neurips25.data.files import replaced_file

IGNORED_LABEL = -100
"""Label of a token that has no answer: padding, and what a task leaves out."""


class CompositionTask(enum.StrEnum):
    """The four generated tasks of arXiv:2501.19215."""

    FUNCTION_COMPOSITION = "function_composition"
    BINARY_RELATION = "binary_relation"
    MATCH3 = "match3"
    QUOTIENT_RELATION = "quotient_relation"


FIELDS: dict[CompositionTask, tuple[str, ...]] = {
    CompositionTask.FUNCTION_COMPOSITION: ("position", "symbol", "is_query"),
    CompositionTask.BINARY_RELATION: ("i", "j", "A_ij", "B_ij"),
    CompositionTask.MATCH3: ("position", "p"),
    CompositionTask.QUOTIENT_RELATION: ("i", "j", "A_ij", "B_ij", "col_i", "col_j"),
}
"""What the integers of one token stand for."""

_GRID_TASKS = (CompositionTask.BINARY_RELATION, CompositionTask.QUOTIENT_RELATION)


@dataclasses.dataclass(frozen=True, eq=False)
class TaskData:
    """N examples of one task, padded to n tokens of F integer fields.

    Args:
      task: which of the four.
      tokens: int32 [N, n, F], fields as ``FIELDS[task]`` names them, 0 at padding. A relation
        on m elements is the m x m corner of a side x side grid, row by row: token (i, j) is at
        ``i * side + j``.
      mask: bool [N, n], True where a token is real.
      labels: int32 [N, n], 0 or 1, and ``IGNORED_LABEL`` where there is none.
      lengths: int32 [N]: tokens of an example (the query token included), or its m.
      field_sizes: F numbers; field k takes values in [0, field_sizes[k]).
      scale: what ``raw_features`` divides positions, values and their squares by.
      side: largest m for the relation tasks, where n = side², otherwise None.

    Raises:
      ValueError: an array whose shape or dtype is not the above.
    """

    task: CompositionTask
    tokens: np.ndarray
    mask: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    field_sizes: tuple[int, ...]
    scale: float
    side: int | None = None

    def __post_init__(self) -> None:
        names = FIELDS[self.task]
        if self.tokens.ndim != 3 or self.tokens.shape[2] != len(names):
            raise ValueError(
                f"tokens has shape {list(self.tokens.shape)}, {self.task} needs "
                f"[N, n, {len(names)}] with the fields {', '.join(names)}"
            )
        num, n, _ = self.tokens.shape
        needs: tuple[tuple[str, type[np.generic], list[int]], ...] = (
            ("tokens", np.integer, [num, n, len(names)]),
            ("mask", np.bool_, [num, n]),
            ("labels", np.integer, [num, n]),
            ("lengths", np.integer, [num]),
        )
        for name, kind, shape in needs:
            array = getattr(self, name)
            if list(array.shape) != shape or not np.issubdtype(array.dtype, kind):
                raise ValueError(
                    f"{name} is {array.dtype} {list(array.shape)}, "
                    f"needs {kind.__name__} {shape} beside tokens"
                )
        if len(self.field_sizes) != len(names):
            raise ValueError(f"field_sizes has {len(self.field_sizes)} numbers, not {len(names)}")
        if self.task in _GRID_TASKS and (self.side is None or self.side**2 != n):
            raise ValueError(f"side is {self.side}, {n} tokens of a grid need side² = {n}")

    def __len__(self) -> int:
        return len(self.tokens)


def raw_features(data: TaskData) -> np.ndarray:
    """Numbers that a linear map may embed, so that a model needs no tables.

        function composition  (i, i², s, s²) / S, is_query         S = (largest n)²
        Match3                (i, p, p²) / S, 1                    S = M²
        relations             (i, j, i², j²) / S, A_ij, B_ij       S = side²
        quotient              the same, col(i) / side, col(j) / side

    S is ``data.scale``; positions, i and j count from 0 as in ``tokens``.

    Returns:
      float32 [N, n, k] with k = 5, 4, 6 and 8; zeros at padding.

    Source: Match3 as in a port of the authors' code for arXiv:2501.19215; the others, which
    are not published, in its manner.
    """
    fields = np.moveaxis(data.tokens.astype(np.float32), 2, 0)
    if data.task == CompositionTask.FUNCTION_COMPOSITION:
        i, s, is_query = fields
        scaled, plain = [i, i * i, s, s * s], [is_query]
    elif data.task == CompositionTask.MATCH3:
        i, value = fields
        scaled, plain = [i, value, value * value], [np.ones_like(i)]
    else:
        i, j, a, b, *colours = fields
        scaled = [i, j, i * i, j * j]
        plain = [a, b, *(c / np.float32(data.side) for c in colours)]
    features = np.stack([x / np.float32(data.scale) for x in scaled] + plain, -1)
    return features * data.mask[:, :, None]


def take(data: TaskData, indices: ArrayLike | slice) -> TaskData:
    """The examples at some indices, integer or bool [k], or of a slice."""
    rows = indices if isinstance(indices, slice) else np.asarray(indices)
    return dataclasses.replace(
        data,
        tokens=data.tokens[rows],
        mask=data.mask[rows],
        labels=data.labels[rows],
        lengths=data.lengths[rows],
    )


def split_validation(data: TaskData, fraction: float = 0.1) -> tuple[TaskData, TaskData]:
    """The first examples for training and the last ``fraction`` of them for validation.

    Generated examples come in random order. For Match3 see ``make_match3_splits``: this
    split leaves permuted copies of one sequence on both sides.

    Raises:
      ValueError: if a part would be empty.
    """
    cut = len(data) - round(len(data) * fraction)
    if not 0 < cut < len(data):
        raise ValueError(f"fraction={fraction} of {len(data)} examples leaves a part empty")
    return take(data, slice(cut)), take(data, slice(cut, None))


def majority_accuracy(labels: ArrayLike) -> float:
    """Accuracy of the commoner label, among those that are not ignored.

    >>> majority_accuracy([1, 1, 0, 1, -100])
    0.75
    """
    array = np.asarray(labels)
    answers = array[array != IGNORED_LABEL]
    if not answers.size:
        raise ValueError("labels has none that is not ignored")
    ones = float(np.mean(answers))
    return max(ones, 1.0 - ones)


def save_task(path: str | os.PathLike[str], data: TaskData) -> None:
    """Writes a compressed ``.npz``; a file of that name stays whole until the new one is."""
    small = np.min_scalar_type(max(data.field_sizes) - 1)
    with replaced_file(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(
            file,
            task=np.array(str(data.task)),
            tokens=data.tokens.astype(small),
            mask=data.mask,
            labels=data.labels.astype(np.int8),
            lengths=data.lengths,
            field_sizes=np.array(data.field_sizes),
            scale=np.array(data.scale),
            side=np.array(data.side or 0),
        )


def load_task(path: str | os.PathLike[str]) -> TaskData:
    """Reads what ``save_task`` wrote.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file and the array that is missing, misshapen or out of range.
    """
    path = pathlib.Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a task file (.npz): {error}") from error
    needed = ("task", "tokens", "mask", "labels", "lengths", "field_sizes", "scale", "side")
    for name in needed:
        if name not in arrays:
            raise ValueError(f"{path}: array {name!r} is missing, needs {', '.join(needed)}")
    try:
        data = TaskData(
            task=CompositionTask(str(arrays["task"])),
            tokens=arrays["tokens"],
            mask=arrays["mask"],
            labels=arrays["labels"],
            lengths=arrays["lengths"],
            field_sizes=tuple(int(x) for x in arrays["field_sizes"].reshape(-1)),
            scale=float(arrays["scale"]),
            side=int(arrays["side"]) or None,
        )
        if data.tokens.size and (
            data.tokens.min() < 0 or (data.tokens.max((0, 1)) >= data.field_sizes).any()
        ):
            raise ValueError(f"tokens has a value outside [0, field_sizes={data.field_sizes})")
        if not np.isin(data.labels, (0, 1, IGNORED_LABEL)).all():
            raise ValueError(f"labels has a value that is not 0, 1 or {IGNORED_LABEL}")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
    return dataclasses.replace(
        data,
        tokens=data.tokens.astype(np.int32),
        labels=data.labels.astype(np.int32),
        lengths=data.lengths.astype(np.int32),
    )


def check_sizes(num: int, least: int, **sizes: int) -> None:
    """Raises unless ``num`` >= 1 and ``least`` <= first size <= second size <= ..."""
    if num < 1:
        raise ValueError(f"num must be >= 1, got {num}")
    if sorted([least, *sizes.values()]) != [least, *sizes.values()]:
        given = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise ValueError(f"needs {least} <= {' <= '.join(sizes)}, got {given}")
