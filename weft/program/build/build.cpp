#include "weft/program/build/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/axes.h"
#include "weft/program/buckets.h"
#include "weft/program/buffers.h"
#include "weft/program/build/check_step_layout.h"
#include "weft/program/build/master_lists.h"
#include "weft/program/build/stages.h"
#include "weft/program/build/step_bytes.h"
#include "weft/program/build/step_size.h"
#include "weft/program/copies.h"
#include "weft/program/edit.h"
#include "weft/program/passes/gather_gradients.h"
#include "weft/program/passes/gather_updated.h"
#include "weft/program/passes/noise_squares.h"
#include "weft/program/passes/norms.h"
#include "weft/program/passes/one_owner.h"
#include "weft/program/passes/prefetch.h"
#include "weft/program/passes/reload_ahead.h"
#include "weft/program/passes/replicate.h"
#include "weft/program/passes/shard_gradients.h"
#include "weft/program/passes/shard_parameters.h"
#include "weft/program/passes/slots.h"
#include "weft/program/passes/sum_losses.h"
#include "weft/program/passes/sum_partial_gradients.h"
#include "weft/program/passes/tie_weights.h"
#include "weft/program/passes/update.h"
#include "weft/program/passes/waits.h"
#include "weft/program/pipeline/check_schedule.h"
#include "weft/program/schedules/naive.h"
#include "weft/program/ties.h"

