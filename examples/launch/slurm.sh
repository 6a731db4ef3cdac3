#!/usr/bin/env bash
#SBATCH --job-name=plaudit
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
# Four nodes train, the fifth serves vLLM: sbatch slurm.sh RUN.toml [--set KEY=VALUE …]
# RESUME=1 goes on from the last checkpoint in the run's output_dir, which must lie on a disk that all nodes share.
set -euo pipefail

run=${1:?usage: sbatch slurm.sh RUN.toml [--set KEY=VALUE ...]}
shift
gpus=${SLURM_GPUS_ON_NODE:-8}
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
trainers=("${nodes[@]:0:${#nodes[@]}-1}")
server=${nodes[-1]}
where=(--set "config.vllm_server_host=\"$server\"")

# srun wants the names with commas between them; the shell would write spaces.
listed=$(IFS=,; echo "${trainers[*]}")

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

srun --nodes=1 --ntasks=1 --nodelist="$server" \
  plaudit vllm serve "$run" --host 0.0.0.0 --tensor-parallel "$gpus" "$@" "${where[@]}" &

# The nodes find each other at the first one; the rendezvous numbers them, so no node rank is given.
srun --nodes="${#trainers[@]}" --ntasks="${#trainers[@]}" --nodelist="$listed" \
  torchrun --nnodes="${#trainers[@]}" --nproc_per_node="$gpus" \
  --rdzv_id="$SLURM_JOB_ID" --rdzv_backend=c10d --rdzv_endpoint="${trainers[0]}:29500" \
  -m plaudit train "$run" "$@" "${where[@]}" ${RESUME:+--resume} &

# Whichever ends first, training or a server that fails, ends the job with its status.
wait -n
