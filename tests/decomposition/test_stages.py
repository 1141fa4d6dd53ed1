"""Names of stages."""

from __future__ import annotations

import pytest

from recbole_residual.decomposition.stages import check_stages


def test_one_name_needs_no_tuple() -> None:
    assert check_stages("ln") == ("ln",)
    assert check_stages(["ffn_ln", "attn"]) == ("ffn_ln", "attn")


@pytest.mark.parametrize("stages", [(), ("atn",), ("ln", "ln"), ("gate",)])
def test_other_names_are_refused_with_the_right_ones(stages: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="ffn_ln"):
        check_stages(stages)
