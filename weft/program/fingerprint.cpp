#include "weft/program/fingerprint.h"

#include "weft/base/hash.h"

namespace weft {
namespace {

class Hash {
 public:
  template <class... Values>
  void add(Values... values) {
    ((state_ = splitmix64(state_ ^ static_cast<uint64_t>(values))), ...);
  }
  // Includes the length, so that adjacent lists cannot be confused.
  template <class Value>
  void add_all(const std::vector<Value>& values) {
    add(values.size());
    for (const Value& value : values) add(value);
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = kFnvBasis;
};

void add_list(Hash& hash, const InstructionList& list) {
  hash.add(list.size());
  for (const Instruction& x : list) {
    hash.add(x.op, x.lane, x.first, x.last, x.micro, x.slot, x.axes.bits(), x.what, x.peer, x.keeps_inner_shard);
    hash.add_all(x.waits);
  }
}

void add_frame(Hash& hash, const Program& program) {
  hash.add(program.block_names.size());
  for (const std::string& name : program.block_names) hash.add(fnv1a(name));
  hash.add_all(program.block_numel);
  hash.add_all(program.block_frozen);
  hash.add_all(program.gathered_gradient_bytes);
  for (const std::vector<int>& uses : program.block_uses) hash.add_all(uses);
  hash.add(program.shard_level, program.shards, program.inner_shards, program.weight_bytes, program.gradient_bytes,
           program.micro_batches, program.slots, program.replicas, program.needs_norm, program.noise_scale,
           program.partial_gradients, program.head_takes_targets, program.keep_order, program.uses_apart, program.flagged,
           program.votes);
  hash.add(program.batch_axes.bits(), program.copies > 1);
  hash.add(program.offload.activations, program.offload.optimizer, program.offload.weights);
  hash.add(program.mesh.pp, program.mesh.dp, program.mesh.shard, program.mesh.cp, program.mesh.tp);
}

}  // namespace

uint64_t frame_fingerprint(const Program& program) {
  Hash hash;
  add_frame(hash, program);
  return hash.value();
}

uint64_t fingerprint(const Program& program) {
  Hash hash;
  add_frame(hash, program);
  for (const std::vector<int>& holders : program.holders) hash.add_all(holders);
  for (const InstructionList& list : program.lists) add_list(hash, list);
  for (const Buffers& buffers : program.buffers) {
    hash.add_all(buffers.weight);
    hash.add_all(buffers.gradient);
  }
  hash.add_all(program.list_of_rank);
  return hash.value();
}

}  // namespace weft
