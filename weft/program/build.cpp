#include "weft/program/build.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/program/buckets.h"
#include "weft/program/passes/accumulate.h"
#include "weft/program/passes/clip.h"
#include "weft/program/passes/replicate.h"
#include "weft/program/passes/slots.h"
#include "weft/program/passes/update.h"
#include "weft/program/passes/waits.h"
#include "weft/program/schedules/single_stage.h"

namespace weft {
namespace {

void check(const ModelCost& model, const StepLayout& layout) {
  if (model.blocks.empty()) throw InputError(fmt::format("model '{}' has no blocks: a program needs at least one", model.name));
  const auto positive = [](const char* key, int64_t value) {
    if (value < 1) throw InputError(fmt::format("layout: {} is {}, must be at least 1", key, value));
  };
  positive("dp", layout.dp);
  positive("micro_batches", layout.micro_batches);
  positive("slots", layout.slots);
  positive("bucket_bytes", layout.bucket_bytes);
  if (!is_power_of_two(layout.slots)) {
    throw InputError(fmt::format("layout: {} slots a rank, must be a power of two (nearest below: {})", layout.slots,
                                 floor_power_of_two(layout.slots)));
  }
  if (layout.micro_batches % layout.slots != 0) {
    throw InputError(fmt::format("layout: {} slots do not divide {} micro-batches a rank; use {} micro-batches, or fewer slots",
                                 layout.slots, layout.micro_batches, round_up(layout.micro_batches, layout.slots)));
  }
}

InstructionList build_list(const ModelCost& model, const StepLayout& layout) {
  const std::vector<Bucket> buckets = gradient_buckets(model, layout.bucket_bytes);
  InstructionList list = single_stage(model);
  list = accumulate(list, layout.micro_batches);
  list = close_slots(list, {.slots = layout.slots, .buckets = buckets});
  list = replicate(list, {.replicas = layout.dp, .buckets = buckets});
  if (layout.clip) list = clip(list, whole(buckets));
  list = update(list, {.replicas = layout.dp, .buckets = buckets});
  return link_waits(list);
}

}  // namespace

Program build_program(const ModelCost& model, const StepLayout& layout) {
  check(model, layout);
  Program program;
  for (const BlockCost& block : model.blocks) {
    program.block_names.push_back(block.name);
    program.block_bytes.push_back(block.flat_bytes);
  }
  program.micro_batches = layout.micro_batches;
  program.slots = layout.slots;
  program.replicas = layout.dp;
  program.lists = {build_list(model, layout)};
  program.list_of_rank.assign(layout.dp, 0);
  return program;
}

}  // namespace weft
