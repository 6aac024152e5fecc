#include "weft/program/verify.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "weft/program/bytes_check.h"
#include "weft/program/list_check.h"
#include "weft/program/rank_check.h"
#include "weft/program/state_check.h"
#include "weft/program/transfer_check.h"

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
  const auto fits_all = [&](const auto& by_block) { return by_block.size() == program.block_names.size(); };
  const auto fits = [&](const auto& by_block) { return by_block.empty() || fits_all(by_block); };
  const bool all_held = program.mesh.pp == 1 && program.holders.empty();
  if (program.block_uses.size() != program.block_names.size() || !(all_held || fits_all(program.holders))) {
    malformed(0, "what blocks use, or who holds them, is not told for every block");
  }
  if (program.buffers.size() != program.lists.size()) malformed(0, "buffers are not told for every list");
  for (const Buffers& buffers : program.buffers) {
    if (!fits(buffers.weight) || !fits(buffers.gradient)) malformed(0, "buffers are not told for every block");
  }
  if (program.list_of_rank.empty()) malformed(0, "no ranks");
  if (program.mesh.world() != program.world_size()) {
    malformed(0, fmt::format("its mesh has {} ranks, but {} have a list", program.mesh.world(), program.world_size()));
  }
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

// The ranks along the pipeline axis, for each different line.
std::vector<std::vector<int>> pipelines(const Program& program) {
  const int stride = program.world_size() / program.mesh.pp;
  std::vector<std::vector<int>> result;
  std::set<std::vector<int>> seen;
  for (int first = 0; first < stride; ++first) {
    std::vector<int> ranks, lists;
    for (int place = 0; place < program.mesh.pp; ++place) {
      ranks.push_back(place * stride + first);
      lists.push_back(program.list_of_rank[ranks.back()]);
    }
    if (seen.insert(lists).second) result.push_back(std::move(ranks));
  }
  return result;
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
    case Defect::bad_order:
      return "bad_order";
    case Defect::missing_forward:
      return "missing_forward";
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
    case Defect::wrong_axis:
      return "wrong_axis";
    case Defect::missing_norm:
      return "missing_norm";
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
    case Defect::bad_bytes:
      return "bad_bytes";
    case Defect::order_mismatch:
      return "order_mismatch";
    case Defect::misplaced_block:
      return "misplaced_block";
    case Defect::missing_send:
      return "missing_send";
    case Defect::pending_send:
      return "pending_send";
    case Defect::transfer_mismatch:
      return "transfer_mismatch";
    case Defect::deadlock:
      return "deadlock";
  }
  return "unknown";
}

void verify(const Program& program) {
  check_shape(program);
  const std::vector<int> firsts = first_ranks(program);
  for (const int rank : firsts) {
    if (rank < 0) continue;
    check_list(program, rank);
    check_state(program, rank);
  }
  check_ranks(program);
  for (const std::vector<int>& ranks : pipelines(program)) check_transfers(program, ranks);
  for (const int rank : firsts) {
    if (rank >= 0) check_bytes(program, rank);
  }
}

}  // namespace weft
