// CollectiveQueue: collectives under simulation. Each runs once all members of its axis have joined, in the order in which
// they issue collectives on it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "weft/program/simulate/instruction_ref.h"
#include "weft/program/simulate/network.h"

namespace weft {

/// The collectives that ranks have issued and that wait for others.
class CollectiveQueue {
 public:
  struct Completed {
    std::vector<InstructionRef> members;
    double begin_s = 0.0, end_s = 0.0;
  };

  /// All must outlive it. It reads ranks and index_of_rank of the simulation.
  CollectiveQueue(const Program& program, Network& network, const Ranks& ranks, const Simulation& simulation);

  /// The collective that runs as soon as `issued` has joined at `ready_s`, if one does: it takes each member's port, one at a
  /// time. Throws Error when `issued` is another collective than the one that members who joined before wait for.
  std::optional<Completed> join(const InstructionRef& issued, double ready_s);

  /// The sides that have not joined the collective that `issued` waits in.
  std::vector<int> missing(const InstructionRef& issued);

 private:
  struct Line {
    int number = 0;
    std::vector<int> sides;  // that meet on it
    Ring ring;
  };
  struct Waiting {
    double ready_s = 0.0;
    std::vector<InstructionRef> members;
  };

  const Instruction& at(const InstructionRef& issued) const;
  const Line& line_of(const InstructionRef& issued);
  void check_same(const InstructionRef& first, const InstructionRef& other) const;
  Completed complete(const Waiting& waiting, const Line& line);

  const Program& program_;
  const Ranks& ranks_;
  const Simulation& simulation_;
  Network& network_;
  std::map<std::pair<AxisSet, std::vector<int>>, int> line_numbers_;
  std::vector<std::map<std::pair<AxisSet, int>, Line>> lines_;  // by side
  std::vector<std::map<int, int>> joined_;                      // by side: line number -> collectives joined
  std::map<std::pair<int, int>, Waiting> waiting_;              // by line number and how many came before it
  std::vector<std::array<double, kNumPorts>> port_free_s_;      // by side
};

}  // namespace weft
