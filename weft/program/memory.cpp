#include "weft/program/memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "weft/base/math.h"
#include "weft/program/axes.h"
#include "weft/program/buffers.h"
#include "weft/program/check_program.h"
#include "weft/program/copies.h"
#include "weft/program/cost.h"
#include "weft/program/edit.h"
#include "weft/program/ties.h"

namespace weft {
namespace {

constexpr int64_t kWidenedPiece = 1 << 20;  // updates widen narrow gradients in ranges (optim/update_ranges.cpp)

class Estimate {
 public:
  Estimate(const Program& program, int rank, const MemoryOptions& options)
      : program_(program),
        list_(program.of(rank)),
        buffers_(program.buffers_of(rank)),
        options_(options),
        owns_(owns_blocks(program, program.pp_of(rank))),
        held_numel_(program.num_blocks(), 0),
        held_weights_(program.num_blocks(), 0) {
    for (const int block : held_blocks(list_, program.block_uses)) {
      held_numel_[block] = program.block_numel[block];
      held_weights_[block] = program.weight_numel(block);
    }
  }

  MemoryEstimate run() {
    const auto largest = std::max_element(held_weights_.begin(), held_weights_.end());
    result_.largest_block_index = static_cast<int>(largest - held_weights_.begin());
    result_.largest_block = *largest * program_.weight_bytes;
    weights();
    gradients();
    optimizer();
    add(MemoryCategory::communication, options_.communication_bytes);
    activations();
    result_.reserved_bytes = std::max(reserved(When::backward), reserved(When::update));
    saving();
    return result_;
  }

 private:
  /// When memory is there.
  enum class When : uint8_t { always, backward, update };
  struct Request {
    int64_t bytes;  ///< rounded
    When when;
  };

  /// Counts one request to the allocator.
  int64_t add(MemoryCategory category, int64_t bytes, When when = When::always) {
    const int64_t allocated = allocated_bytes(options_.device, bytes);
    result_.peak[static_cast<size_t>(category)] += allocated;
    requests_.push_back({allocated, when});
    if (category == MemoryCategory::optimizer && when == When::update) result_.update_bytes += allocated;
    if (category == MemoryCategory::gradients && when == When::backward) result_.early_bytes += allocated;
    if (category == MemoryCategory::activations && when == When::always) result_.lasting_bytes += allocated;
    return allocated;
  }
  void keep(MemoryCategory category, int64_t bytes, When when = When::always) {
    result_.model_states += add(category, bytes, when);
  }

  /// What the allocator takes for all that is there then.
  int64_t reserved(When when) const {
    std::vector<int64_t> bytes;
    for (const Request& request : requests_) {
      if (request.when == When::always || request.when == when) bytes.push_back(request.bytes);
    }
    return reserved_bytes(options_.device, bytes);
  }

  void activations() {
    const int64_t most = step_cost(list_, program_.offload).peak_activation_bytes;
    add(MemoryCategory::activations, most, When::backward);
    if (!added_.empty()) {
      result_.backward_bytes = step_cost(list_, program_.offload, added_).peak_activation_bytes - most;
    }
    add(MemoryCategory::activations, upload_bytes());
    if (options_.in_own_memory.activations) add(MemoryCategory::activations, stored_activations());
  }

  /// Most bytes of offloaded inputs of blocks.
  int64_t stored_activations() const {
    int64_t now = 0, most = 0;
    for (const Instruction& x : list_) {
      if (x.what != Payload::input) continue;
      if (x.op == Op::offload) most = std::max(most, now += x.frees);
      if (x.op == Op::reload) now -= x.allocates;
    }
    return most;
  }

  using Numels = std::vector<int64_t>;  // by block
  static int64_t sum(const Numels& numels) { return std::accumulate(numels.begin(), numels.end(), int64_t{0}); }
  static int64_t largest(const Numels& numels) { return *std::max_element(numels.begin(), numels.end()); }
  int64_t largest_own() const { return owns_ ? largest(held_numel_) / program_.shards : 0; }
  bool narrow() const { return program_.weight_bytes < kFloatBytes; }
  static Numels bytes_of(Numels numels, int64_t element) {
    for (int64_t& numel : numels) numel *= element;
    return numels;
  }

  /// Offloaded state in memory at a time, and between steps.
  struct Moved {
    int64_t most = 0, left = 0;
  };

  /// Of this kind, in the units of `by_block`. Beside compute, a block that is copied out is held until the next reload.
  Moved moved(Payload what, const Numels& by_block) const {
    if (!program_.offload.is_beside(what)) return {largest(by_block), 0};
    int64_t now = 0, leaving = 0, most = 0;
    for (const Instruction& x : list_) {
      if (x.what != what) continue;
      if (x.op == Op::offload) leaving += by_block[x.first];
      if (x.op != Op::reload) continue;
      now += by_block[x.first] - std::exchange(leaving, 0);
      most = std::max(most, now);
    }
    return {most, leaving};
  }

