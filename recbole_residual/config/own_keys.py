"""This package's keys, and RecBole's where the default is another here."""

from __future__ import annotations

from recbole_residual.config.key import Key, Variant
from recbole_residual.config.kinds import Choice, Factor, FilePath, Flag, Many, Number, Text, Whole

ENVIRONMENT = "Environment Settings"
TRAINING = "Training Settings"
EVALUATION = "Evaluation Settings"
REPORT = "Report"
PREPROCESSING = "Preprocessing"

_WITH_ALPHA = ("ResidualMixin",)

_OVERALL = (
    Key(
        "strict_config",
        Flag(),
        True,
        "Refuse keys that nothing reads; False turns the refusal into a warning.",
        ENVIRONMENT,
    ),
    Key(
        "output_dir",
        FilePath(optional=True),
        None,
        "Folder of this run. Default: ./output/<model>-<dataset>-<time>-<short id>.",
        ENVIRONMENT,
        of_machine=True,
    ),
    Key(
        "loss_positions",
        Choice(values=("all", "last")),
        "all",
        "'all': one row per user, loss at every position. 'last': RecBole's own samples and loss.",
        TRAINING,
        page="training.md",
    ),
    Key(
        "long_sequences",
        Choice(values=("window", "latest")),
        "window",
        "'window': cut into windows, every interaction is used. 'latest': the latest window only.",
        TRAINING,
        page="training.md",
    ),
    Key(
        "logits_chunk",
        Whole(low=1, optional=True),
        16777216,
        "Largest number of logits (positions x items) that the loss holds at once.",
        TRAINING,
    ),
    Key(
        "filter_seen",
        Flag(),
        False,
        "Take items of the input out of the ranking (accuracy tables); HRLI needs False.",
        EVALUATION,
    ),
    Key(
        "export_per_user",
        Flag(),
        False,
        "Write every metric's value per user into the run folder.",
        EVALUATION,
    ),
    Key(
        "probe",
        Choice(values=("quick", "full", "none")),
        "quick",
        "Probes after training. 'quick': internals, choice of alpha, alpha sweep, shuffles. "
        "'full': every probe. 'none'.",
        EVALUATION,
        page="probes.md",
    ),
    Key(
        "report",
        Flag(),
        True,
        "Write report.html, figures and tables into the run's folder.",
        REPORT,
        on_resume=True,
        page="report.md",
    ),
    Key(
        "latex",
        Flag(),
        False,
        "For a paper: every figure as PDF and every table as LaTeX too.",
        REPORT,
        on_resume=True,
        page="report.md",
    ),
    Key(
        "remove_consecutive_repeats",
        Flag(),
        False,
        "i-i-j becomes i-j, repeated together with the interval filters until stable.",
        PREPROCESSING,
        page="data.md",
    ),
)

