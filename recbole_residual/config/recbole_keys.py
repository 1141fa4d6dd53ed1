"""RecBole's keys: those that are checked, with RecBole's defaults."""

from __future__ import annotations

from recbole_residual.config.key import BY_MODEL, Key
from recbole_residual.config.kinds import (
    Choice,
    Devices,
    Encoding,
    FilePath,
    Flag,
    Intervals,
    Kind,
    Many,
    Number,
    Separator,
    Text,
    Whole,
)
from recbole_residual.config.mappings import (
    ByName,
    Columns,
    Mode,
    Negatives,
    Settings,
    Split,
    Values,
)

_ABOVE_0 = Number(low=0, open_low=True)
_AT_LEAST_0 = Number(low=0)
_SHARE = Number(low=0, high=1)
_SIZE = Whole(low=1)
_NAME = Text()
_PATH = FilePath(optional=True)
_NAMES = Many(optional=True, of=Text())
_FILTER = Intervals(optional=True)
_LOSS = Choice(values=("CE", "BPR", "BCE", "MSE", "SSM", "gBCE"))
_COLUMNS = ByName(optional=True, of=Columns(), example="{inter: [user_id, item_id, timestamp]}")

_ENVIRONMENT = (
    Key("gpu_id", Devices(), "0", "The GPUs.", on_resume=True, of_machine=True),
    Key("use_gpu", Flag(), True, "Whether to use a GPU.", on_resume=True, of_machine=True),
    Key("worker", Whole(low=0), 0, "Processes that prepare batches.", on_resume=True),
    Key("seed", Whole(low=0, high=2**32 - 1), 2020, "Random seed."),
    Key(
        "state",
        Choice(optional=True, values=("INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")),
        "INFO",
        "Level of the log.",
        on_resume=True,
    ),
    Key("reproducibility", Flag(), True, "Whether the same seed gives the same numbers."),
    Key("data_path", FilePath(), "dataset/", "Folder of the datasets.", on_resume=True),
    Key(
        "checkpoint_dir",
        FilePath(),
        "saved",
        "RecBole's folder; a run has its own.",
        of_machine=True,
    ),
    Key("show_progress", Flag(), True, "Progress bars.", on_resume=True, of_machine=True),
    Key("save_dataset", Flag(), False, "RecBole's cache of datasets.", of_machine=True),
    Key("dataset_save_path", _PATH, None, "Where that cache is.", of_machine=True),
    Key("save_dataloaders", Flag(), False, "RecBole's cache of batches.", of_machine=True),
    Key("dataloaders_save_path", _PATH, None, "Where that cache is.", of_machine=True),
    Key("log_wandb", Flag(), False, "Log to Weights & Biases.", of_machine=True),
    Key("wandb_project", _NAME, "recbole", "The project there."),
    Key("shuffle", Flag(), True, "Shuffle the training data before each epoch."),
)

_TRAINING = (
    Key("epochs", _SIZE, 300, "The largest number of epochs."),
    Key(
        "learner",
        Choice(values=("adam", "adamw", "sgd", "adagrad", "rmsprop", "sparse_adam")),
        "adam",
        "The optimizer.",
    ),
    Key(
        "train_neg_sample_args",
        Negatives(
            optional=True,
            kinds={
                "distribution": Choice(values=("uniform", "popularity")),
                "sample_num": Whole(low=1),
                "alpha": Number(low=0),
                "dynamic": Flag(),
                "candidate_num": Whole(low=0),
            },
        ),
        {
            "distribution": "uniform",
            "sample_num": 1,
            "alpha": 1.0,
            "dynamic": False,
            "candidate_num": 0,
        },
        "Negatives of a pairwise loss; always empty for loss_type CE, which scores every item.",
    ),
    Key("learning_rate", _ABOVE_0, 0.001, "Learning rate."),
    Key("eval_step", Whole(low=0), 1, "Epochs between two validations; 0: no validation."),
    Key("stopping_step", Whole(low=0), 10, "Validations without progress before it stops."),
    Key(
        "clip_grad_norm",
        Settings(
            optional=True,
            kinds={
                "max_norm": _ABOVE_0,
                "norm_type": Number(low=0, open_low=True, infinite=True),
                "error_if_nonfinite": Flag(),
                "foreach": Flag(optional=True),
            },
            needed=("max_norm",),
            example="{max_norm: 5}",
        ),
        None,
        "Arguments of torch's clip_grad_norm_.",
    ),
    Key("weight_decay", _AT_LEAST_0, 0.0, "L2 penalty of the optimizer."),
    Key("loss_decimal_place", Whole(low=0), 4, "Decimal places of losses in the log."),
    Key("require_pow", Flag(), False, "Whether EmbLoss takes powers."),
    Key("enable_amp", Flag(), False, "Mixed precision in training."),
    Key("enable_scaler", Flag(), False, "Scaled gradients in mixed precision."),
    Key(
        "transform",
        Choice(
            optional=True,
            values=(
                "mask_itemseq",
                "inverse_itemseq",
                "crop_itemseq",
                "reorder_itemseq",
                "user_defined",
            ),
        ),
        None,
        "What RecBole does to its training samples.",
    ),
)

