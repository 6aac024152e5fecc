#include "weft/program/simulate/device_costs.h"

#include <fmt/format.h>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr CostRange kCount = {.least = 1.0, .most = 1e6};
constexpr CostRange kShareOfPeak = {.least = 0.0, .most = 1.0, .above = true};
constexpr CostRange kRelative = {.least = 0.0, .most = 2.0, .above = true};
constexpr CostRange kShare = {.least = 0.0, .most = 1.0};
constexpr CostRange kFactor = {.least = 1.0, .most = 1e3};
constexpr CostRange kFactorOfRate = {.least = 0.0, .most = 10.0, .above = true};
constexpr CostRange kSize = {.least = 0.0, .most = 1e18};
constexpr CostRange kAny = {};  // elements, waves, seconds

void check(const std::vector<CostKey>& keys, const std::string& name) {
  for (const CostKey& key : keys) {
    const auto& [least, most, above] = key.range;
    if ((above ? *key.value > least : *key.value >= least) && *key.value <= most) continue;
    throw InputError(fmt::format("{}: {}.{} is {}, must be {} {} and at most {}", name, key.section, key.name, *key.value,
                                 above ? "above" : "at least", least, most));
  }
}

}  // namespace

std::vector<CostKey> cost_keys(OperatorCosts& costs) {
  auto& [products, attention, memory_bound, rates] = costs;
  constexpr const char *kProducts = "products", *kAttention = "attention", *kMemoryBound = "memory_bound";
  constexpr const char* kStart = "time per launch on the device";
  return {
      {kProducts, "processors", "that compute a tile each", kCount, &products.processors, true},
      {kProducts, "efficiency", "share of the peak of a long sum in tiles of 256 x 128", kShareOfPeak, &products.efficiency,
       true},
      {kProducts, "sustained", "what of it is left while training", kRelative, &products.sustained},
      {kProducts, "tile_128x128", "efficiency of these tiles, relative to 256 x 128", kRelative, &products.tile_128x128},
      {kProducts, "tile_128x64", "efficiency of these tiles, relative to 256 x 128", kRelative, &products.tile_128x64},
      {kProducts, "tile_64x64", "efficiency of these tiles, relative to 256 x 128", kRelative, &products.tile_64x64},
      {kProducts, "fill", "elements of the sum that a tile takes longer", kAny, &products.fill},
      {kProducts, "whole_waves", "1: a last wave takes as long as a full one; 0: its part", kShare, &products.whole_waves},
      {kProducts, "exposed_writes", "share of the output not written beside products", kShare, &products.exposed_writes},
      {kProducts, "unaligned", "factor of time where a size is no multiple of 8", kFactor, &products.unaligned},
      {kProducts, "split_s", "time to add up a split sum, besides its bytes", kAny, &products.split_s},
      {kProducts, "start_s", kStart, kAny, &products.start_s},
      {kAttention, "forward", "share of the peak of a long forward with wide heads", kShareOfPeak, &attention.forward, true},
      {kAttention, "backward", "the same for backward", kShareOfPeak, &attention.backward, true},
      {kAttention, "width_64", "relative efficiency of heads of 64 to 127", kRelative, &attention.width_64},
      {kAttention, "narrow", "relative efficiency of narrower heads", kRelative, &attention.narrow},
      {kAttention, "half_length", "keys with which it reaches half of its efficiency", kAny, &attention.half_length},
      {kAttention, "tail", "time of the last wave of query tiles, in waves", kAny, &attention.tail},
      {kAttention, "start_s", kStart, kAny, &attention.start_s},
      {kMemoryBound, "efficiency", "share of memory_bytes_per_s", kShareOfPeak, &memory_bound.efficiency, true},
      {kMemoryBound, "start_s", kStart, kAny, &memory_bound.start_s},
  };
}

