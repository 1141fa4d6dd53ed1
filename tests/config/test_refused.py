"""Everything that a user may mistype is one ConfigError before any data is read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError

GT = {"split": {"GT": [0.9, 0.9]}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        # numbers
        (
            {"epochs": "2.5"},
            "epochs = '2.5' is not usable: it must be a whole number of at least 1",
        ),
        ({"epochs": 2.5}, "whole number"),
        ({"epochs": "1,000"}, "whole number"),
        ({"epochs": None}, "epochs"),
        ({"epochs": True}, "whole number"),
        ({"epochs": float("inf")}, "whole number"),
        ({"epochs": ""}, "whole number"),
        ({"train_batch_size": -1}, "train_batch_size"),
        ({"eval_batch_size": "big"}, "eval_batch_size"),
        ({"MAX_ITEM_LIST_LENGTH": 0}, "of at least 1"),
        ({"learning_rate": "1e-3x"}, "a number above 0"),
        ({"learning_rate": "nan"}, "a number above 0"),
        ({"learning_rate": 0}, "a number above 0"),
        ({"weight_decay": -0.1}, "of at least 0"),
        ({"stopping_step": -1}, "stopping_step"),
        ({"eval_step": -1}, "eval_step"),
        ({"eval_step": 0.5}, "eval_step"),
        ({"seed": -1}, "of at least 0 and at most 4294967295"),
        ({"seed": 2**32}, "at most 4294967295"),
        ({"worker": "two"}, "worker"),
        ({"hidden_dropout_prob": 1.5}, "of at least 0 and at most 1"),
        ({"attn_dropout_prob": "-0.1"}, "of at least 0 and at most 1"),
        ({"n_layers": 0}, "n_layers"),
        ({"n_layers": "2.5"}, "n_layers"),
        ({"inner_size": [256]}, "inner_size"),
        ({"initializer_range": 0}, "initializer_range"),
        ({"logits_chunk": 0}, "logits_chunk"),
        ({"metric_decimal_place": -1}, "metric_decimal_place"),
        ({"topk": []}, "topk"),
        ({"topk": [1, 2.5]}, "topk = [1, 2.5] is not usable: it must be a list of whole numbers"),
        ({"topk": {"1": 2}}, "topk"),
        ({"topk": None}, "topk"),
        # choices
        ({"learner": "lion"}, "one of ['adam', 'adamw', 'sgd'"),
        ({"learner": "adm"}, "did you mean 'adam'?"),
        ({"loss_type": "mse"}, "one of ['CE', 'BPR']"),
        ({"loss_type": "hinge"}, "loss_type"),
        ({"hidden_act": "gelo"}, "did you mean 'gelu'?"),
        ({"state": "loud"}, "state"),
        ({"transform": "mask"}, "mask_itemseq"),
        ({"probe": "fast"}, "probe = 'fast' is not usable: one of ['quick', 'full', 'none']"),
        ({"norm": "before"}, "norm"),
        ({"latex": 2}, "True or False"),
        ({"use_gpu": "maybe"}, "True or False"),
        ({"strict_config": "perhaps"}, "True or False"),
        ({"rm_dup_inter": True}, "one of ['first', 'last']"),
        # text
        ({"output_dir": ""}, "it is empty"),
        ({"data_path": "  "}, "it is empty"),
        ({"data_path": ["a", "b"]}, "it must be a path"),
        ({"encoding": "utf-88"}, "a text encoding that Python knows"),
        ({"field_separator": ""}, "one or more characters"),
        ({"USER_ID_FIELD": ["user_id"]}, "USER_ID_FIELD"),
        ({"valid_metric": 10}, "valid_metric = '10' is not among"),
        ({"valid_metric": "NDCG"}, "did you mean"),
        ({"valid_metric": ""}, "valid_metric"),
        ({"metrics": []}, "metrics = [] is not usable"),
        ({"metrics": [["NDCG"]]}, "metrics"),
        ({"metrics": ["NDCG", "AUC"]}, "can not be used at the same time"),
        ({"metrics": "[NDCG, Hitt]"}, "there is no metric 'Hitt', did you mean 'Hit'?"),
        ({"metrics": ["AUC"], "valid_metric": "AUC"}, "Full sort evaluation"),
        ({"valid_metric_bigger": False}, "It follows from valid_metric"),
        # intervals
        ({"user_inter_num_interval": 5}, 'such as "[5,inf)" for at least 5'),
        ({"item_inter_num_interval": "5"}, 'such as "[5,inf)" for at least 5'),
        ({"user_inter_num_interval": "[5,inf"}, "an interval"),
        ({"user_inter_num_interval": "[9,5]"}, "an interval"),
        ({"user_inter_num_interval": ""}, "an interval"),
        ({"val_interval": {"rating": 3}}, "val_interval: rating = 3 is not usable"),
        ({"val_interval": "rating > 3"}, "val_interval"),
        ({"val_interval": {"user_id": "7"}}, "or a list of tokens"),
        # mappings
        (
            {"eval_args": {"splits": {"LS": "test_only"}}},
            "no entry 'splits', did you mean 'split'?",
        ),
        ({"eval_args": "full"}, "eval_args"),
        ({"eval_args": {"mode": "all"}}, "eval_args: mode = 'all' is not usable: it must be full"),
        ({"eval_args": {"mode": "uni"}}, "uni100"),
        ({"eval_args": {"mode": {"validation": "full"}}}, "eval_args: mode"),
        ({"eval_args": {"mode": {"test": "uni0"}}}, "eval_args: mode: test = 'uni0'"),
        ({"eval_args": {"order": "time"}}, "one of ['RO', 'TO']"),
        ({"eval_args": {"group_by": "item"}}, "group_by"),
        ({"eval_args": {"split": "LS"}}, "one split"),
        ({"eval_args": {"split": {"XS": [1]}}}, "there is no split 'XS'"),
        ({"eval_args": {"split": {"LS": "valid"}}}, "did you mean 'valid_only'?"),
        ({"eval_args": {"split": {"RS": [0.8, 0.2]}}}, "three shares"),
        ({"eval_args": {"split": {"RS": [0, 0.5, 0.5]}}}, "the first above 0"),
        ({"eval_args": {"split": {"RS": [0.8, 0.1, 0.1], "LS": "test_only"}}}, "one split"),
        ({"eval_args": {"split": {"GT": [1.5]}}}, "eval_args: split: GT = [1.5]"),
        ({"eval_args": {"split": {"GT": [0.9, 0.9, 0.9]}}}, "each between 0 and 1"),
        ({"eval_args": {**GT, "order": "RO"}}, "set eval_args: {order: TO}"),
        ({"eval_args": {"mode": "uni10"}, "filter_seen": True, "metrics": ["Hit"]}, "filter_seen"),
        ({"eval_args": {"mode": "uni10"}, "metrics": ["HRLI"]}, "the whole catalogue"),
        ({"clip_grad_norm": 5}, "such as {max_norm: 5}"),
        ({"clip_grad_norm": {"norm": 5}}, "did you mean 'max_norm'?"),
        ({"clip_grad_norm": {"norm_type": 2}}, "max_norm is missing"),
        ({"clip_grad_norm": {"max_norm": -1}}, "clip_grad_norm: max_norm = -1"),
        ({"train_neg_sample_args": {"distribution": "uniform"}}, "set loss_type: BPR"),
        ({"train_neg_sample_args": 3, "loss_type": "BPR"}, "train_neg_sample_args"),
        ({"train_neg_sample_args": {"number": 3}, "loss_type": "BPR"}, "no entry 'number'"),
        (
            {"train_neg_sample_args": {"sample_num": 0}, "loss_type": "BPR"},
            "train_neg_sample_args: sample_num = 0",
        ),
        ({"train_neg_sample_args": {"dynamic": True}, "loss_type": "BPR"}, "dynamic: False"),
        ({"load_col": {"iter": ["user_id"]}}, "there is no file 'iter', did you mean 'inter'?"),
        ({"load_col": "inter:[user_id, item_id]"}, "a blank behind each colon"),
        ({"unload_col": {"inter": ["rating"]}}, "load_col: ~"),
        ({"threshold": {"rating": 4, "age": 3}}, "one column"),
        ({"normalize_field": ["rating"]}, "normalize_all: False"),
        ({"benchmark_filename": []}, "benchmark_filename = [] is not usable"),
        ({"benchmark_filename": ["train", "test"]}, "a list of 3"),
        ({"benchmark_filename": ["train", "valid", ""]}, "a list of 3"),
        ({"benchmark_filename": "train"}, "a list of 3"),
        # several keys together
        ({"hidden_size": 63}, "hidden_size = 63 cannot be shared by n_heads = 2"),
        ({"hidden_size": 6, "position": "rotary"}, "position = 'rotary'"),
        ({"alpha": [0.3, -1]}, "alpha = [0.3, -1]"),
        ({"alpha": True}, "alpha = True"),
        ({"alpha": [0.5, 0.5], "n_layers": 3}, "2 entries, but the model has 3 layers"),
        ({"repeatable": False}, "repeatable"),
        ({"nproc": 2}, "one process trains a model here"),
        ({"world_size": 4}, "one process trains a model here"),
        # keys that are gone, or never were
        ({"eval_setting": "TO_LS,full"}, "today it is eval_args"),
        ({"training_neg_sample_num": 1}, "today it is train_neg_sample_args"),
        ({"neg_sampling": {"uniform": 1}}, "today it is train_neg_sample_args"),
        ({"min_user_inter_num": 5}, "today it is user_inter_num_interval"),
        ({"split_ratio": [0.8, 0.1, 0.1]}, "today it is eval_args"),
        ({"lowest_val": {"rating": 3}}, "today it is val_interval"),
        ({"fields_in_same_space": []}, "today it is alias_of_user_id"),
        ({"real_time_process": True}, "leave it out"),
        ({"batch_size": 64}, "train_batch_size"),
        ({"lr": 0.1}, "today it is learning_rate"),
        ({"split": {"LS": "test_only"}}, "eval_args: {split"),
        ({"device": "cpu"}, "use_gpu"),
        ({"local_rank": 0}, "it follows from other keys"),
        ({"eval_type": 1}, "it follows from other keys"),
        ({"config_files": "mine.yaml"}, "config_file_list in Python"),
        ({"mask_position": "recbole"}, "it is a key of BERT4RecResidual"),
        ({"Epochs": 3}, "did you mean 'epochs'?"),
        ({"max_item_list_length": 20}, "MAX_ITEM_LIST_LENGTH"),
        ({"": 3}, "unknown option ''"),
    ],
)
def test_one_message_names_what_to_do(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ResidualConfig("SASRecResidual", "ml-100k", config_dict=values)


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        ("GRU4RecResidual", {"alpha": [0.3, 0.3]}, "the model has 1 layer: give one number."),
        ("GRU4RecResidual", {"alpha_train": [0, 0]}, "alpha_train"),
        ("GRU4RecResidual", {"hidden_size": 0}, "hidden_size"),
        ("GRU4RecResidual", {"dropout_prob": 2}, "dropout_prob"),
        ("GRU4RecResidual", {"num_layers": 1.5}, "num_layers"),
        ("GRU4RecResidual", {"metrics": ["RecoveryRate"], "norm": "pre"}, "SASRecResidual"),
        ("BSARecResidual", {"frequency_weight": 2}, "of at least 0 and at most 1"),
        ("BSARecResidual", {"frequency_components": 0}, "frequency_components"),
        ("BSARecResidual", {"loss_positions": "all"}, "loss_positions"),
        ("BERT4RecResidual", {"mask_ratio": 0}, "mask_ratio"),
        ("BERT4RecResidual", {"ft_ratio": 1.1}, "ft_ratio"),
        ("BERT4RecResidual", {"alpha": [1, 1, 1]}, "2 layers"),
        ("DuoRecResidual", {"tau": 0}, "tau"),
        ("DuoRecResidual", {"lmd": -1}, "lmd"),
        ("DuoRecResidual", {"sim": "cosine"}, "did you mean 'cos'?"),
        ("SASRecUniform", {"attention": "learned"}, "one of ['uniform']"),
        ("NARM", {"dropout_probs": [0.2, 2]}, "dropout_probs"),
        ("NARM", {"alpha": 0.3}, "models with a residual factor"),
        ("BPR", {"eval_args": GT}, "order = 'RO'|is for sequential models"),
        ("BPR", {"embedding_size": "wide"}, "embedding_size"),
        ("AutoInt", {"num_heads": 3}, "attention_size = 16 cannot be shared by num_heads = 3"),
        (dict, {}, "RecBole refuses the configuration"),
        (7, {}, "give a name or a class"),
        ("", {}, "no model given"),
    ],
)
def test_of_other_models(model: Any, values: dict[str, Any], message: str) -> None:
    pattern = "|".join(map(re.escape, message.split("|")))
    with pytest.raises(ConfigError, match=pattern):
        ResidualConfig(model, "ml-100k", config_dict=values)


def test_a_dataset_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="no dataset given"):
        ResidualConfig("SASRecResidual", "")
