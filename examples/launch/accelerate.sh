#!/usr/bin/env bash
# The same by accelerate: accelerate.sh CONFIG.yaml RUN.toml [options of `plaudit train`]
# CONFIG.yaml: ddp.yaml, fsdp2.yaml or zero3.yaml beside this script, or one that `accelerate config` wrote.
set -euo pipefail

config=${1:?usage: accelerate.sh CONFIG.yaml RUN.toml [options of plaudit train]}
run=${2:?usage: accelerate.sh CONFIG.yaml RUN.toml [options of plaudit train]}
shift 2

exec accelerate launch --config_file "$config" -m plaudit train "$run" "$@"
