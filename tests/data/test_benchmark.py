"""Ready-made splits: histories and targets are the same items, zeros are padding."""

from __future__ import annotations

import pytest
from recbole.model.sequential_recommender import SASRec

from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.errors import DataError

HEADER = "user_id:token\titem_id_list:token_seq\titem_id:token"
COLUMNS = {"inter": ["user_id", "item_id_list", "item_id"]}
ROWS = {
    "train": ["u1\t3 1\t2", "u2\t1\t3", "u3\t2 3 1 5\t4"],
    "valid": ["u1\t3 1 2\t1", "u2\t1 3\t5"],
    "test": ["u1\t3 1 2 1\t4"],
}


@pytest.fixture
def prepare(tmp_path, make_config):
    def prepare(rows=ROWS, header=HEADER, **values):
        folder = tmp_path / "tiny"
        folder.mkdir(exist_ok=True)
        for name, lines in rows.items():
            (folder / f"tiny.{name}.inter").write_text("\n".join([header, *lines]) + "\n")
        config = make_config(
            **{"benchmark_filename": list(ROWS), "load_col": COLUMNS, "topk": [1], **values}
        )
        dataset = create_dataset(config)
        return config, dataset, data_preparation(config, dataset)

    return prepare


def rows_of(dataset, loader):
    """Rows as tokens: user, history, target."""
    feat = loader.dataset.inter_feat
    return [
        (
            str(dataset.id2token("user_id", user)),
            dataset.id2token("item_id", items[:length]).tolist(),
            str(dataset.id2token("item_id", target)),
        )
        for user, items, length, target in zip(
            feat["user_id"].tolist(),
            feat["item_id_list"].numpy(),
            feat["item_length"].tolist(),
            feat["item_id"].tolist(),
        )
    ]


def expected(lines, longest=8):
    cells = [line.split("\t") for line in lines]
    return [(user, items.split()[-longest:], target) for user, items, target in cells]


@pytest.mark.parametrize("alias", [None, ["item_id_list"]])
@pytest.mark.parametrize("longest", [8, 2])
def test_histories_and_targets_are_the_same_items(prepare, alias, longest):
    _, dataset, loaders = prepare(alias_of_item_id=alias, MAX_ITEM_LIST_LENGTH=longest)
    assert dataset.item_num == 6
    for name, loader in zip(ROWS, loaders):
        assert rows_of(dataset, loader) == expected(ROWS[name], longest)
    assert all(batch["item_id_list"].shape[1] <= longest for batch in loaders.train)


@pytest.mark.parametrize("left", [True, False])
def test_zeros_are_padding(prepare, left):
    padded = {}
    for name, lines in ROWS.items():
        padded[name] = []
        for line in lines:
            user, items, target = line.split("\t")
            zeros = ["0"] * (5 - len(items.split()))
            items = [*zeros, *items.split()] if left else [*items.split(), *zeros]
            padded[name].append(f"{user}\t{' '.join(items)}\t{target}")
    _, dataset, loaders = prepare(padded)
    assert dataset.item_num == 6
    for name, loader in zip(ROWS, loaders):
        assert rows_of(dataset, loader) == expected(ROWS[name])


def test_a_zero_that_is_a_target_is_an_item(prepare):
    rows = {name: [line.replace("5", "0") for line in lines] for name, lines in ROWS.items()}
    _, dataset, loaders = prepare(rows)
    assert dataset.item_num == 6
    for name, loader in zip(ROWS, loaders):
        assert rows_of(dataset, loader) == expected(rows[name])


def test_what_is_recorded_is_what_is_done(prepare):
    config, _, loaders = prepare(loss_positions="all")
    assert config["loss_positions"] == "last"
    assert all("target_item_id_list" not in batch for batch in loaders.train)


@pytest.mark.parametrize("model", ["ours", "recbole's"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": ["u1\t\t2", *ROWS["train"]]}, r"train.inter.*'item_id_list'.*line 2"),
        ({"valid": [*ROWS["valid"], "", "u9\t0 0\t2"]}, r"valid.inter.*'item_id_list'.*line 5"),
        ({"test": ["u1\t2 1\t"]}, r"test.inter.*'item_id' is empty.*line 2"),
        ({"test": ["\t2 1\t3"]}, r"test.inter.*'user_id' is empty.*line 2"),
        ({"test": ["u1\t2 1\t3\t4"]}, r"test.inter: line 2 has 4 fields"),
    ],
)
def test_a_row_that_lacks_something(prepare, change, message, model):
    extra = {} if model == "ours" else {"model": SASRec}
    with pytest.raises(DataError, match=message):
        prepare({**ROWS, **change}, **extra)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"load_col": {"inter": ["user_id", "item_id"]}}, "'item_id_list' was loaded"),
        ({"benchmark_filename": ["train", "test"]}, "three files"),
        ({"benchmark_filename": "train"}, "three files"),
        ({"header": HEADER.replace("token_seq", "token")}, "line 1.*token_seq"),
        ({"header": HEADER.replace("item_id_list", "history")}, "'item_id_list', but there is"),
        ({"benchmark_filename": ["train", "valid", "tset"]}, "tset"),
    ],
)
def test_files_that_cannot_be_used(prepare, values, message):
    with pytest.raises(DataError, match=message):
        prepare(**values)
