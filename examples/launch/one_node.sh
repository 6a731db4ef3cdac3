#!/usr/bin/env bash
# One machine, one process a GPU: one_node.sh RUN.toml [options of `plaudit train`]
# GPUS says how many (default: all that nvidia-smi lists).
set -euo pipefail

run=${1:?usage: one_node.sh RUN.toml [options of plaudit train]}
shift
gpus=${GPUS:-$(nvidia-smi --list-gpus | wc -l)}

exec torchrun --standalone --nproc_per_node="$gpus" -m plaudit train "$run" "$@"
