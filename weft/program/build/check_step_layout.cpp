#include "weft/program/build/check_step_layout.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/math.h"

namespace weft {
namespace {

// Checks the costs, which may be hand-written.
void check_model(const ModelCost& model) {
  if (model.blocks.empty()) throw InputError(fmt::format("model '{}' has no blocks: a program needs at least one", model.name));
  const int blocks = static_cast<int>(model.blocks.size());
  for (int b = 0; b < blocks; ++b) {
    const BlockCost& block = model.blocks[b];
    for (const int used : block.uses) {
      if (used >= 0 && used < blocks) continue;
      throw InputError(fmt::format("model '{}', block {} '{}': uses block {} of {}", model.name, b, block.name, used, blocks));
    }
  }
}

void check_master(const StepLayout& layout) {
  if (int64_t{layout.dp} * layout.shard * layout.cp * layout.tp > 1 || layout.shard_level != ShardLevel::none) {
    throw InputError("layout: a layout with a master uses only the pipeline axis, without sharding; set the other axes to 1");
  }
  if (layout.offload.activations || layout.offload.optimizer) {
    throw InputError("layout: a layout with a master cannot offload; set StepLayout::offload to none");
  }
  if (layout.noise_scale) {
    throw InputError("layout: a layout with a master cannot measure the noise scale: the other ranks have no norms");
  }
  if (layout.micro_batches % layout.pp != 0 || layout.micro_batches / layout.pp % layout.slots != 0) {
    throw InputError(
        fmt::format("layout: {} micro-batches do not divide over a master's {} ranks with {} slots each; use {} micro-batches",
                    layout.micro_batches, layout.pp, layout.slots, round_up(layout.micro_batches, layout.pp * layout.slots)));
  }
}

}  // namespace

void check_step_layout(const ModelCost& model, const StepLayout& layout) {
  check_model(model);
  const auto positive = [](const char* key, int64_t value) {
    if (value < 1) throw InputError(fmt::format("layout: {} is {}, must be at least 1", key, value));
  };
  positive("pp", layout.pp);
  positive("cp", layout.cp);
  positive("tp", layout.tp);
  positive("dp", layout.dp);
  positive("shard", layout.shard);
  positive("micro_batches", layout.micro_batches);
  positive("slots", layout.slots);
  if (layout.bucket_bytes < 0) {
    throw InputError(fmt::format("layout: bucket_bytes is {}, must be above 0, or 0 for automatic", layout.bucket_bytes));
  }
  if (layout.slots > 1 && layout.shard_level >= ShardLevel::gradients && !layout.keep_order) {
    throw InputError(
        "layout: several slots per rank need keep_order, as gradients reduced every micro-batch cannot be summed by slot");
  }
  if (layout.offload.weights && layout.shard_level != ShardLevel::parameters) {
    throw InputError("layout: offloading weights needs shard level parameters");
  }
  if (layout.master) check_master(layout);
  if (layout.inner_shards < 1 || layout.shard % layout.inner_shards != 0) {
    throw InputError(fmt::format("layout: inner_shards is {}, must divide the {} ranks of the shard axis", layout.inner_shards,
                                 layout.shard));
  }
  if (layout.prefetch < 0) throw InputError(fmt::format("layout: prefetch is {}, must be at least 0", layout.prefetch));
  if (!is_power_of_two(layout.slots)) {
    throw InputError(fmt::format("layout: {} slots per rank, must be a power of two (nearest below: {})", layout.slots,
                                 floor_power_of_two(layout.slots)));
  }
  if (layout.micro_batches % layout.slots != 0) {
    throw InputError(fmt::format("layout: {} slots do not divide {} micro-batches per rank; use {}, or fewer slots",
                                 layout.slots, layout.micro_batches, round_up(layout.micro_batches, layout.slots)));
  }
}

}  // namespace weft
