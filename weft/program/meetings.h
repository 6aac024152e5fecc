// Meetings: collectives under simulation. Each is held once all members of its axis have joined, in the order in which they
// issue collectives on it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/program/network.h"
#include "weft/program/simulate.h"

namespace weft {

/// An instruction of a simulated rank: indices into Simulation::ranks and into that rank's list.
struct Issued {
  int side = 0, index = 0;
};

/// "rank 3, instruction 12 (reduce of block 0 'h.0')", for errors.
std::string text(const Program& program, const Simulation& simulation, const Issued& issued);

class Meetings {
 public:
  struct Held {
    std::vector<Issued> members;
    double begin_s = 0.0, end_s = 0.0;
  };

  /// All must outlive it. Of the simulation, ranks and index_of_rank are read.
  Meetings(const Program& program, const Hardware& hardware, const Ranks& ranks, const Simulation& simulation);

  /// What is held as soon as `issued` has joined at `ready_s`: a collective takes each member's port, one at a time. Throws
  /// Error when it is another collective than the one that members who joined before wait for.
  std::optional<Held> join(const Issued& issued, double ready_s);

  /// The sides that have not joined the collective that `issued` waits in.
  std::vector<int> missing(const Issued& issued);

 private:
  struct Line {
    int number = 0;
    std::vector<int> sides;  // that meet on it
    Ring ring;
  };
  struct Meeting {
    double ready_s = 0.0;
    std::vector<Issued> members;
  };

  const Instruction& at(const Issued& issued) const;
  const Line& line_of(const Issued& issued);
  void check_same(const Issued& first, const Issued& other) const;
  Held hold(const Meeting& meeting, const Line& line);

  const Program& program_;
  const Ranks& ranks_;
  const Simulation& simulation_;
  Network network_;
  std::map<std::pair<AxisName, std::vector<int>>, int> line_numbers_;
  std::vector<std::map<std::pair<AxisName, int>, Line>> lines_;  // by side
  std::vector<std::map<int, int>> joined_;                       // by side: line number -> collectives joined
  std::map<std::pair<int, int>, Meeting> meetings_;              // by line number and how many came before it
  std::vector<std::array<double, kNumPorts>> port_free_s_;       // by side
};

}  // namespace weft
