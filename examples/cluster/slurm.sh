#!/bin/bash
#SBATCH --job-name=rlcore
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=%x_%j.log
# sbatch slurm.sh MODEL TRAIN_PARQUET: GRPO with one rank per task. srun starts the ranks if Slurm was built with PMIx
# (srun --mpi=list tells); otherwise take the mpirun line, which finds the allocation by itself.
set -eu
model=$1 data=$2
program=${RLCORE_BIN:-build/bin}/grpo_trainer
arguments=(
  actor_rollout_ref.model.path="$model" data.train_files="$data"
  actor_rollout_ref.actor.strategy=fsdp2
  trainer.nnodes="$SLURM_NNODES" trainer.n_gpus_per_node="$SLURM_NTASKS_PER_NODE"
  trainer.save_freq=20 trainer.default_local_dir="checkpoints/$SLURM_JOB_NAME"
  rlcore.threads="$SLURM_CPUS_PER_TASK"
)
here=$(dirname "$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=\([^ ]*\).*/\1/p')")

exec "$here/supervise.sh" srun --mpi=pmix --kill-on-bad-exit=1 --cpu-bind=cores "$program" "${arguments[@]}"
# exec "$here/supervise.sh" mpirun --map-by "ppr:$SLURM_NTASKS_PER_NODE:node:PE=$SLURM_CPUS_PER_TASK" \
#   "$program" "${arguments[@]}"
