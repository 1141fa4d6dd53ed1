"""Frozen vectors of items: from a file, or from their titles and categories."""

from __future__ import annotations

from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recbole_residual.errors import DataError, MissingPackageError

SUFFIXES = (".npy", ".parquet", ".itememb")
TEXT_TYPES = ("token", "token_seq")


def read_vectors(path: str) -> dict[str, np.ndarray]:
    """The vectors in a file, by item token.

    Args:
        path: ``.npy`` with a matrix [n, V] and beside it a ``.txt`` of the same name with the token
            of each row, one a line; ``.parquet`` with the token in its first column and the vector
            in a list column or in all others; or RecBole's ``.itememb``, tab-separated, whose
            header names a column of type ``token`` and one of ``float_seq`` with blanks between its
            numbers.

    Raises:
        DataError: if it cannot be read so.
        MissingPackageError: if no installed package reads parquet.
    """
    file = Path(path).expanduser()
    if file.suffix not in SUFFIXES:
        raise DataError(f"item_embedding_file = {path!r}: it must be one of {list(SUFFIXES)}.")
    try:
        tokens, matrix = _READERS[file.suffix](file)
    except OSError as error:
        raise DataError(f"item_embedding_file {str(file)!r} cannot be read: {error}.") from error
    except ImportError as error:
        raise MissingPackageError(
            f"item_embedding_file {str(file)!r} needs a package that reads parquet: "
            "pip install pyarrow."
        ) from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise DataError(
            f"item_embedding_file {str(file)!r} does not hold one vector of numbers per item: "
            f"{error}."
        ) from error
    if matrix.ndim != 2 or len(tokens) != len(matrix) or not np.isfinite(matrix).all():
        raise DataError(
            f"item_embedding_file {str(file)!r} holds {len(tokens)} tokens and vectors of shape "
            f"{matrix.shape}: it must be one vector of finite numbers for each token."
        )
    return dict(zip(tokens, matrix))


def _from_npy(file: Path) -> tuple[list[str], np.ndarray]:
    tokens = file.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return tokens, np.load(file, allow_pickle=False).astype(np.float32)


def _from_parquet(file: Path) -> tuple[list[str], np.ndarray]:
    table = pd.read_parquet(file)
    rest = table.iloc[:, 1:]
    lists = rest.shape[1] == 1 and pd.api.types.is_object_dtype(rest.iloc[:, 0])
    matrix = np.stack(rest.iloc[:, 0].tolist()) if lists else rest.to_numpy()
    return [str(token) for token in table.iloc[:, 0]], matrix.astype(np.float32)


def _from_itememb(file: Path) -> tuple[list[str], np.ndarray]:
    header, *lines = file.read_text(encoding="utf-8").splitlines()
    kinds = [column.rpartition(":")[2] for column in header.split("\t")]
    token_at, vector_at = kinds.index("token"), kinds.index("float_seq")
    rows = [line.split("\t") for line in lines if line]
    return [row[token_at] for row in rows], np.stack(
        [np.array(row[vector_at].split(), dtype=np.float32) for row in rows]
    )


_READERS = {".npy": _from_npy, ".parquet": _from_parquet, ".itememb": _from_itememb}


def text_vectors(texts: dict[str, str], size: int) -> dict[str, np.ndarray]:
    """TF-IDF of texts, reduced by a truncated SVD, by item token.

    Args:
        texts: by item token.
        size: of the vectors, V; fewer where there are fewer words or items.

    Raises:
        DataError: if there is no word in them.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        counts = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b").fit_transform(texts.values())
    except ValueError as error:
        raise DataError(
            "the .item file holds no words to make item vectors of: give item_embedding_file."
        ) from error
    size = min(size, *(n - 1 for n in counts.shape)) or 1
    matrix = TruncatedSVD(size, random_state=0).fit_transform(counts).astype(np.float32)
    return dict(zip(texts, matrix))


def item_texts(config: Any) -> dict[str, str]:
    """Titles, categories and what else of an item is text, from the dataset's ``.item`` file.

    Raises:
        DataError: if there is no such file, or no text in it.
    """
    file = Path(config["data_path"], f"{config['dataset']}.item")
    separator, encoding = config["field_separator"] or "\t", config["encoding"] or "utf-8"
    try:
        lines = file.read_text(encoding=encoding).splitlines()
    except OSError as error:
        raise DataError(
            f"there are no item vectors: item_embedding_file is not set, and {str(file)!r}, from "
            "whose titles they could be made, cannot be read."
        ) from error
    header, *rows = [line.split(separator) for line in lines if line]
    names = [column.rpartition(":") for column in header]
    try:
        token_at = [name for name, _, _ in names].index(config["ITEM_ID_FIELD"])
    except ValueError:
        raise DataError(f"{file}: there is no column {config['ITEM_ID_FIELD']}.") from None
    wanted = [at for at, (_, _, kind) in enumerate(names) if kind in TEXT_TYPES and at != token_at]
    return {row[token_at]: " ".join(row[at] for at in wanted if at < len(row)) for row in rows}


def item_matrix(config: Any, dataset: Any, size: int) -> np.ndarray:
    """One frozen vector for each item of a dataset, in the order of its ids.

    Args:
        config: with ``item_embedding_file``; without one, the vectors are made of texts.
        dataset: RecBole's, which knows the tokens.
        size: of vectors that are made of texts.

    Returns:
        np.ndarray: float32, zeros for padding and for items without a vector, each column with
        mean 0 and all of them together with variance 1 over the items, [n_items, V].

    Raises:
        DataError: if no item has a vector, or the file cannot be read.
    """
    path = config["item_embedding_file"]
    vectors = read_vectors(path) if path else text_vectors(item_texts(config), size)
    tokens = dataset.field2id_token[config["ITEM_ID_FIELD"]]
    known = [id_ for id_ in range(1, len(tokens)) if str(tokens[id_]) in vectors]
    if not known:
        raise DataError(
            "no item of the dataset has a vector in "
            f"{path or 'the .item file'}: are its tokens those of the dataset's files?"
        )
    missing = len(tokens) - 1 - len(known)
    if missing:
        getLogger().warning("%d items have no vector of their own: theirs is zero.", missing)
    rows = np.stack([vectors[str(tokens[id_])] for id_ in known])
    rows = rows - rows.mean(axis=0)
    matrix = np.zeros((len(tokens), rows.shape[1]), dtype=np.float32)
    matrix[known] = rows / max(float(rows.std()), 1e-12)
    return matrix
