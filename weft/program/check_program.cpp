#include "weft/program/check_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/check_inner_calls.h"
#include "weft/program/check_instructions.h"
#include "weft/program/limits.h"

namespace weft {
namespace {

constexpr int kMostElementBytes = 8;
constexpr size_t kFewMicroBatches = 4096;  // few enough for verify() to search one by one

[[noreturn]] void malformed(int rank, const std::string& text) {
  throw VerifyError(Defect::out_of_range, rank, fmt::format("program: {}", text));
}

void check_blocks_flagged(const Program& program) {
  if (program.block_names.empty()) malformed(0, "no blocks");
  if (program.block_names.size() != program.block_numel.size()) {
    malformed(0, fmt::format("{} block names but {} block sizes", program.block_names.size(), program.block_numel.size()));
  }
  if (program.block_uses.size() != program.block_names.size()) {
    malformed(0, fmt::format("block uses are given for {} blocks of {}", program.block_uses.size(), program.num_blocks()));
  }
  if (!program.block_frozen.empty() && program.block_frozen.size() != program.block_names.size()) {
    malformed(0,
              fmt::format("frozen weights are given for {} blocks of {}", program.block_frozen.size(), program.num_blocks()));
  }
  if (!program.gathered_gradient_bytes.empty() && program.gathered_gradient_bytes.size() != program.block_names.size()) {
    malformed(0, fmt::format("gathered gradients are given for {} blocks of {}", program.gathered_gradient_bytes.size(),
                             program.num_blocks()));
  }
  if (!program.gradient_sums.empty() && program.gradient_sums.size() != program.block_names.size()) {
    malformed(
        0, fmt::format("sums of gradients are given for {} blocks of {}", program.gradient_sums.size(), program.num_blocks()));
  }
  for (const int sums : program.gradient_sums) {
    if (sums < 1 || sums > program.num_blocks()) {
      malformed(0, fmt::format("{} sums of a block's gradients: must be 1 to {}", sums, program.num_blocks()));
    }
  }
  for (const int bytes : program.gathered_gradient_bytes) {
    if (bytes < 0 || bytes > kMostElementBytes) {
      malformed(0, fmt::format("gathered gradients of {} bytes: must have 0 to {}", bytes, kMostElementBytes));
    }
  }
  int64_t elements = 0;
  for (int block = 0; block < program.num_blocks(); ++block) {
    const std::string& name = program.block_names[block];
    const int64_t frozen = program.block_frozen.empty() ? 0 : program.block_frozen[block];
    for (const int64_t numel : {program.block_numel[block], frozen}) {
      if (numel < 0 || numel > kMostElements - elements) {
        malformed(0, fmt::format("block {} '{}' has {} elements: must be at least 0, and at most {} in total", block, name,
                                 numel, kMostElements));
      }
      elements += numel;
    }
    const int64_t more = program.num_sums(block) - 1;
    if (more > 0 && program.block_numel[block] > (kMostElements - elements) / more) {
      malformed(0, fmt::format("block {} '{}' has {} sums of its gradients, for a total of more than {} elements", block, name,
                               more + 1, kMostElements));
    }
    elements += more * program.block_numel[block];
    for (const int used : program.block_uses[block]) {
      if (used >= 0 && used < program.num_blocks()) continue;
      malformed(0, fmt::format("block {} '{}' uses block {} of {}", block, name, used, program.num_blocks()));
    }
  }
}

void check_copies(const Program& program) {
  if (program.copies == 1 || program.copies == program.mesh.pp) return;
  malformed(0,
            fmt::format("{} copies of each block: must be 1, or {} for all pipeline ranks", program.copies, program.mesh.pp));
}

void check_counts(const Program& program) {
  const MeshSizes& mesh = program.mesh;
  int64_t world = 1;
  for (const int size : {mesh.pp, mesh.dp, mesh.shard, mesh.cp, mesh.tp}) {
    if (size < 1) malformed(0, fmt::format("a mesh axis has {} ranks: must have at least 1", size));
    world = std::min<int64_t>(world * size, INT32_MAX);
  }
  if (program.list_of_rank.empty()) malformed(0, "no ranks");
  if (world != static_cast<int64_t>(program.list_of_rank.size())) {
    malformed(0, fmt::format("its mesh has {} ranks, but {} have a list", world, program.list_of_rank.size()));
  }
  if (program.micro_batches < 1 || program.slots < 1 || program.replicas < 1 || program.shards < 1) {
    malformed(0, fmt::format("{} micro-batches, {} slots, {} replicas, {} shards: each must be at least 1",
                             program.micro_batches, program.slots, program.replicas, program.shards));
  }
  if (program.micro_batches % program.slots != 0) {
    malformed(0, fmt::format("{} slots do not divide {} micro-batches", program.slots, program.micro_batches));
  }
  if (program.votes < 0 || program.votes > kMostVotes) {
    malformed(0, fmt::format("{} votes; at most {} travel with the losses", program.votes, kMostVotes));
  }
  check_copies(program);
  const bool is_plain = world == mesh.pp && program.replicas == 1 && program.shard_level == ShardLevel::none;
  if (program.copies > 1 && !is_plain) {
    malformed(0, "it has copies of each block, but also axes other than pp or sharded state");
  }
  if (program.micro_batches % (int64_t{program.copies} * program.slots) != 0) {
    malformed(0, fmt::format("{} micro-batches do not divide over {} copies with {} slots each", program.micro_batches,
                             program.copies, program.slots));
  }
  if (program.inner_shards < 1 || mesh.shard % program.inner_shards != 0) {
    malformed(0, fmt::format("{} inner shards do not divide the {} ranks of the shard axis", program.inner_shards, mesh.shard));
  }
  if (!kDataAxes.has(program.batch_axes) || program.batch_axes.meets(kShardAxis) != program.batch_axes.has(kShardAxis)) {
    malformed(0, "samples are normalised together along axes other than dp, shard or both");
  }
  for (const int bytes : {program.weight_bytes, program.gradient_bytes}) {
    if (bytes >= 1 && bytes <= kMostElementBytes) continue;
    malformed(0, fmt::format("elements of {} bytes: must have 1 to {}", bytes, kMostElementBytes));
  }
  if (program.shard_level > ShardLevel::parameters) malformed(0, "unknown shard level");
}

void check_holders(const Program& program) {
  if (program.holders.empty()) return;
  if (program.holders.size() != program.block_names.size()) {
    malformed(0, fmt::format("holders are given for {} blocks of {}", program.holders.size(), program.num_blocks()));
  }
  for (int block = 0; block < program.num_blocks(); ++block) {
    for (const int holder : program.holders[block]) {
      if (holder >= 0 && holder < program.mesh.pp) continue;
      malformed(0, fmt::format("block {2} '{3}' is held by pipeline rank {0} of {1}", holder, program.mesh.pp, block,
                               program.block_names[block]));
    }
  }
}

void check_buffers(const Program& program, const Buffers& buffers) {
  for (const std::vector<int>* of_block : {&buffers.weight, &buffers.gradient}) {
    if (of_block->empty()) continue;
    if (of_block->size() != program.block_names.size()) {
      malformed(0, fmt::format("buffers are given for {} blocks of {}", of_block->size(), program.num_blocks()));
    }
    for (const int buffer : *of_block) {
      if (buffer >= -1 && buffer < program.num_blocks()) continue;
      malformed(0, fmt::format("buffer {}: must be -1 (none) or below the number of blocks, {}", buffer, program.num_blocks()));
    }
  }
}

int checked_list(const Program& program, int rank) {
  const int list = program.list_of_rank[rank];
  if (list >= 0 && list < static_cast<int>(program.lists.size())) return list;
  malformed(rank, fmt::format("rank {} runs list {}, but there are {} lists", rank, list, program.lists.size()));
}

// Every rank runs some block on every micro-batch of its own, so its instruction count bounds the memory used for
// micro-batches, however many a program claims.
void check_micro_batches(const Program& program, int rank, size_t instructions) {
  const int own = program.micro_batches / program.copies;
  if (rank < 0 || static_cast<size_t>(own) <= std::max(instructions, kFewMicroBatches)) return;
  throw VerifyError(Defect::missing_forward, rank,
                    fmt::format("rank {} has {} instructions, fewer than the {} micro-batches of its step", rank, instructions,
                                program.micro_batches));
}

void check_shape(const Program& program) {
  check_blocks_flagged(program);
  check_counts(program);
  check_holders(program);
  check_inner_calls(program);
  if (program.buffers.size() != program.lists.size()) {
    malformed(0, fmt::format("buffers are given for {} lists of {}", program.buffers.size(), program.lists.size()));
  }
}

void check_list(const Program& program, int list, int rank) {
  check_buffers(program, program.buffers[list]);
  check_micro_batches(program, rank, program.lists[list].size());
  check_instructions(program, list, rank);
}

}  // namespace

std::vector<int> first_ranks(const Program& program) {
  std::vector<int> ranks(program.lists.size(), -1);
  for (int rank = program.world_size() - 1; rank >= 0; --rank) ranks[checked_list(program, rank)] = rank;
  return ranks;
}

void check_program(const Program& program) {
  check_shape(program);
  const std::vector<int> ranks = first_ranks(program);
  for (size_t list = 0; list < ranks.size(); ++list) check_list(program, static_cast<int>(list), ranks[list]);
}

void check_blocks(const InstructionList& list, const Program& program, const Buffers& buffers) {
  check_blocks_flagged(program);
  check_buffers(program, buffers);
  check_copies(program);
  const size_t micro_batches = std::max(list.size() * static_cast<size_t>(program.copies), kFewMicroBatches);
  for (size_t i = 0; i < list.size(); ++i) {
    const Instruction& x = list[i];
    const auto refuse = [&](const std::string& text) {
      const std::string what = describe(x, program.block_names);
      throw VerifyError(Defect::out_of_range, 0, fmt::format("instruction {} ({}): {}", i, what, text));
    };
    if (!has_blocks(x, program.num_blocks())) {
      refuse(fmt::format("blocks [{}, {}) of {}", x.first, x.last, program.num_blocks()));
    }
    if (x.micro < -1 || x.micro >= static_cast<int64_t>(micro_batches)) {
      refuse(fmt::format("micro-batch {} invalid for {} instructions", x.micro, list.size()));
    }
  }
}

void check_rank(const Program& program, int rank) {
  check_shape(program);
  if (rank < 0 || rank >= program.world_size()) {
    malformed(rank, fmt::format("rank {} is not in the program: it has ranks 0 to {}", rank, program.world_size() - 1));
  }
  check_list(program, checked_list(program, rank), rank);
}

}  // namespace weft
