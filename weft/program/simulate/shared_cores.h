// SharedCores: when compute ends on hosts whose ranks want more cores than there are.
//
// Threads that compute share the cores of their host evenly, as under the scheduler of an operating system: with c cores and n
// threads that want one, each runs at min(1, c / n) of its speed. A rank that waits for another in its host sleeps and wants
// none; one whose traffic with other hosts is under way wants HostCores::network_share for the thread that moves it. Ranks that
// are alike compute alike, so one simulated rank stands for as many as it has on each host.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "weft/program/simulate/hardware.h"
#include "weft/program/simulate/instruction_ref.h"
#include "weft/program/simulate/simulation.h"

namespace weft {

/// Compute under way on the simulated ranks ("sides"), at most one instruction on each, in simulated time.
class SharedCores {
 public:
  /// Of the simulation's ranks; keeps no reference.
  SharedCores(const Hardware& hardware, const Simulation& simulation, int world_size);

  /// False if every thread has a core at any time: nothing needs to be added.
  bool are_short() const { return are_short_; }

  /// Adds compute that takes `seconds` on cores of its own, from `now_s`, which is not before that of an earlier call.
  void add(const InstructionRef& x, double now_s, double seconds);
  /// Traffic with other hosts is under way on a side.
  void add_traffic(int side, double begin_s, double end_s);

  /// The end of compute.
  struct End {
    InstructionRef x;
    double time_s;
    double longer_s;  ///< than on cores of its own
  };
  /// Removes the compute that ends first, and returns its end, unless something else happens at `next_s`, before that.
  std::optional<End> take_first(double next_s);

 private:
  struct Traffic {
    size_t side;
    double begin_s, end_s;
  };
  using Left = std::vector<std::optional<double>>;  // by side: still to compute at full speed

  std::optional<End> first_end() const;
  void advance(double now_s);
  std::vector<double> speeds(const Left& left, double now_s) const;
  double next_change(double now_s) const;

  std::vector<std::vector<double>> ranks_;  // by side and host
  double cores_, threads_, network_share_;
  bool are_short_ = false;
  double now_s_ = 0.0;
  Left left_s_;
  std::vector<InstructionRef> running_;  // by side
  std::vector<double> alone_end_s_;      // by side: on cores of its own
  std::vector<Traffic> traffic_;
};

}  // namespace weft
