#include "weft/program/simulate/collective_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

// Pipeline ranks hold different blocks: on an axis that joins them, each names its own block.
bool same_blocks(const Instruction& x) { return !x.axes.has(kPipelineAxis) || tied_block(x) >= 0; }

}  // namespace

CollectiveQueue::CollectiveQueue(const Program& program, Network& network, const Ranks& ranks, const Simulation& simulation)
    : program_(program),
      ranks_(ranks),
      simulation_(simulation),
      network_(network),
      lines_(simulation.ranks.size()),
      joined_(simulation.ranks.size()),
      port_free_s_(simulation.ranks.size()) {}

const Instruction& CollectiveQueue::at(const InstructionRef& issued) const {
  return program_.of(simulation_.ranks[issued.side].rank)[issued.index];
}

// Computed once for all sides on the line: sides of one class meet the same classes.
const CollectiveQueue::Line& CollectiveQueue::line_of(const InstructionRef& issued) {
  const Instruction& x = at(issued);
  const std::pair key(x.axes, tied_block(x));
  const auto known = lines_[issued.side].find(key);
  if (known != lines_[issued.side].end()) return known->second;
  Line line;
  std::vector<bool> on_line(lines_.size(), false);
  for (int rank : ranks_.members(simulation_.ranks[issued.side].rank, x.axes, key.second)) {
    on_line[simulation_.index_of_rank[rank]] = true;
  }
  for (int side = 0; side < static_cast<int>(on_line.size()); ++side) {
    if (on_line[side]) line.sides.push_back(side);
  }
  if (!on_line[issued.side]) {
    throw Error(fmt::format("{}: this rank is not on the axis '{}' of the block", describe(program_, simulation_, issued),
                            name(x.axes)));
  }
  line.number = line_numbers_.try_emplace({x.axes, line.sides}, static_cast<int>(line_numbers_.size())).first->second;
  line.ring = network_.ring(x.axes, key.second);
  for (const int side : line.sides) lines_[side].try_emplace(key, line);
  return lines_[issued.side].at(key);
}

void CollectiveQueue::check_same(const InstructionRef& first, const InstructionRef& other) const {
  const Instruction& a = at(first);
  const Instruction& b = at(other);
  if (a.op == b.op && (!same_blocks(a) || (a.first == b.first && a.last == b.last))) return;
  throw Error(fmt::format("{} meets {} on axis '{}': all members of an axis must issue the same collectives in the same order",
                          describe(program_, simulation_, other), describe(program_, simulation_, first), name(a.axes)));
}

std::optional<CollectiveQueue::Completed> CollectiveQueue::join(const InstructionRef& issued, double ready_s) {
  const Line& line = line_of(issued);
  const auto key = std::make_pair(line.number, joined_[issued.side][line.number]++);
  Waiting& waiting = waiting_[key];
  if (!waiting.members.empty()) check_same(waiting.members[0], issued);
  waiting.members.push_back(issued);
  waiting.ready_s = std::max(waiting.ready_s, ready_s);
  if (waiting.members.size() < line.sides.size()) return {};
  const Completed completed = complete(waiting, line);
  waiting_.erase(key);
  return completed;
}

CollectiveQueue::Completed CollectiveQueue::complete(const Waiting& waiting, const Line& line) {
  Completed completed{.members = waiting.members, .port = line.ring.port, .begin_s = waiting.ready_s};
  const auto port = static_cast<size_t>(line.ring.port);
  // A rank alone on its axis moves nothing.
  if (line.ring.ranks > 1) {
    for (const InstructionRef& member : completed.members)
      completed.begin_s = std::max(completed.begin_s, port_free_s_[member.side][port]);
  }
  completed.end_s = completed.begin_s + line.ring.seconds(at(completed.members[0]));
  for (const InstructionRef& member : completed.members) port_free_s_[member.side][port] = completed.end_s;
  return completed;
}

std::vector<int> CollectiveQueue::missing(const InstructionRef& issued) {
  const Line& line = line_of(issued);
  for (const auto& [key, waiting] : waiting_) {
    const auto is_it = [&](const InstructionRef& member) { return member.side == issued.side && member.index == issued.index; };
    if (key.first != line.number || std::none_of(waiting.members.begin(), waiting.members.end(), is_it)) continue;
    std::vector<int> sides = line.sides;
    for (const InstructionRef& member : waiting.members) std::erase(sides, member.side);
    return sides;
  }
  return {};
}

}  // namespace weft
