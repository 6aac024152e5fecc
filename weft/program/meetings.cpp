#include "weft/program/meetings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

// Pipeline ranks hold different blocks: on an axis that joins them, each names its own.
bool same_blocks(AxisName axis) { return axis != AxisName::model && axis != AxisName::world; }

}  // namespace

std::string text(const Program& program, const Simulation& simulation, const Issued& issued) {
  const int rank = simulation.ranks[issued.side].rank;
  return fmt::format("rank {}, instruction {} ({})", rank, issued.index,
                     describe(program.of(rank)[issued.index], program.block_names));
}

Meetings::Meetings(const Program& program, const Hardware& hardware, const Ranks& ranks, const Simulation& simulation)
    : program_(program),
      ranks_(ranks),
      simulation_(simulation),
      network_(ranks, hardware),
      lines_(simulation.ranks.size()),
      joined_(simulation.ranks.size()),
      port_free_s_(simulation.ranks.size()) {}

const Instruction& Meetings::at(const Issued& issued) const {
  return program_.of(simulation_.ranks[issued.side].rank)[issued.index];
}

// Worked out once for all sides that are on it: those of one class meet the same classes.
const Meetings::Line& Meetings::line_of(const Issued& issued) {
  const Instruction& x = at(issued);
  const std::pair key(x.axis, x.axis == AxisName::tied ? x.first : 0);
  const auto known = lines_[issued.side].find(key);
  if (known != lines_[issued.side].end()) return known->second;
  Line line;
  std::vector<bool> on_line(lines_.size(), false);
  for (int rank : ranks_.members(simulation_.ranks[issued.side].rank, x.axis, key.second)) {
    on_line[simulation_.index_of_rank[rank]] = true;
  }
  for (int side = 0; side < static_cast<int>(on_line.size()); ++side) {
    if (on_line[side]) line.sides.push_back(side);
  }
  if (!on_line[issued.side]) {
    throw Error(
        fmt::format("{}: this rank is not on the axis '{}' of the block", text(program_, simulation_, issued), name(x.axis)));
  }
  line.number = line_numbers_.try_emplace({x.axis, line.sides}, static_cast<int>(line_numbers_.size())).first->second;
  line.ring = network_.ring(x.axis, key.second);
  for (const int side : line.sides) lines_[side].try_emplace(key, line);
  return lines_[issued.side].at(key);
}

void Meetings::check_same(const Issued& first, const Issued& other) const {
  const Instruction& a = at(first);
  const Instruction& b = at(other);
  if (a.op == b.op && (!same_blocks(a.axis) || (a.first == b.first && a.last == b.last))) return;
  throw Error(fmt::format("{} meets {} on axis '{}': all members of an axis must issue the same collectives in the same order",
                          text(program_, simulation_, other), text(program_, simulation_, first), name(a.axis)));
}

std::optional<Meetings::Held> Meetings::join(const Issued& issued, double ready_s) {
  const Line& line = line_of(issued);
  const auto key = std::make_pair(line.number, joined_[issued.side][line.number]++);
  Meeting& meeting = meetings_[key];
  if (!meeting.members.empty()) check_same(meeting.members[0], issued);
  meeting.members.push_back(issued);
  meeting.ready_s = std::max(meeting.ready_s, ready_s);
  if (meeting.members.size() < line.sides.size()) return {};
  const Held held = hold(meeting, line);
  meetings_.erase(key);
  return held;
}

Meetings::Held Meetings::hold(const Meeting& meeting, const Line& line) {
  Held held{.members = meeting.members, .begin_s = meeting.ready_s};
  const auto port = static_cast<size_t>(line.ring.port);
  // Alone on its axis a rank moves nothing.
  if (line.ring.ranks > 1) {
    for (const Issued& member : held.members) held.begin_s = std::max(held.begin_s, port_free_s_[member.side][port]);
  }
  held.end_s = held.begin_s + line.ring.seconds(at(held.members[0]));
  for (const Issued& member : held.members) port_free_s_[member.side][port] = held.end_s;
  return held;
}

std::vector<int> Meetings::missing(const Issued& issued) {
  const Line& line = line_of(issued);
  for (const auto& [key, meeting] : meetings_) {
    const auto is_it = [&](const Issued& member) { return member.side == issued.side && member.index == issued.index; };
    if (key.first != line.number || std::none_of(meeting.members.begin(), meeting.members.end(), is_it)) continue;
    std::vector<int> sides = line.sides;
    for (const Issued& member : meeting.members) std::erase(sides, member.side);
    return sides;
  }
  return {};
}

}  // namespace weft
