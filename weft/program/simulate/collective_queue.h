// CollectiveQueue: collectives under simulation. Each runs once all members of its axis have joined, in the order in which they
// issue collectives on it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "weft/program/simulate/instruction_ref.h"
#include "weft/program/simulate/network.h"

namespace weft {

/// Collectives that ranks have issued and that wait for other members.
class CollectiveQueue {
 public:
  struct Completed {
    std::vector<InstructionRef> members;
    Port port = Port::host;
    double begin_s = 0.0, end_s = 0.0;
  };

  /// All arguments must outlive the queue. It reads ranks and index_of_rank of the simulation.
  CollectiveQueue(const Program& program, Network& network, const Ranks& ranks, const Simulation& simulation);

  /// Returns the collective that can run now that `issued` has joined at `ready_s`, if any; it occupies each member's port, one
  /// collective per port at a time. Throws Error if `issued` differs from the collective of the members that joined before.
  std::optional<Completed> join(const InstructionRef& issued, double ready_s);

  /// Sides that have not joined the collective of `issued`.
  std::vector<int> missing(const InstructionRef& issued);

 private:
  struct Line {
    int number = 0;
    std::vector<int> sides;  // members
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
  std::map<std::pair<int, int>, Waiting> waiting_;              // by line number and number of earlier collectives
  std::vector<std::array<double, kNumPorts>> port_free_s_;      // by side
};

}  // namespace weft
