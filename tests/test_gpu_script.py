"""benchmarks/gpu.sh without a GPU: what it says, and commands that the scripts know."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.sh"
RUN = re.compile(r"^run (benchmarks/\S+\.py)(.*)$", flags=re.MULTILINE)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_without_a_gpu_it_says_what_to_do() -> None:
    done = subprocess.run(
        ["bash", str(SCRIPT)], env={"PYTHON": sys.executable}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "torch sees no GPU" in done.stderr
    assert "--cpu" in done.stderr


def test_every_command_has_options_that_its_script_knows_and_ends_in_time() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    commands = RUN.findall(text)
    for script, options in commands:
        source = (SCRIPT.parents[1] / script).read_text(encoding="utf-8")
        for option in re.findall(r"--\w+", options):
            assert f'"{option}"' in source, (script, option)
    seconds = int(re.search(r"limit=(\d+) ", text)[1])
    assert len(commands) * seconds < 600
