#include "weft/program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "weft/program/list_check.h"
#include "weft/program/state_check.h"

namespace weft {
namespace {

[[noreturn]] void malformed(int rank, const std::string& text) {
  throw VerifyError(Defect::out_of_range, rank, fmt::format("program: {}", text));
}

void check_shape(const Program& program) {
  if (program.block_names.empty()) malformed(0, "no blocks");
  if (program.block_names.size() != program.block_numel.size()) {
    malformed(0, fmt::format("{} block names but {} block sizes", program.block_names.size(), program.block_numel.size()));
  }
  const auto fits = [&](const std::vector<int>& buffers) {
    return buffers.empty() || buffers.size() == program.block_names.size();
  };
  if (program.block_uses.size() != program.block_names.size() || !fits(program.weight_buffer) ||
      !fits(program.gradient_buffer)) {
    malformed(0, "what blocks use, or their buffers, is not told for every block");
  }
  if (program.list_of_rank.empty()) malformed(0, "no ranks");
  if (program.micro_batches < 1 || program.slots < 1 || program.replicas < 1) {
    malformed(0, fmt::format("{} micro-batches, {} slots, {} replicas: each must be at least 1", program.micro_batches,
                             program.slots, program.replicas));
  }
  if (program.micro_batches % program.slots != 0) {
    malformed(0, fmt::format("{} slots do not divide {} micro-batches", program.slots, program.micro_batches));
  }
  for (int rank = 0; rank < program.world_size(); ++rank) {
    const int list = program.list_of_rank[rank];
    if (list < 0 || list >= static_cast<int>(program.lists.size())) {
      malformed(rank, fmt::format("rank {} runs list {}, but there are {} lists", rank, list, program.lists.size()));
    }
  }
}

// The first rank of each list, -1 for lists that nobody runs.
std::vector<int> first_ranks(const Program& program) {
  std::vector<int> ranks(program.lists.size(), -1);
  for (int rank = program.world_size() - 1; rank >= 0; --rank) ranks[program.list_of_rank[rank]] = rank;
  return ranks;
}

std::vector<int> collectives(const InstructionList& list) {
  std::vector<int> result;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    if (is_collective(list[i])) result.push_back(i);
  }
  return result;
}

std::string collective_text(const Program& program, int rank, const std::vector<int>& issued, size_t k) {
  if (k >= issued.size()) return fmt::format("rank {} issues none", rank);
  const std::string what = describe(program.of(rank)[issued[k]], program.block_names);
  return fmt::format("rank {} issues {} (instruction {})", rank, what, issued[k]);
}

void compare_collectives(const Program& program, int rank, int other) {
  const std::vector<int> ours = collectives(program.of(rank));
  const std::vector<int> theirs = collectives(program.of(other));
  for (size_t k = 0; k < std::max(ours.size(), theirs.size()); ++k) {
    if (k < ours.size() && k < theirs.size()) {
      const Instruction& a = program.of(rank)[ours[k]];
      const Instruction& b = program.of(other)[theirs[k]];
      if (a.op == b.op && a.first == b.first && a.last == b.last && a.axis == b.axis) continue;
    }
    throw VerifyError(Defect::order_mismatch, other,
                      fmt::format("collective {} of the step differs between ranks: {}, {}; all ranks must issue the same "
                                  "collectives in the same order",
                                  k, collective_text(program, rank, ours, k), collective_text(program, other, theirs, k)));
  }
}

}  // namespace

std::string_view name(Defect defect) {
  switch (defect) {
    case Defect::out_of_range:
      return "out_of_range";
    case Defect::bad_wait:
      return "bad_wait";
    case Defect::repeated:
      return "repeated";
    case Defect::use_before_load:
      return "use_before_load";
    case Defect::backward_before_loss:
      return "backward_before_loss";
    case Defect::double_backward:
      return "double_backward";
    case Defect::missing_recompute:
      return "missing_recompute";
    case Defect::missing_backward:
      return "missing_backward";
    case Defect::bad_combine:
      return "bad_combine";
    case Defect::missing_reduce:
      return "missing_reduce";
    case Defect::double_reduce:
      return "double_reduce";
    case Defect::early_reduce:
      return "early_reduce";
    case Defect::early_norm:
      return "early_norm";
    case Defect::missing_update:
      return "missing_update";
    case Defect::double_update:
      return "double_update";
    case Defect::early_update:
      return "early_update";
    case Defect::not_gathered:
      return "not_gathered";
    case Defect::bad_gather:
      return "bad_gather";
    case Defect::buffer_conflict:
      return "buffer_conflict";
    case Defect::bad_move:
      return "bad_move";
    case Defect::order_mismatch:
      return "order_mismatch";
  }
  return "unknown";
}

void verify(const Program& program) {
  check_shape(program);
  int reference = -1;
  for (int rank : first_ranks(program)) {
    if (rank < 0) continue;
    check_list(program, rank);
    check_state(program, rank);
    if (reference < 0) reference = rank;
    compare_collectives(program, reference, rank);
  }
}

}  // namespace weft
