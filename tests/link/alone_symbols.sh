#!/usr/bin/env bash
# alone_symbols.sh NM OBJECT PASSES: OBJECT, which has all of trainable_model<cpu, strategy::alone>, names nothing of
# ranks besides what the passes through nn alone name (PASSES): there is no collective and nothing that a world would
# need, so there is no branch on one either.
set -euo pipefail
export LC_ALL=C
ranks='any_communicator|any_strategy|parallel::world|sum_place|gradient_sums|leaf_schedule|piece_sum|shard_gather'
ranks+='|(held|whole|sharded|expert)_values|sharded_|gathered_layers|expert_shards|expert_passes|save_by_ranks'
ranks+='|tensor_group|expert_group|context_group|all_gather|all_to_all|broadcast|barrier'
symbols() { "$1" -C "$2" | cut -c20- | sort -u; }
symbols "$1" "$2" | grep 'trainable_model<.*cpu, .*alone>::apply' >/dev/null ||
  { echo 'the object has no trainable_model<cpu, strategy::alone>'; exit 1; }
found=$(comm -23 <(symbols "$1" "$2" | grep -E "$ranks") <(symbols "$1" "$3"))
[ -z "$found" ] || { printf 'one rank has symbols of several:\n%s\n' "$found"; exit 1; }