  /// A micro-batch is copied in while the one before is still held.
  int64_t upload_bytes() const {
    const auto has_inputs = [](const Instruction& x) { return x.op == Op::load && x.allocates > 0; };
    return std::any_of(list_.begin(), list_.end(), has_inputs) ? program_.upload_bytes : 0;
  }

  void weights() {
    const int64_t all = sum(held_weights_);
    const int64_t shard = (options_.offload_weights ? moved(Payload::weights, held_weights_).most : all) / program_.shards;
    const bool pooled = program_.shard_level == ShardLevel::parameters;
    if (pooled) {
      keep(MemoryCategory::weights, shard * program_.weight_bytes);
    } else {
      for (const int64_t numel : held_weights_) keep(MemoryCategory::weights, numel * program_.weight_bytes);
    }
    if (narrow() && owns_) keep(MemoryCategory::master, shard * kFloatBytes);
    if (options_.in_own_memory.weights && owns_) add(MemoryCategory::weights, all / program_.shards * kFloatBytes);
    if (program_.inner_shards > 1) add(MemoryCategory::gathered, all / program_.inner_shards * program_.weight_bytes);
    if (pooled) add(MemoryCategory::gathered, buffer_bytes(buffers_.weight, bytes_of(held_weights_, program_.weight_bytes)));
  }

  // Partial sums: one stash per level of the tree over slots, each as large as all gradients. A reduce-scatter that adds to an
  // earlier one needs a shard of the block until it is done (one per shared gradient buffer); a sum received from another rank
  // needs space for all of the block's gradients.
  void gradients() {
    const bool pooled = program_.shard_level >= ShardLevel::gradients;
    const Numels gradients = gradient_block_bytes();
    const int64_t whole = sum(gradients);
    keep(MemoryCategory::gradients, !pooled ? whole : owns_ ? whole / program_.shards : 0);
    int64_t bytes = pooled ? buffer_bytes(buffers_.gradient, gradients) : 0;
    bytes += floor_log2(program_.slots) * whole;
    const auto adds = [](const Instruction& x) { return x.op == Op::reduce_scatter && x.micro > 0; };
    const bool earlier = std::any_of(list_.begin(), list_.end(),
                                     [](const Instruction& x) { return x.op == Op::reduce_scatter && x.micro == 0; });
    if (earlier && std::any_of(list_.begin(), list_.end(), adds)) {
      added_ = added_bytes();
      add(MemoryCategory::gradients, largest(added_), When::backward);
    }
    if (options_.copies_sums) bytes += largest_sum();
    const bool takes_in = std::any_of(list_.begin(), list_.end(),
                                      [](const Instruction& x) { return x.op == Op::receive && x.what == Payload::sum; });
    if (takes_in) bytes += largest(gradients);
    add(MemoryCategory::gradients, bytes + tied_row_bytes());
  }

  Numels gradient_block_bytes() const {
    Numels bytes = bytes_of(held_numel_, program_.gradient_bytes);
    for (int block = 0; block < program_.num_blocks(); ++block) bytes[block] *= program_.num_sums(block);
    return bytes;
  }

  /// Bytes of a tied weight's separate sums while ranks exchange them.
  int64_t tied_row_bytes() const {
    int64_t most = 0;
    for (int block = 0; block < program_.num_blocks(); ++block) {
      if (held_numel_[block] == 0 || !program_.is_shared(block)) continue;
      const int rows = tied_rows(program_, block);
      if (rows == 1) continue;
      most = std::max(most, held_numel_[block] / program_.shards * rows * program_.gradient_bytes);
    }
    return most;
  }

  /// Bytes of the reduce-scatters in flight that add to earlier ones, at each instruction.
  Numels added_bytes() const {
    Numels bytes(list_.size(), 0);
    if (!owns_) return bytes;
    const Numels gradients = gradient_block_bytes();
    std::map<int, int64_t> in_flight;  // by index in the list
    int64_t now = 0;
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      for (const int earlier : list_[i].waits) {
        const auto ended = in_flight.find(earlier);
        if (ended == in_flight.end()) continue;
        now -= ended->second;
        in_flight.erase(ended);
      }
      if (list_[i].op == Op::reduce_scatter && list_[i].micro != 0) {
        now += in_flight[i] = gradients[list_[i].first] / program_.shards;
      }
      bytes[i] = now;
    }
    return bytes;
  }

