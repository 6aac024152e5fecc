#include "weft/plan/search/state_bound.h"

#include <algorithm>
#include <array>

#include "weft/program/build/step_layout.h"

namespace weft {

namespace {

/// Seconds by port, each of which takes one collective at a time.
struct PortSeconds {
  std::array<double, kNumPorts> seconds = {};
  double& of(const Ring& ring) { return seconds[static_cast<size_t>(ring.port)]; }
  double longest() const { return *std::max_element(seconds.begin(), seconds.end()); }
};

/// What a pipeline rank moves over the data-parallel axes.
struct RankTraffic {
  PortSeconds last_sums = {};    ///< sums that wait for the rank's last backward
  PortSeconds all = {};          ///< all of a step
  double gathers_after_s = 0.0;  ///< of updated weights
  double least_gather_s = 0.0;   ///< one of them
};

class StateBound {
 public:
  StateBound(const StateInputs& inputs, const StateChoice& states, const DataRings& rings)
      : inputs_(inputs), states_(states), rings_(rings) {}

  double seconds() const {
    double ready = 0.0, tail = 0.0, own = 0.0;
    const double first = states_.level == ShardLevel::parameters ? gather(0) : 0.0;
    for (const RankBound& rank : inputs_.ranks) {
      const RankTraffic traffic = traffic_of(rank);
      const double end = first + std::max(rank.end_s, rank.last_start_s + traffic.last_sums.longest());
      const double owned = static_cast<double>(numel(rank)) / shards();
      const double norm = inputs_.passes.norm_s * owned, update = inputs_.passes.update_s * owned;
      ready = std::max({ready, end + norm, traffic.all.longest(), rank.end_s + held_seconds(traffic.last_sums),
                        rank.work_s + held_seconds(traffic.all)});
      // What a collective beside the last backward takes from compute may be left for the rank's own update.
      const double slowed = rank.start_s + rank.work_s + taken_seconds(traffic.all.longest() - rank.start_s);
      own = std::max({own, end + copy_seconds(rank), slowed + update + traffic.least_gather_s});
      tail = std::max({tail, update + traffic.least_gather_s, traffic.gathers_after_s});
    }
    return std::max(ready + tail, own);
  }

 private:
  /// Of offloaded state, around the updates: optimizer state both ways, weights back.
  double copy_seconds(const RankBound& rank) const {
    double numbers = 0.0;
    for (const StageBlocks& stage : rank.stages) {
      for (int b = stage.first; b < stage.last; ++b) {
        const BlockCost& block = inputs_.cost.blocks[b];
        numbers += static_cast<double>(block.numel) *
                   ((states_.offload_optimizer ? 2.0 * block.states : 0.0) + (states_.offload_parameters ? 1.0 : 0.0));
      }
    }
    return numbers * kFloatBytes / shards() / inputs_.offload_bytes_per_s;
  }

  /// Of collectives that do not overlap compute. A pipeline's may fill its bubble, except those after the last backward.
  double held_seconds(const PortSeconds& traffic) const {
    double sum = 0.0;
    for (size_t port = 0; port < kNumPorts; ++port) sum += rings_.overlap[port] ? 0.0 : traffic.seconds[port];
    return sum;
  }

  /// Least seconds by which collectives of `beside_s` slow compute down, if all of them run beside it: s seconds of compute
  /// beside collectives take (1 + share) s, and the part that is added is not slowed down again.
  double taken_seconds(double beside_s) const {
    const double share = inputs_.taken_from_compute;
    return share / (1.0 + share) * std::max(beside_s, 0.0);
  }

  int shards() const { return states_.level == ShardLevel::none ? 1 : states_.shard; }
  int64_t padded(int block) const { return padded_numel(inputs_.cost.blocks[block].numel, shards()); }
  int64_t weights(int block) const { return padded(block) + padded_numel(inputs_.cost.blocks[block].frozen_numel, shards()); }

  double gather(int block) const { return rings_.over_shards(Op::gather, weights(block) * inputs_.weight_bytes); }

  double inner_gather(int block) const { return rings_.over_inner(weights(block) * inputs_.weight_bytes); }

  int64_t numel(const RankBound& rank) const {
    int64_t sum = 0;
    for (const StageBlocks& stage : rank.stages) {
      for (int b = stage.first; b < stage.last; ++b) sum += inputs_.cost.blocks[b].numel;
    }
    return sum;
  }

  RankTraffic traffic_of(const RankBound& rank) const {
    return states_.level == ShardLevel::none ? of_replicas(rank) : of_shards(rank);
  }

  /// Buckets take at least as long as one of all their bytes.
  RankTraffic of_replicas(const RankBound& rank) const {
    RankTraffic traffic;
    int64_t first = 0;
    for (int b = rank.stages[0].first; b < rank.stages[0].last; ++b) first += padded(b);
    traffic.last_sums.of(rings_.replicas) = rings_.over_replicas(first * inputs_.gradient_bytes);
    traffic.all.of(rings_.replicas) = rings_.over_replicas(numel(rank) * inputs_.gradient_bytes);
    return traffic;
  }

