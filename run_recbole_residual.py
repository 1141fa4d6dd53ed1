"""Train, evaluate and diagnose: ``python run_recbole_residual.py --help``."""

import sys

from recbole_residual.command import main

if __name__ == "__main__":
    sys.exit(main(prog="run_recbole_residual.py"))
