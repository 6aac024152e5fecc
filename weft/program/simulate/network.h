// Network: times of a program's collectives and transfers on its hardware.
//
// Collectives are rings (Patarasuk and Yuan 2009): an all-reduce among n takes 2 (n - 1) rounds, an all-gather or
// reduce-scatter n - 1, each with the link's latency, and every rank sends Instruction::wire_bytes in total. A ring inside one
// host uses the fast link. One across hosts uses as many network ports of a host as it has members there, and is no faster than
// the fast link. With Hardware::collectives, latency and rate of a ring depend on its bytes and hosts instead of its rounds
// (priced_seconds()). An axis is as slow as the slowest of its lines, so that copies of a pipeline stay identical. With
// Hardware::two_levels, a collective across hosts first reduces inside each host, then sends every byte once per host
// (program/host_traffic.h), in one round each way, and distributes the result inside the host.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "weft/program/host_traffic.h"
#include "weft/program/ranks.h"
#include "weft/program/simulate/hardware.h"

namespace weft {

/// The port of a rank that a collective uses, one collective at a time.
enum class Port : uint8_t { host, network };
inline constexpr int kNumPorts = 2;

struct Ring {
  int ranks = 1;
  Port port = Port::host;
  Link link = {};  ///< from each rank to the next; two levels: from each rank to other hosts
  double seconds(const Instruction& collective) const;
  /// Time of a call inside a block.
  double seconds(const InnerCall& call) const;

  bool two_levels = false;
  bool narrow = false;                         ///< two levels: gradient sums cross in half the bytes
  std::array<double, kNumWays> crossing = {};  ///< two levels: share of all bytes that a port to other hosts sends, by Way
  Link inside = {};                            ///< two levels: between ranks of a host
  int on_host = 1;                             ///< the most ranks on a host
  int hosts = 1;                               ///< number of hosts
  const SoftwareCosts* software = nullptr;     ///< other software's; null: weft's
  const CollectiveCosts* costs = nullptr;      ///< null: rounds and bytes alone

 private:
  /// A gather or reduce-scatter of other software's.
  double software_seconds(Op op, double wire_bytes) const;
  /// Time of a ring with `costs` in which each rank sends `wire_bytes`.
  double priced_seconds(bool is_all_reduce, double wire_bytes) const;
  double two_level_seconds(Way way, int64_t wire_bytes, bool gradients) const;
};

/// Links of the hardware that a program uses.
struct LinksUsed {
  bool intra_host = false;
  bool inter_host = false;
  bool offload = false;
};

/// Returns the links that a program uses with hardware.ranks_per_host ranks per host.
LinksUsed links_used(const Program& program, const Hardware& hardware);

class Network {
 public:
  /// Both arguments must outlive the network.
  Network(const Ranks& ranks, const Hardware& hardware) : ranks_(ranks), hardware_(hardware) {}

  /// Returns the ring along these axes; `block` as for Ranks::members(). Throws InputError for a link unknown to the hardware.
  const Ring& ring(AxisSet axes, int block = -1);

  /// Time of a pass with these calls, where its operations take `alone` without them: a call overlaps the work before its wait
  /// (if the hardware overlaps), which takes longer for it, one call after another. Throws as ring() does.
  double seconds(const std::vector<InnerCall>& calls, double flops, double alone);
  /// Time of an instruction with its calls, which takes `alone` without them. Tensor-parallel calls of other software are those
  /// of forward, as often as the pass runs them and as far as they are not hidden.
  double seconds(const Program& program, const Instruction& pass, double alone);

  /// Port of a message between two pipeline ranks: network if it leaves a host, for some column at least.
  Port port(int from_pp, int to_pp) const;
  /// Link of a message between two pipeline ranks. Throws InputError for a link unknown to the hardware.
  const Link& link(int from_pp, int to_pp);

  /// What crosses a link.
  struct Crossing {
    double bytes = 0.0;
    Link link = {};
  };
  /// A message of each rank of tp. If all send the same, other software may send parts (SoftwareCosts::split_messages).
  Crossing split(double bytes, const Link& link, bool all_same);

  /// Links used by the rings and links requested so far.
  const LinksUsed& used() const { return used_; }

  /// True if a collective or a transfer through this port overlaps compute.
  bool overlaps_compute(Port port) const { return hardware_.overlap || (hardware_.two_levels && port == Port::network); }

 private:
  double exposed_seconds(const std::vector<InnerCall>& forward, Op pass, bool sequence_parallel);
  void add_line(Ring& ring, const std::vector<int>& members, AxisSet axes);
  void add_levels(Ring& ring, const std::vector<int>& on_host) const;
  Link shared_by_turns(Link link, AxisSet axes) const;
  int host_of(int rank) const { return rank / hardware_.ranks_per_host; }

  const Ranks& ranks_;
  const Hardware& hardware_;
  LinksUsed used_;
  std::map<std::pair<AxisSet, int>, Ring> rings_;
};

}  // namespace weft
