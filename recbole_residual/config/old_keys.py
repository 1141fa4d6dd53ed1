"""Keys that are gone, or that nothing reads here, and what to write in their place."""

from __future__ import annotations

_INTERVAL = '{0}_inter_num_interval, such as {0}_inter_num_interval: "[5,inf)"'
_KG_INTERVAL = '{0}_kg_num_interval, such as {0}_kg_num_interval: "[5,inf)"'
_VALUES = 'val_interval, such as val_interval: {rating: "[3,inf)"}'
_NEGATIVES = "train_neg_sample_args, such as train_neg_sample_args: {distribution: uniform, "
_ALIAS = "alias_of_user_id, alias_of_item_id, alias_of_entity_id or alias_of_relation_id"

MOVED = {
    # RecBole 0.x and 1.0
    "eval_setting": "eval_args, such as eval_args: {split: {LS: valid_and_test}, order: TO, "
    "group_by: user, mode: full}",
    "group_by_user": "eval_args: {group_by: user}",
    "split_ratio": "eval_args: {split: {RS: [0.8, 0.1, 0.1]}}",
    "leave_one_num": "eval_args: {split: {LS: valid_and_test}}",
    "real_time_process": "nothing: samples are always made while training",
    "training_neg_sample_num": f"{_NEGATIVES}sample_num: 1}}",
    "training_neg_sample_distribution": f"{_NEGATIVES}sample_num: 1}}",
    "neg_sampling": f"{_NEGATIVES}sample_num: 1}}",
    "min_user_inter_num": _INTERVAL.format("user"),
    "max_user_inter_num": _INTERVAL.format("user"),
    "min_item_inter_num": _INTERVAL.format("item"),
    "max_item_inter_num": _INTERVAL.format("item"),
    "min_entity_kg_num": _KG_INTERVAL.format("entity"),
    "min_relation_kg_num": _KG_INTERVAL.format("relation"),
    "lowest_val": _VALUES,
    "highest_val": _VALUES,
    "equal_val": _VALUES,
    "not_equal_val": _VALUES,
    "drop_filter_field": _VALUES,
    "fields_in_same_space": _ALIAS,
    "fill_nan": "nothing: empty cells are always filled",
    "drop_preload_weight": "preload_weight",
    "SOURCE_ID_FIELD": "nothing: RecBole has no such models any more",
    "TARGET_ID_FIELD": "nothing: RecBole has no such models any more",
    "max_item_list_length": "MAX_ITEM_LIST_LENGTH",
    "user_id_field": "USER_ID_FIELD",
    "item_id_field": "ITEM_ID_FIELD",
    "time_field": "TIME_FIELD",
    # of other ways to call
    "config_file": "--config_files for the command, config_file_list in Python",
    "config_files": "--config_files for the command, config_file_list in Python",
    "config_file_list": "--config_files for the command, config_file_list in Python",
    "config_dict": "the keys themselves",
    # parts of a mapping
    "split": "eval_args: {split: {LS: valid_and_test}}",
    "order": "eval_args: {order: TO}",
    "group_by": "eval_args: {group_by: user}",
    "mode": "eval_args: {mode: full}",
    "max_norm": "clip_grad_norm: {max_norm: 5}",
    "sample_num": f"{_NEGATIVES}sample_num: 1}}",
    # other packages' names
    "batch_size": "train_batch_size (and eval_batch_size)",
    "lr": "learning_rate",
    "optimizer": "learner",
    "max_seq_len": "MAX_ITEM_LIST_LENGTH",
    "max_seq_length": "MAX_ITEM_LIST_LENGTH",
    "early_stopping": "stopping_step",
    "patience": "stopping_step",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "dropout": "hidden_dropout_prob and attn_dropout_prob",
    "device": "use_gpu and gpu_id",
    "dtype": "nothing: the model decides",
}
"""A key, and today's."""
