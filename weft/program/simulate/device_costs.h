// OperatorCosts, CollectiveCosts: what operators and collectives of each kind reach on a device; SoftwareCosts: how other
// software than weft runs operators. Parts of Hardware: operator_time.h and network.h price with them. A hardware file has them
// as [products], [attention], [memory_bound], [collectives] and [software] (docs/simulate.md).
#pragma once

#include <string>
#include <vector>

#include "weft/program/simulate/operator_rates.h"

namespace weft {

/// Matrix products. A product of m x n x k is cut into tiles of its output, which the device's processors take in waves.
struct ProductCosts {
  double processors = 1.0;      ///< that compute a tile each (SMs of a GPU)
  double efficiency = 1.0;      ///< share of the peak that a long sum reaches in tiles of 256 x 128, measured alone
  double sustained = 1.0;       ///< what of it is left while training: clocks under the device's power limit
  double tile_128x128 = 1.0;    ///< efficiency of smaller tiles, relative to those of 256 x 128
  double tile_128x64 = 1.0;     ///< the same for tiles of 128 x 64
  double tile_64x64 = 1.0;      ///< the same for tiles of 64 x 64
  double fill = 0.0;            ///< elements of k that a tile takes longer, to begin and to end
  double whole_waves = 1.0;     ///< 1: the last wave takes as long as a full one; 0: only its part of it
  double exposed_writes = 0.0;  ///< share of the output's bytes that is not written beside the products
  double unaligned = 1.0;       ///< factor of time where a size is no multiple of 8
  double split_s = 0.0;         ///< time to add up a sum that is split over processors, besides its bytes
  double start_s = 0.0;         ///< time per launch on the device
};

/// Fused attention.
struct AttentionCosts {
  double forward = 1.0;      ///< share of the peak that a long forward reaches, with heads of 128 and wider
  double backward = 1.0;     ///< the same for backward
  double width_64 = 1.0;     ///< relative efficiency of heads of 64 to 127
  double narrow = 1.0;       ///< relative efficiency of narrower heads
  double half_length = 0.0;  ///< keys with which it reaches half of its efficiency
  double tail = 0.0;         ///< time of the last wave of query tiles, in waves
  double start_s = 0.0;      ///< time per launch on the device
};

/// Operators that read and write memory and compute little.
struct MemoryBoundCosts {
  double efficiency = 1.0;  ///< share of the memory bandwidth that they reach
  double start_s = 0.0;     ///< time per launch on the device
};

/// Costs of a device's operators.
struct OperatorCosts {
  ProductCosts products = {};          ///< matrix products and convolutions
  AttentionCosts attention = {};       ///< fused attention
  MemoryBoundCosts memory_bound = {};  ///< everything else, updates too
  OperatorRates rates = {};            ///< measured, in place of the three above; empty: these
};

/// Collectives of devices, by size and placement.
struct CollectiveCosts {
  double start_s = 0.0;             ///< time of a gather or reduce-scatter of no bytes inside a host
  double all_reduce_start_s = 0.0;  ///< the same for an all-reduce
  double half_rate_bytes = 0.0;     ///< bytes of all ranks together with which a ring inside a host reaches half of its rate
  double half_rate_power = 1.0;     ///< how fast the rate grows: a ring of b bytes takes 1 + (half_rate_bytes / b)^power
  double hop_s = 0.0;               ///< time of a hop between hosts: a ring's latency is a hop per rank, or that of a tree
  double taken_from_compute = 0.0;  ///< share of a collective's time by which compute beside it takes longer
};

/// How other software than weft runs a step, to compare its published runs: operators (weft's own are as counted), and what it
/// moves and overlaps. Bytes are per element of the operator's tensor, in 16 bits. Collectives need CollectiveCosts.
struct SoftwareCosts {
  std::string name = {};                   ///< in reports
  bool fused_attention = true;             ///< false: products of scores and values, and a softmax between them
  bool fused_softmax = true;               ///< which is one kernel, up to 2 048 keys
  double attention_rate = 1.0;             ///< of fused attention, relative to AttentionCosts
  double norm_bytes = 0.0;                 ///< of a norm's forward, with the sum and dropout before it
  double norm_backward_bytes = 0.0;        ///< the same for backward
  double activation_bytes = 0.0;           ///< of an activation's forward, per element of its output
  double activation_backward_bytes = 0.0;  ///< the same for backward
  double rotary_bytes = 0.0;               ///< of a rotary embedding, forward or backward
  double loss_bytes = 0.0;                 ///< of the loss and its backward, per logit
  double traffic_factor = 1.0;             ///< bytes of all these, for what is not named
  double update_bytes = 28.0;              ///< of an update, per element that the rank owns
  double accumulate_bytes = 0.0;           ///< of each backward, per element of the block's gradients
  double block_launch_s = 0.0;             ///< host's time to launch a layer's forward; backward takes twice as long
  double block_s = 0.0;                    ///< further time per layer and micro-batch
  double repeated_products = 0.0;          ///< share of forward's products that a layer's backward repeats
  double repeated_attention = 0.0;         ///< the same for attention
  double repeated_memory_bound = 0.0;      ///< the same for everything else
  double repeated_calls = 0.0;             ///< the same for its tensor-parallel communication
  double gathered_again = 0.0;             ///< share of it that backward adds with sequence parallelism, to gather inputs
  double hidden_tensor = 0.0;              ///< share of tensor-parallel communication that computing hides
  double exposed_messages = 1.0;           ///< share of a pipeline message's time in which its sender computes nothing
  bool split_messages = false;             ///< ranks of tp each send their part of a message, and gather it inside the host
  bool overlapped_gradients = true;        ///< sums of gradients run beside the last backward (ZeRO-3: always)
  double calls_per_block = 1.0;            ///< collectives that gather a block's weights, or sum its gradients into shards
  double gradient_traffic = 1.0;           ///< bytes of those sums, relative to a reduce-scatter of weft's: 2 for all-reduces
  double hidden_gathers = 0.0;             ///< share of gathers of weights hidden by computing of the next step
  double step_s = 0.0;                     ///< further time per step
};

/// Valid values of a number.
struct CostRange {
  double least = 0.0;  ///< smallest
  double most = 1e9;   ///< largest
  bool above = false;  ///< `least` itself is invalid
};

/// A number of OperatorCosts, CollectiveCosts or SoftwareCosts, as a key of a hardware file.
struct CostKey {
  const char* section;    ///< of the file
  const char* name;       ///< of the key
  const char* meaning;    ///< for errors
  CostRange range;        ///< valid values
  double* value;          ///< its place
  bool required = false;  ///< in a file that has the section
};

std::vector<CostKey> cost_keys(OperatorCosts& costs);    ///< the numbers of `costs`, in the order of a file
std::vector<CostKey> cost_keys(CollectiveCosts& costs);  ///< the same
std::vector<CostKey> cost_keys(SoftwareCosts& costs);    ///< the same

/// Throws InputError that begins with `name`, for a number outside its range.
void check_costs(const OperatorCosts& costs, const std::string& name);
void check_costs(const CollectiveCosts& costs, const std::string& name);  ///< the same
void check_costs(const SoftwareCosts& costs, const std::string& name);    ///< the same

}  // namespace weft