  RankTraffic of_shards(const RankBound& rank) const {
    const bool every = states_.level >= ShardLevel::gradients && !inputs_.keeps_order;
    RankTraffic traffic;
    for (size_t s = 0; s < rank.stages.size(); ++s) {
      for (int b = rank.stages[s].first; b < rank.stages[s].last; ++b) {
        if (inputs_.cost.blocks[b].numel == 0) continue;
        const int64_t bytes = padded(b) * inputs_.gradient_bytes;
        const double scatter = rings_.over_shards(Op::reduce_scatter, bytes), sum = rings_.over_replicas(bytes / shards());
        traffic.all.of(rings_.shard) += (every && !inputs_.passes.blocks[b].is_tied ? inputs_.micro_batches : 1) * scatter;
        traffic.all.of(rings_.replicas) += sum;
        if (s == 0) traffic.last_sums.of(rings_.shard) += scatter;
        if (s == 0) traffic.last_sums.of(rings_.replicas) += sum;
        add_gathers(rank.stages[s], b, traffic);
      }
    }
    return traffic;
  }

  /// Weights are gathered for each micro-batch, unless the block is the only one of its stage; and again for backward, unless
  /// the block's forward or backward may come right before. Weights kept until backward, or a part of them, may stay for the
  /// next forward in a stage's first block, which may come right after.
  void add_gathers(const StageBlocks& stage, int block, RankTraffic& traffic) const {
    if (states_.level != ShardLevel::parameters) {  // frozen weights are whole on each rank
      const double once = rings_.over_shards(Op::gather, padded(block) * inputs_.weight_bytes);
      traffic.gathers_after_s += once;
      traffic.least_gather_s = traffic.least_gather_s > 0.0 ? std::min(traffic.least_gather_s, once) : once;
      return;
    }
    const double once = gather(block);
    if (stage.last - stage.first == 1 || (!states_.reshard && block == stage.first)) return;
    const bool is_first = block == stage.first, is_inside = !is_first && block + 1 < stage.last && states_.reshard;
    const bool has_inner = states_.inner_shards > 1;
    const double all_micro_batches = inputs_.micro_batches;
    traffic.all.of(rings_.shard) += (is_first && has_inner ? 1.0 : all_micro_batches) * once;
    if (has_inner && (is_first || is_inside)) traffic.all.of(rings_.inner) += all_micro_batches * inner_gather(block);
    if (!has_inner && is_inside) traffic.all.of(rings_.shard) += all_micro_batches * once;
  }

  const StateInputs& inputs_;
  const StateChoice& states_;
  const DataRings& rings_;
};

/// Elements of a rank's blocks.
struct Elements {
  int64_t weights = 0, trained = 0, state = 0;
  int64_t largest_weights = 0, largest_trained = 0;  ///< of one block
};

Elements elements_of(const RankBound& rank, const ModelCost& cost) {
  Elements sum;
  for (const StageBlocks& stage : rank.stages) {
    for (int b = stage.first; b < stage.last; ++b) {
      const BlockCost& block = cost.blocks[b];
      const int64_t weights = block.numel + block.frozen_numel;
      sum.trained += block.numel;
      sum.weights += weights;
      sum.state += block.numel * block.states;
      sum.largest_weights = std::max(sum.largest_weights, weights);
      sum.largest_trained = std::max(sum.largest_trained, block.numel);
    }
  }
  return sum;
}

/// Whole weights that are gathered, and what the inner axis keeps of them.
int64_t gathered_elements(const Elements& elements, const StateChoice& states, bool alternates) {
  const int64_t whole = states.reshard || !alternates ? elements.largest_weights : elements.weights;
  return whole + (states.inner_shards > 1 ? elements.weights / states.inner_shards : 0);
}

}  // namespace

double least_seconds(const StateInputs& inputs, const StateChoice& states, const DataRings& rings) {
  return StateBound(inputs, states, rings).seconds();
}

int64_t least_bytes(const StateInputs& inputs, const StateChoice& states) {
  const int shards = states.level == ShardLevel::none ? 1 : states.shard;
  const bool shards_weights = states.level == ShardLevel::parameters, shards_gradients = states.level >= ShardLevel::gradients;
  const bool alternates = inputs.ranks.size() == 1;  // each forward's backward comes next
  int64_t most = 0;
  for (const RankBound& rank : inputs.ranks) {
    const Elements elements = elements_of(rank, inputs.cost);
    int64_t bytes = elements.trained * inputs.gradient_bytes / (shards_gradients ? shards : 1);
    if (shards_gradients) bytes += elements.largest_trained * inputs.gradient_bytes;
    if (!shards_weights) bytes += elements.weights * inputs.weight_bytes;
    if (shards_weights && !states.offload_parameters) bytes += elements.weights / shards * inputs.weight_bytes;
    if (shards_weights) bytes += gathered_elements(elements, states, alternates) * inputs.weight_bytes;
    if (!states.offload_parameters && inputs.weight_bytes < kFloatBytes) bytes += elements.weights / shards * kFloatBytes;
    if (!states.offload_optimizer) bytes += elements.state / shards * kFloatBytes;
    bytes += rank.activation_bytes - (states.offload_activations ? rank.moved_bytes : 0);
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace weft