std::vector<CostKey> cost_keys(CollectiveCosts& costs) {
  constexpr const char* kSection = "collectives";
  return {
      {kSection, "start_s", "of a gather or reduce-scatter inside a host", kAny, &costs.start_s, true},
      {kSection, "all_reduce_start_s", "of an all-reduce inside a host", kAny, &costs.all_reduce_start_s, true},
      {kSection, "half_rate_bytes", "with which a ring inside a host reaches half of its rate", kSize, &costs.half_rate_bytes},
      {kSection, "half_rate_power", "how fast its rate grows with bytes", kRelative, &costs.half_rate_power},
      {kSection, "hop_s", "time of a hop between hosts", kAny, &costs.hop_s, true},
      {kSection, "taken_from_compute", "share of their time by which compute beside them takes longer", kShare,
       &costs.taken_from_compute},
  };
}

std::vector<CostKey> cost_keys(SoftwareCosts& costs) {
  constexpr const char* kSection = "software";
  return {
      {kSection, "attention_rate", "of fused attention, relative to [attention]", kFactorOfRate, &costs.attention_rate},
      {kSection, "norm_bytes", "of a norm's forward per element, with the sum and dropout before it", kAny, &costs.norm_bytes,
       true},
      {kSection, "norm_backward_bytes", "the same for backward", kAny, &costs.norm_backward_bytes, true},
      {kSection, "activation_bytes", "of an activation's forward per element", kAny, &costs.activation_bytes, true},
      {kSection, "activation_backward_bytes", "the same for backward", kAny, &costs.activation_backward_bytes, true},
      {kSection, "rotary_bytes", "of a rotary embedding per element", kAny, &costs.rotary_bytes},
      {kSection, "loss_bytes", "of the loss and its backward per logit", kAny, &costs.loss_bytes, true},
      {kSection, "traffic_factor", "bytes of all these, for what is not named", kFactor, &costs.traffic_factor},
      {kSection, "update_bytes", "of an update per element that the rank owns", kAny, &costs.update_bytes},
      {kSection, "accumulate_bytes", "of each backward per element of gradients", kAny, &costs.accumulate_bytes},
      {kSection, "block_launch_s", "host's time to launch a layer's forward", kAny, &costs.block_launch_s},
      {kSection, "block_s", "further time per layer and micro-batch", kAny, &costs.block_s},
      {kSection, "repeated_products", "share of forward's products that backward repeats", kShare, &costs.repeated_products},
      {kSection, "repeated_attention", "the same for attention", kShare, &costs.repeated_attention},
      {kSection, "repeated_memory_bound", "the same for everything else", kShare, &costs.repeated_memory_bound},
      {kSection, "repeated_calls", "the same for tensor-parallel communication", kShare, &costs.repeated_calls},
      {kSection, "gathered_again", "share of it that backward adds with sequence parallelism", kShare, &costs.gathered_again},
      {kSection, "hidden_tensor", "share of tensor-parallel communication hidden by computing", kShare, &costs.hidden_tensor},
      {kSection, "exposed_messages", "share of a message's time in which its sender computes nothing", kShare,
       &costs.exposed_messages},
      {kSection, "calls_per_block", "collectives that gather a block's weights or sum its gradients", kCount,
       &costs.calls_per_block},
      {kSection, "gradient_traffic", "bytes of sums of gradients, relative to a reduce-scatter", kFactor,
       &costs.gradient_traffic},
      {kSection, "hidden_gathers", "share of gathers of weights hidden in the next step", kShare, &costs.hidden_gathers},
      {kSection, "step_s", "further time per step", kAny, &costs.step_s},
  };
}

void check_costs(const SoftwareCosts& costs, const std::string& name) {
  SoftwareCosts copy = costs;
  check(cost_keys(copy), name);
}

void check_costs(const OperatorCosts& costs, const std::string& name) {
  OperatorCosts copy = costs;
  check(cost_keys(copy), name);
  check_rates(costs.rates, name);
}

void check_costs(const CollectiveCosts& costs, const std::string& name) {
  CollectiveCosts copy = costs;
  check(cost_keys(copy), name);
}

}  // namespace weft
