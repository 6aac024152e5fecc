#!/usr/bin/env bash
# A model that one rank cannot hold. Under the same limit of address space (ulimit -v):
#   1. replicas run out of memory, and the error says for what;
#   2. the same recipe trains on 4 ranks with sharded state (shard_level = "parameters") and recomputed activations;
#   3. a model four times larger trains on one rank, with its state on disk and bf16 weights.
# usage: examples/does_not_fit.sh [WEFT]    (the command; default: build/weft)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
weft=$(realpath "${1:-build/weft}")
recipe=examples/does_not_fit.toml
limit_kib=1550000
output=$(mktemp)
trap 'rm -f "$output"' EXIT

under_limit() {
  (ulimit -v "$limit_kib" && exec "$weft" train "$recipe" "$@") >"$output" 2>&1
}

echo "replicas on 4 ranks, each within $limit_kib KiB:"
if under_limit -n 4; then
  echo "they fit, though they should not" >&2
  exit 1
fi
grep "out of memory for" "$output" || { cat "$output" >&2; exit 1; }

sharded=(--set layout.shard_level=parameters --set layout.recompute=blocks)
echo "the same, sharded over the 4 ranks:"
under_limit -n 4 "${sharded[@]}" || { cat "$output" >&2; exit 1; }
grep -E "model  |loss   |peak memory" "$output"

echo "four times the parameters on one rank, state on disk:"
under_limit -n 1 "${sharded[@]}" --set model.width=1024 --set layout.prefetch=0 \
  --set layout.offload_optimizer=disk --set layout.offload_parameters=disk --set layout.offload_activations=disk ||
  { cat "$output" >&2; exit 1; }
grep -E "model  |loss   |peak memory" "$output"