_EVALUATION = (
    Key(
        "eval_args",
        Settings(
            kinds={
                "split": Split(),
                "group_by": Choice(optional=True, values=("user", "none")),
                "order": Choice(values=("RO", "TO")),
                "mode": Mode(),
            }
        ),
        {"split": {"RS": [0.8, 0.1, 0.1]}, "group_by": "user", "order": "RO", "mode": "full"},
        "split (RS, LS, TS, GT), order (TO, RO), group_by and mode (full, uniN, popN, labeled).",
        page="data.md",
    ),
    Key("repeatable", Flag(), False, "Whether items may come again; True for sequences."),
    Key("eval_batch_size", _SIZE, 4096, "Rows (full ranking) or scores of an evaluation batch."),
    Key("metric_decimal_place", Whole(low=0), 4, "Decimal places of metrics."),
    Key("tail_ratio", _ABOVE_0, 0.1, "What TailPercentage takes for the tail."),
    Key("valid_metric_bigger", Flag(), True, "Follows from valid_metric."),
)

_DATA = (
    Key("field_separator", Separator(), "\t", "Between columns of a file."),
    Key("seq_separator", Separator(), " ", "Between entries of a sequence."),
    Key("encoding", Encoding(optional=True), None, "Encoding of the files (UTF-8)."),
    Key("USER_ID_FIELD", _NAME, "user_id", "Column of users."),
    Key("ITEM_ID_FIELD", _NAME, "item_id", "Column of items."),
    Key("RATING_FIELD", _NAME, "rating", "Column of ratings."),
    Key("TIME_FIELD", _NAME, "timestamp", "Column of times."),
    Key("LABEL_FIELD", _NAME, "label", "Column of labels."),
    Key("NEG_PREFIX", _NAME, "neg_", "Prefix of negative items' columns."),
    Key("LIST_SUFFIX", _NAME, "_list", "Suffix of sequences' columns."),
    Key("ITEM_LIST_LENGTH_FIELD", _NAME, "item_length", "Column of sequences' lengths."),
    Key("MAX_ITEM_LIST_LENGTH", _SIZE, 50, "Longest input, in items."),
    Key(
        "seq_len",
        ByName(optional=True, of=_SIZE, example="{class: 10}"),
        None,
        "Longest sequence of a column.",
    ),
    Key(
        "threshold",
        ByName(optional=True, of=Number(), merged=False, example="{rating: 4}"),
        None,
        "Column and smallest value of a positive label.",
    ),
    Key("numerical_features", Many(of=Text()), [], "Number columns that are embedded."),
    Key("load_col", _COLUMNS, {"inter": ["user_id", "item_id"]}, "Columns to load, by file."),
    Key("unload_col", _COLUMNS, None, "Columns not to load, by file."),
    Key("unused_col", _COLUMNS, None, "Columns that are loaded for filters only, by file."),
    Key("additional_feat_suffix", _NAMES, None, "Further files to load."),
    Key(
        "rm_dup_inter",
        Choice(optional=True, values=("first", "last")),
        None,
        "Which of several interactions of a user with an item stays.",
    ),
    Key(
        "val_interval",
        ByName(optional=True, of=Values(), example='{rating: "[3,inf)"}'),
        None,
        "Values that stay, by column.",
    ),
    Key("filter_inter_by_user_or_item", Flag(), True, "Drop interactions of dropped users, items."),
    Key("user_inter_num_interval", _FILTER, "[0,inf)", "Interactions that a user must have."),
    Key("item_inter_num_interval", _FILTER, "[0,inf)", "Interactions that an item must have."),
    Key("entity_kg_num_interval", _FILTER, "[0,inf)", "Triples that an entity must have."),
    Key("relation_kg_num_interval", _FILTER, "[0,inf)", "Triples that a relation must have."),
    Key("alias_of_user_id", _NAMES, None, "Columns that share the ids of users."),
    Key("alias_of_item_id", _NAMES, None, "Columns that share the ids of items."),
    Key("alias_of_entity_id", _NAMES, None, "Columns that share the ids of entities."),
    Key("alias_of_relation_id", _NAMES, None, "Columns that share the ids of relations."),
    Key(
        "preload_weight",
        ByName(optional=True, of=_NAME, example="{ent_id: ent_emb}"),
        None,
        "Columns of ids and of their vectors.",
    ),
    Key("normalize_field", _NAMES, None, "Number columns scaled to 0 to 1."),
    Key("normalize_all", Flag(optional=True), None, "Scale every number column to 0 to 1."),
    Key(
        "discretization",
        ByName(
            optional=True,
            of=Settings(
                kinds={"method": Choice(values=("ED", "LD")), "bucket": _SIZE}, needed=("method",)
            ),
            example="{age: {method: ED, bucket: 10}}",
        ),
        None,
        "How number columns are cut up.",
    ),
    Key("kg_reverse_r", Flag(), False, "Triples in both directions."),
    Key(
        "benchmark_filename",
        Many(optional=True, of=Text(), exactly=3, example="[train, valid, test]"),
        None,
        "Parts of the names of ready-made files: [training, validation, test].",
        page="data.md",
    ),
)