namespace weft {
namespace {

void find_holders(Program& program, const std::vector<InstructionList>& lists) {
  if (lists.size() == 1) return;
  program.holders.resize(program.num_blocks());
  for (int rank = 0; rank < static_cast<int>(lists.size()); ++rank) {
    for (const int block : held_blocks(lists[rank], program.block_uses)) program.holders[block].push_back(rank);
  }
}

void find_sums(Program& program, const std::vector<InstructionList>& lists) {
  if (!program.uses_apart) return;
  program.gradient_sums.assign(program.num_blocks(), 1);
  for (const InstructionList& list : lists) {
    const std::vector<std::vector<int>> users = users_run(program, list);
    for (int block = 0; block < program.num_blocks(); ++block) {
      if (program.block_numel[block] == 0) continue;
      program.gradient_sums[block] = std::max(program.gradient_sums[block], static_cast<int>(users[block].size()));
    }
  }
}

void declare_inner_calls(InstructionList& list, const Program& program) {
  for (Instruction& x : list) {
    for (const InnerCall& call : program.inner_calls(x)) x.wire_bytes += call.wire_bytes;
  }
}

int64_t num_tensors(const ModelCost& model) {
  int64_t count = 0;
  for (const BlockCost& block : model.blocks) count += block.tensors;
  return count;
}

Found<InstructionList> finish_list(InstructionList list, const ModelCost& model, const StepLayout& layout,
                                   const Program& program, int pp) {
  const bool sharded = layout.shard_level != ShardLevel::none;
  const std::vector<int> held = held_blocks(list, program.block_uses);
  const int64_t bucket_bytes = layout.bucket_bytes > 0 ? layout.bucket_bytes : automatic_bucket_bytes(program, held);
  const std::vector<Bucket> buckets = sharded ? single_blocks(program, held) : gradient_buckets(program, held, bucket_bytes);
  list = recompute(std::move(list), model, layout.recompute);
  list = offload_activations(std::move(list), model, layout.offload);
  Found<InstructionList> closed = close_slots(std::move(list), program, {.buckets = buckets, .pp = pp});
  if (!closed) return closed;
  list = std::move(closed).take();
  if (sharded) {
    list = shard_gradients(std::move(list), program,
                           {.every_micro_batch = layout.shard_level >= ShardLevel::gradients && !program.keep_order});
  } else {
    list = replicate(
        std::move(list),
        {.replicas = program.replicas, .axes = replica_axes(program), .buckets = buckets, .uses = program.block_uses});
  }
  list = one_owner(std::move(list), program, pp);
  if (program.partial_gradients) list = sum_partial_gradients(std::move(list), model, program, whole(buckets));
  list = tie_weights(std::move(list), program);
  if (program.noise_scale) {
    Found<InstructionList> measured = add_noise_squares(std::move(list), program);
    if (!measured) return measured;
    list = std::move(measured).take();
  }
  list = sum_losses(std::move(list), program);
  const AxisSet axes = model_axes(program);
  if (program.needs_norm) {
    const bool global = layout.clip || layout.check_finite || layout.noise_scale;
    list = add_norms(std::move(list), {.axes = axes,
                                       .ranks = size_along(program, axes),
                                       .all = whole(buckets),
                                       .global = global,
                                       .largest = layout.check_largest && !global,
                                       .tensors = layout.tensor_norms ? num_tensors(model) : 0});
  }
  if (owns_blocks(program, pp)) list = update(std::move(list), {.buckets = buckets});
  list = offload_state(std::move(list), layout.offload);
  list = gather_gradients(std::move(list), program);
  if (layout.shard_level == ShardLevel::parameters) {
    list = shard_parameters(std::move(list), program,
                            {.reshard_after_forward = layout.reshard_after_forward, .inner_shards = program.inner_shards});
    list = offload_shards(std::move(list), layout.offload);
    Found<InstructionList> hoisted =
        prefetch(std::move(list), program, {.depth = layout.prefetch, .max_bytes = layout.gathered_bytes});
    if (!hoisted) return hoisted;
    list = std::move(hoisted).take();
  } else if (sharded) {
    list = gather_updated(std::move(list), program);
  }
  list = reload_ahead(std::move(list), layout.offload);
  declare_copies(list, model, program);
  return {.value = std::move(list)};
}

ScheduleSize size_of(const ModelCost& model, const Schedule& schedule) {
  const auto is_part = [](const Task& task) { return task.kind == TaskKind::backward_input; };
  return {.stages = std::max(schedule.num_stages(), 1),
          .splits_backward =
              std::any_of(schedule.tasks.begin(), schedule.tasks.end(),
                          [&](const std::vector<Task>& tasks) { return std::any_of(tasks.begin(), tasks.end(), is_part); }),
          .whole_blocks = whole_blocks(model)};
}

Schedule schedule_of(const StepLayout& layout) {
  if (layout.schedule.tasks.empty()) {
    if (layout.pp > 1) throw InputError(fmt::format("layout: {} pipeline ranks and no schedule; name one", layout.pp));
    return naive_schedule({.ranks = 1, .micro_batches = layout.micro_batches});
  }
  if (layout.schedule.num_ranks() != layout.pp || layout.schedule.micro_batches != layout.micro_batches) {
    throw InputError(fmt::format("layout: schedule {} is for {} pipeline ranks and {} micro-batches, the layout has {} and {}",
                                 layout.schedule.name, layout.schedule.num_ranks(), layout.schedule.micro_batches, layout.pp,
                                 layout.micro_batches));
  }
  check_schedule(layout.schedule);
  return layout.schedule;
}

std::vector<InstructionList> scheduled_lists(const ModelCost& model, const StepLayout& layout) {
  const Schedule schedule = schedule_of(layout);
  const int num_blocks = static_cast<int>(model.blocks.size());
  const std::vector<StageBlocks> stages = stage_blocks(
      model, schedule, layout.first_block.empty() ? even_stages(num_blocks, schedule.num_stages()) : layout.first_block);
  return stage_lists(model, schedule, stages);
}

}  // namespace

Program frame_program(const ModelCost& model, const StepLayout& layout) {
  const bool sharded = layout.shard_level != ShardLevel::none;
  Program program;
  program.shard_level = layout.shard_level;
  program.shards = sharded ? layout.shard : 1;
  program.replicas = (sharded ? layout.dp : layout.dp * layout.shard) * layout.cp;
  program.inner_shards = layout.shard_level == ShardLevel::parameters && layout.reshard_after_forward ? layout.inner_shards : 1;
  program.weight_bytes = layout.weight_bytes;
  program.gradient_bytes = layout.gradient_bytes;
  program.micro_batches = layout.micro_batches;
  program.slots = layout.slots;
  program.needs_norm = layout.clip || layout.check_finite || layout.check_largest || layout.tensor_norms || layout.noise_scale;
  program.noise_scale = layout.noise_scale;
  program.partial_gradients = layout.partial_gradients && layout.tp > 1;
  program.head_takes_targets = model.head_takes_targets;
  program.votes = layout.votes;
  program.keep_order = layout.keep_order && layout.shard_level >= ShardLevel::gradients;
  program.offload = layout.offload;
  if (layout.uploads) program.upload_bytes = model.upload_bytes > 0 ? model.upload_bytes : model.input_bytes;
  program.batch_axes = layout.batch_axes;
  program.copies = layout.master ? layout.pp : 1;
  program.mesh = {.pp = layout.pp, .dp = layout.dp, .shard = layout.shard, .cp = layout.cp, .tp = layout.tp};
  for (int rank = 0; rank < program.mesh.world(); ++rank) {
    program.list_of_rank.push_back(rank / (program.mesh.world() / layout.pp));
  }
  const auto calls_others = [](const BlockCost& block) {
    return !block.calls.forward.empty() || !block.calls.backward.empty();
  };
  const bool inner = std::any_of(model.blocks.begin(), model.blocks.end(), calls_others);
  program.loss_calls = model.loss_calls;
  program.loss_operators = model.loss_operators;
  for (const BlockCost& block : model.blocks) {
    if (inner) program.block_calls.push_back(block.calls);
    program.block_names.push_back(block.name);
    program.block_numel.push_back(padded_numel(block.numel, program.shards));
    program.block_uses.push_back(block.uses);
    program.operators.push_back(block.operators);
    program.flagged += block.flagged;
  }
  program.uses_apart = layout.keep_order && has_ties(program);
  const auto has_frozen = [](const BlockCost& block) { return block.frozen_numel > 0; };
  if (std::any_of(model.blocks.begin(), model.blocks.end(), has_frozen)) {
    for (const BlockCost& block : model.blocks) {
      program.block_frozen.push_back(padded_numel(block.frozen_numel, program.shards));
    }
  }
  const auto gathers = [](const BlockCost& block) { return block.gathered_gradient_bytes > 0; };
  if (program.shards > 1 && std::any_of(model.blocks.begin(), model.blocks.end(), gathers)) {
    for (const BlockCost& block : model.blocks) program.gathered_gradient_bytes.push_back(block.gathered_gradient_bytes);
  }
  return program;
}

Found<Program> find_program(const ModelCost& model, const StepLayout& layout) {
  check_step_layout(model, layout);
  check_step_size(static_cast<int64_t>(model.blocks.size()), layout, size_of(model, layout.schedule));
  check_step_bytes(model, layout);
  Program program = frame_program(model, layout);
  std::vector<InstructionList> lists = program.copies > 1 ? master_lists(model, program) : scheduled_lists(model, layout);
  find_holders(program, lists);
  find_sums(program, lists);
  for (int rank = 0; rank < layout.pp; ++rank) {
    Found<InstructionList> finished = finish_list(std::move(lists[rank]), model, layout, program, rank);
    if (!finished) return {.why_not = std::move(finished.why_not)};
    InstructionList list = std::move(finished).take();
    list.shrink_to_fit();
    declare_inner_calls(list, program);
    program.buffers.push_back(layout.buffers.empty()
                                  ? Buffers{weight_buffers(list, program), gradient_buffers(list, program, layout.prefetch)}
                                  : layout.buffers[rank]);
    program.lists.push_back(link_waits(std::move(list), program, program.buffers.back()));
  }
  return {.value = std::move(program)};
}

Program build_program(const ModelCost& model, const StepLayout& layout) { return find_program(model, layout).take(); }

}  // namespace weft