_OF_MODELS = (
    Key(
        "alpha",
        Factor(),
        1.0,
        "Factor of the attention residual at inference, one number or one per layer. "
        "1 is the unchanged model.",
        models=_WITH_ALPHA,
        variants={
            "SASRecResidual": Variant(1.0),
            "BERT4RecResidual": Variant(1.0),
            "BSARecResidual": Variant(1.0),
            "GRU4RecResidual": Variant(
                0.0,
                text="Factor of an added skip from the item embedding to the output, at inference. "
                "0 is GRU4Rec.",
            ),
        },
        page="models.md",
    ),
    Key(
        "alpha_train",
        Factor(word="learned"),
        1.0,
        "The same during training, early stopping and the choice of the checkpoint; "
        "'learned': one per layer that training chooses, and alpha multiplies.",
        models=_WITH_ALPHA,
        variants={
            "SASRecResidual": Variant(1.0),
            "BERT4RecResidual": Variant(1.0),
            "BSARecResidual": Variant(1.0),
            "GRU4RecResidual": Variant(
                0.0,
                Factor(),
                "The same during training, early stopping and the choice of the checkpoint.",
            ),
        },
        page="models.md",
    ),
    Key(
        "residual",
        Choice(values=("attention", "attention+ffn")),
        "attention",
        "Which residuals alpha scales.",
        models=("SASRecResidual",),
        page="models.md",
    ),
    Key(
        "attention",
        Choice(values=("learned", "uniform")),
        "learned",
        "Attention weights at inference.",
        models=("SASRecResidual",),
        variants={
            "SASRecUniform": Variant(
                "uniform", Choice(values=("uniform",)), "Always; in training as well."
            )
        },
        page="models.md",
    ),
    Key(
        "position",
        Choice(values=("learned", "none", "rotary")),
        "learned",
        "Position information, in training too.",
        models=("SASRecResidual",),
        page="models.md",
    ),
    Key(
        "norm",
        Choice(values=("post", "pre")),
        "post",
        "LayerNorm behind or before each block, in training too.",
        models=("SASRecResidual",),
        page="models.md",
    ),
    Key(
        "block",
        Choice(optional=True, values=("post", "pre", "ligr")),
        None,
        "'ligr': gated residual blocks with SwiGLU. 'post' and 'pre' are those of norm, which "
        "decides by default.",
        models=("SASRecResidual",),
        page="controls.md",
    ),
    Key(
        "attention_norm_p",
        Number(low=1),
        1.0,
        "Order of the norm that divides the attention weights, in training too. 1 is softmax.",
        models=("SASRecResidual",),
        page="controls.md",
    ),
    Key(
        "num_negatives",
        Whole(low=1),
        256,
        "Items that loss_type SSM and gBCE draw for each batch.",
        models=("SASRecResidual",),
        page="controls.md",
    ),
    Key(
        "negative_sampling",
        Choice(values=("uniform", "in_batch")),
        "uniform",
        "Where SSM draws them: from the catalogue, or from the targets of the batch (with logQ "
        "correction).",
        models=("SASRecResidual",),
        page="controls.md",
    ),
    Key(
        "gbce_t",
        Number(low=0, high=1),
        0.75,
        "Calibration of gBCE: 0 is binary cross-entropy, 1 is full calibration.",
        models=("SASRecResidual",),
        page="controls.md",
    ),
    Key(
        "psd_weight",
        Number(low=0),
        1.0,
        "Weight of the divergence from the teacher. 0 is SASRecResidual.",
        models=("SASRecPSD",),
        page="controls.md",
    ),
    Key(
        "psd_temperature",
        Number(low=0, open_low=True),
        1.0,
        "Temperature of that divergence.",
        models=("SASRecPSD",),
        page="controls.md",
    ),
    Key(
        "psd_momentum",
        Number(low=0, high=1),
        0.99,
        "Share of the teacher's weights that stays at every step, below 1.",
        models=("SASRecPSD",),
        page="controls.md",
    ),
    Key(
        "psd_topk",
        Whole(low=1),
        20,
        "Size of the teacher's list over which the gate sums the student's probability.",
        models=("SASRecPSD",),
        page="controls.md",
    ),
    Key(
        "tam",
        Choice(values=("module", "linear", "off")),
        "module",
        "What makes item embeddings of frozen vectors: a module, a projection alone, or nothing "
        "('off' is SASRecResidual).",
        models=("SASRecTAM",),
        page="controls.md",
    ),
    Key(
        "item_embedding_file",
        FilePath(optional=True),
        None,
        "The frozen vectors: .npy, .parquet or .itememb. Default: made of the .item file's texts.",
        models=("SASRecTAM",),
        page="controls.md",
    ),
    Key(
        "tam_text_size",
        Whole(low=1),
        64,
        "Size of vectors that are made of texts.",
        models=("SASRecTAM",),
        page="controls.md",
    ),
    Key(
        "pooling",
        Choice(values=("sum", "attention")),
        "sum",
        "How a set of items becomes one vector.",
        models=("SetRec",),
        page="controls.md",
    ),
    Key(
        "ratings",
        Choice(values=("read", "off")),
        "read",
        "'read': the ratings of the items (RATING_FIELD) as well, where the dataset has them.",
        models=("SetRec",),
        page="controls.md",
    ),
    Key(
        "mask_position",
        Choice(values=("after_last", "recbole")),
        "after_last",
        "'after_last': [MASK] behind the last item. 'recbole': the oldest item is always dropped "
        "for it.",
        models=("BERT4RecResidual",),
        page="models.md",
    ),
    Key(
        "frequency_weight",
        Number(low=0, high=1),
        0.7,
        "Share of the frequency layer beside attention, 0 to 1.",
        models=("BSARec",),
    ),
    Key(
        "frequency_components",
        Whole(low=1),
        5,
        "Number of low frequencies that are kept; the rest is rescaled.",
        models=("BSARec",),
    ),
    Key(
        "lmd",
        Number(low=0),
        0.1,
        "Weight of the unsupervised contrast (two draws of dropout).",
        models=("DuoRec",),
    ),
    Key(
        "lmd_sem",
        Number(low=0),
        0.1,
        "Weight of the supervised contrast (another sequence with the same target).",
        models=("DuoRec",),
    ),
    Key(
        "contrast",
        Choice(values=("us", "un", "su")),
        "us",
        "'us': both contrasts. 'un': unsupervised only. 'su': supervised only.",
        models=("DuoRec",),
    ),
    Key("tau", Number(low=0, open_low=True), 1.0, "Temperature.", models=("DuoRec",)),
    Key("sim", Choice(values=("dot", "cos")), "dot", "Similarity.", models=("DuoRec",)),
)

OWN = _OVERALL + _OF_MODELS
"""Keys that RecBole does not have."""

CHANGED = (
    Key(
        "train_batch_size",
        Whole(low=1, optional=True),
        None,
        "Sequences per batch with loss_positions 'all' (default 128), rows with 'last' "
        "(default 2048).",
        TRAINING,
        page="training.md",
    ),
    Key(
        "metrics",
        Many(of=Text(), least=1, example="[NDCG, Hit]"),
        ["Hit", "NDCG", "MRR", "HRLI", "HRL2I", "MixingRatio"],
        "RecBole's metrics and this package's.",
        EVALUATION,
        page="metrics.md",
    ),
    Key("topk", Many(of=Whole(low=1), least=1), [1, 5, 10, 20], "The values of k.", EVALUATION),
    Key("valid_metric", Text(), "NDCG@10", "The metric for early stopping.", EVALUATION),
)
"""RecBole's keys whose default is another here."""