_PROCESSES = tuple(
    Key(name, kind, default, text, page=page, on_resume=True, of_machine=True)
    for name, kind, default, text, page in (
        (
            "nproc",
            _SIZE,
            1,
            "Processes of this machine that train one model.",
            "several_processes.md",
        ),
        ("world_size", Whole(low=-1), -1, "The same on all machines; -1: nproc.", ""),
        ("ip", _NAME, "localhost", "The first of several machines.", ""),
        ("port", Text(), "5678", "Its port.", ""),
        ("group_offset", Whole(low=0), 0, "The first process of this machine.", ""),
        ("offset", Whole(low=0), 0, "The same, by RecBole's other name.", ""),
    )
)


def _of_models(text: str, kind: Kind, *names: str) -> tuple[Key, ...]:
    return tuple(Key(name, kind, BY_MODEL, text) for name in names)


_MODELS = (
    *_of_models(
        "A number of layers.",
        _SIZE,
        "n_layers",
        "num_layers",
        "block_num",
        "cross_layer_num",
        "item_agg_layer",
    ),
    *_of_models("A number of attention heads.", _SIZE, "n_heads", "num_heads"),
    *_of_models(
        "A size.",
        _SIZE,
        "hidden_size",
        "inner_size",
        "embedding_size",
        "attention_size",
        "kg_embedding_size",
        "mf_embedding_size",
        "mlp_embedding_size",
        "k_interests",
        "interest_size",
        "prototype_size",
        "kernel_size",
        "latent_dimension",
    ),
    *_of_models("Sizes, one per layer.", Many(of=_SIZE), "mlp_hidden_size"),
    *_of_models(
        "A probability of dropout.",
        _SHARE,
        "hidden_dropout_prob",
        "attn_dropout_prob",
        "dropout_prob",
        "node_dropout",
        "message_dropout",
        "item_dropout",
        "sess_dropout",
    ),
    *_of_models("Probabilities of dropout.", Many(of=_SHARE), "dropout_probs"),
    *_of_models("A standard deviation.", _ABOVE_0, "initializer_range"),
    *_of_models("Added for numerical stability.", _AT_LEAST_0, "layer_norm_eps"),
    *_of_models("Share of masked items.", Number(low=0, high=1, open_low=True), "mask_ratio"),
    *_of_models("Share of sequences masked at the end only.", _SHARE, "ft_ratio"),
    *_of_models("A temperature.", _ABOVE_0, "temperature"),
    *_of_models(
        "The activation.",
        Choice(values=("gelu", "relu", "swish", "tanh", "sigmoid")),
        "hidden_act",
    ),
    *_of_models(
        "The loss; of SASRec and its like CE or BPR, of SASRecResidual also SSM or gBCE.",
        _LOSS,
        "loss_type",
    ),
    *_of_models(
        "A file or folder of weights.",
        FilePath(optional=True, empty=True),
        "pre_model_path",
        "pretrain_path",
        "mf_pretrain_path",
        "mlp_pretrain_path",
    ),
)

RECBOLE = _ENVIRONMENT + _TRAINING + _EVALUATION + _DATA + _PROCESSES + _MODELS
"""RecBole's keys whose default is RecBole's here too."""
