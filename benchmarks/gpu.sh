#!/usr/bin/env bash
# What training, evaluation, sweep, probes and decomposition take on a GPU: ratios and seconds.
#
#     benchmarks/gpu.sh            # at most 10 minutes, on the first GPU
#     benchmarks/gpu.sh --cpu      # the same commands on the processor, as long as they take
#
# PYTHON names the interpreter (default: python). ml-100k comes with RecBole: nothing is downloaded.
# A line is `name: value`; every script says in its head what its figures mean.
set -u
cd "$(dirname "$0")/.." || exit 2
python=${PYTHON:-python}
limit=115 # seconds of a command
if [ "${1:-}" = --cpu ]; then
    export CUDA_VISIBLE_DEVICES=
    limit=0
elif ! "$python" -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    echo "torch sees no GPU here. On a machine with one, install a build of torch for its CUDA" >&2
    echo "(https://pytorch.org/get-started/locally); benchmarks/gpu.sh --cpu tries the commands." >&2
    exit 2
else
    export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
    "$python" -c "import torch; print(torch.cuda.get_device_name(0), 'torch', torch.__version__)"
fi
failed=0
run() {
    echo
    echo "\$ python $*"
    begin=$SECONDS
    timeout "$limit" "$python" "$@" || { echo "failed or out of time: $*"; failed=1; }
    echo "seconds_of_the_command: $((SECONDS - begin))"
}
run benchmarks/training.py --quick
run benchmarks/evaluation.py --quick --no_memory
run benchmarks/sweep.py --quick
run benchmarks/probes.py --quick --sequences=200
run benchmarks/decomposition.py --quick --repeats=3
exit $failed
