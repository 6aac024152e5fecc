#include "weft/program/build.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/program/buckets.h"
#include "weft/program/buffers.h"
#include "weft/program/passes/accumulate.h"
#include "weft/program/passes/clip.h"
#include "weft/program/passes/gather_updated.h"
#include "weft/program/passes/prefetch.h"
#include "weft/program/passes/replicate.h"
#include "weft/program/passes/shard_gradients.h"
#include "weft/program/passes/shard_parameters.h"
#include "weft/program/passes/slots.h"
#include "weft/program/passes/update.h"
#include "weft/program/passes/waits.h"
#include "weft/program/schedules/single_stage.h"

namespace weft {
namespace {

constexpr int64_t kUnit = 64;

void check(const ModelCost& model, const StepLayout& layout) {
  if (model.blocks.empty()) throw InputError(fmt::format("model '{}' has no blocks: a program needs at least one", model.name));
  const auto positive = [](const char* key, int64_t value) {
    if (value < 1) throw InputError(fmt::format("layout: {} is {}, must be at least 1", key, value));
  };
  positive("dp", layout.dp);
  positive("shard", layout.shard);
  positive("micro_batches", layout.micro_batches);
  positive("slots", layout.slots);
  positive("bucket_bytes", layout.bucket_bytes);
  if (layout.slots > 1 && layout.shard_level >= ShardLevel::gradients && !layout.keep_order) {
    throw InputError("layout: several slots a rank need keep_order: gradients that are reduced every micro-batch fill no slot");
  }
  if (layout.offload.weights && layout.shard_level != ShardLevel::parameters) {
    throw InputError("layout: weights are offloaded at shard level parameters only");
  }
  if (layout.inner_shards < 1 || layout.shard % layout.inner_shards != 0) {
    throw InputError(
        fmt::format("layout: weights resharded over {} ranks after forward; must divide the {} ranks of the shard axis",
                    layout.inner_shards, layout.shard));
  }
  if (layout.prefetch < 0) throw InputError(fmt::format("layout: prefetch is {}, must be at least 0", layout.prefetch));
  if (!is_power_of_two(layout.slots)) {
    throw InputError(fmt::format("layout: {} slots a rank, must be a power of two (nearest below: {})", layout.slots,
                                 floor_power_of_two(layout.slots)));
  }
  if (layout.micro_batches % layout.slots != 0) {
    throw InputError(fmt::format("layout: {} slots do not divide {} micro-batches a rank; use {} micro-batches, or fewer slots",
                                 layout.slots, layout.micro_batches, round_up(layout.micro_batches, layout.slots)));
  }
}

Program describe_model(const ModelCost& model, const StepLayout& layout) {
  const bool sharded = layout.shard_level != ShardLevel::none;
  Program program;
  program.shard_level = layout.shard_level;
  program.shards = sharded ? layout.shard : 1;
  program.replicas = sharded ? layout.dp : layout.dp * layout.shard;
  program.inner_shards = layout.shard_level == ShardLevel::parameters && layout.reshard_after_forward ? layout.inner_shards : 1;
  program.weight_bytes = layout.weight_bytes;
  program.gradient_bytes = layout.gradient_bytes;
  program.micro_batches = layout.micro_batches;
  program.slots = layout.slots;
  program.list_of_rank.assign(static_cast<size_t>(layout.dp) * layout.shard, 0);
  for (const BlockCost& block : model.blocks) {
    program.block_names.push_back(block.name);
    program.block_numel.push_back(padded_numel(block.numel, program.shards));
    program.block_uses.push_back(block.uses);
  }
  return program;
}

InstructionList build_list(const ModelCost& model, const StepLayout& layout, const Program& program) {
  const bool sharded = layout.shard_level != ShardLevel::none;
  const std::vector<Bucket> buckets = sharded ? single_blocks(program) : gradient_buckets(program, layout.bucket_bytes);
  const int data_ranks = layout.dp * layout.shard;
  InstructionList list = single_stage(model);
  list = recompute(list, model, layout.recompute);
  list = offload_activations(list, model, layout.offload);
  list = accumulate(list, layout.micro_batches);
  list = close_slots(list, {.slots = layout.slots, .buckets = buckets, .uses = program.block_uses});
  if (sharded) {
    list = shard_gradients(list, program,
                           {.every_micro_batch = layout.shard_level >= ShardLevel::gradients && !layout.keep_order});
  } else {
    list = replicate(list, {.replicas = data_ranks, .buckets = buckets, .uses = program.block_uses});
  }
  if (layout.clip || layout.check_finite) list = clip(list, {.shards = program.shards, .all = whole(buckets)});
  list = update(list, {.data_ranks = data_ranks, .buckets = buckets});
  list = offload_state(list, layout.offload);
  if (layout.shard_level == ShardLevel::parameters) {
    list = shard_parameters(list, program,
                            {.reshard_after_forward = layout.reshard_after_forward, .inner_shards = program.inner_shards});
    list = offload_shards(list, layout.offload);
    list = prefetch(list, program, {.depth = layout.prefetch, .max_bytes = layout.gathered_bytes});
  } else if (sharded) {
    list = gather_updated(list, program);
  }
  return list;
}

}  // namespace

int64_t padded_numel(int64_t numel, int shards) { return round_up(numel, kUnit * shards); }

Program build_program(const ModelCost& model, const StepLayout& layout) {
  check(model, layout);
  Program program = describe_model(model, layout);
  InstructionList list = build_list(model, layout, program);
  program.weight_buffer = weight_buffers(list, program);
  program.gradient_buffer = gradient_buffers(list, program, layout.prefetch);
  program.lists = {link_waits(list, program)};
  return program;
}

}  // namespace weft