  /// Most bytes that a sum over ranks gathers, and its own part of the result.
  int64_t largest_sum() const {
    const Numels gradients = gradient_block_bytes();
    int64_t most = 0;
    for (const Instruction& x : list_) {
      if ((x.op != Op::reduce && x.op != Op::reduce_scatter) || sums_partial(x)) continue;
      const int tied = tied_block(x), ranks = tied < 0 ? size_along(program_, x.axes) : program_.num_holders(tied);
      if (ranks == 1) continue;
      int64_t bytes = std::accumulate(gradients.begin() + x.first, gradients.begin() + x.last, int64_t{0});
      if (x.op == Op::reduce)
        bytes = (program_.shard_level == ShardLevel::none ? bytes : bytes / program_.shards) / ranks * (ranks + 1);
      most = std::max(most, bytes);
    }
    return most;
  }

  /// Elements of a block's optimizer state.
  int64_t states_of(int block) const {
    const int64_t own = owns_ ? held_numel_[block] / program_.shards : 0;
    if (options_.block_states.empty() || own == 0) return own * options_.optimizer_states;
    const BlockState& state = options_.block_states[block];
    return own * state.states + std::min(own, state.part) + state.whole;
  }

  Numels states() const {
    Numels result;
    result.reserve(held_numel_.size());
    for (int block = 0; block < program_.num_blocks(); ++block) result.push_back(states_of(block));
    return result;
  }

  void optimizer() {
    const Moved state = options_.offload_optimizer ? moved(Payload::optimizer, states()) : Moved{};
    const int64_t reloaded = (state.most - state.left) * kFloatBytes;  // not there for the norm
    if (options_.offload_optimizer) {
      keep(MemoryCategory::optimizer, state.left * kFloatBytes);
      keep(MemoryCategory::optimizer, reloaded, When::update);
    } else {
      for (const int64_t numel : states()) keep(MemoryCategory::optimizer, numel * kFloatBytes);
    }
    const int64_t widened = program_.gradient_bytes < kFloatBytes ? std::min(largest_own() * kFloatBytes, kWidenedPiece) : 0;
    add(MemoryCategory::optimizer, std::max(largest_update() + widened, largest_norm() - reloaded), When::update);
    if (options_.in_own_memory.optimizer) add(MemoryCategory::optimizer, sum(states()) * kFloatBytes);
  }

  int64_t largest_norm() const {
    int64_t most = 0;
    for (int block = 0; block < program_.num_blocks() && owns_ && !options_.block_states.empty(); ++block) {
      if (held_numel_[block] > 0) most = std::max(most, options_.block_states[block].norm_bytes);
    }
    return most;
  }

  /// Peak temporary bytes of a block's update: the gathered gradients, and the update's own.
  int64_t largest_update() const {
    int64_t most = 0;
    for (int block = 0; block < program_.num_blocks() && owns_ && !options_.block_states.empty(); ++block) {
      if (held_numel_[block] == 0) continue;
      const int64_t whole =
          program_.gathers_gradients(block) ? held_numel_[block] * program_.gathered_gradient_bytes[block] : 0;
      most = std::max(most, whole + options_.block_states[block].temporary_bytes);
    }
    return most;
  }

  /// Copies for saving, in host memory; ranks that own the same state each write a part.
  void saving() {
    const MeshSizes& mesh = program_.mesh;
    const int64_t replicas = int64_t{mesh.dp} * mesh.cp * (program_.shards > 1 ? 1 : mesh.shard);
    const int64_t weights = owns_ ? sum(held_weights_) / program_.shards : 0;
    const int64_t bytes = options_.state_copies * (weights + sum(states())) * kFloatBytes / replicas;
    result_.peak[static_cast<size_t>(MemoryCategory::saving)] = bytes;
    if (options_.device == TargetDevice::gpu) {
      result_.host_bytes = bytes;
    } else {
      result_.reserved_bytes += bytes;
    }
  }

  const Program& program_;
  const InstructionList& list_;
  const Buffers& buffers_;
  const MemoryOptions& options_;
  bool owns_;            // the rank updates its blocks
  Numels held_numel_;    // elements with a gradient; 0 for the blocks of other ranks
  Numels held_weights_;  // all elements
  std::vector<Request> requests_;
  Numels added_;  // bytes of sums in flight, by instruction
  MemoryEstimate result_;
};

}  // namespace

int64_t MemoryEstimate::total() const {
  const int64_t in_backward = of(MemoryCategory::activations) - lasting_bytes;
  return sum() - in_backward - early_bytes - update_bytes + std::max(update_bytes, in_backward + backward_bytes);
}

std::string record_name(MemoryCategory category) {
  std::string text = "memory/" + std::string(name(category));
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

int64_t MemoryEstimate::sum() const { return std::accumulate(peak.begin(), peak.end(), -host_bytes); }

MemoryEstimate estimate_memory(const Program& program, int rank, const MemoryOptions& options) {
  check_rank(program, rank);
  return estimate_checked_memory(program, rank, options);
}

MemoryEstimate estimate_checked_memory(const Program& program, int rank, const MemoryOptions& options) {
  return Estimate(program, rank, options).run();
}

}  // namespace weft
