"""RecBole's own run_recbole with this package's metrics; the first two lines are all it takes.

python examples/run_recbole.py
"""

import recbole_residual

recbole_residual.register()

from pathlib import Path  # noqa: E402

from recbole.quick_start import run_recbole  # noqa: E402

if __name__ == "__main__":
    config_file = Path(__file__).parent / "sasrec_with_metrics.yaml"
    result = run_recbole("SASRec", "ml-100k", config_file_list=[str(config_file)])
    for key, value in result["test_result"].items():
        print(f"{key:24} {value}")
