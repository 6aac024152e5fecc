// Network: how long collectives and transfers of a program take on its hardware.
//
// Collectives are rings (Patarasuk and Yuan 2009): an all-reduce among n takes 2 (n - 1) rounds, an all-gather or
// reduce-scatter n - 1, each with the link's latency, and every rank sends Instruction::wire_bytes in all of them. A ring
// inside one host uses the fast link. One that leaves it goes through as many network ports of a host as it has members there,
// and no faster than the fast link. An axis is as slow as the slowest of its lines, so that copies of a pipeline stay copies.
// With Hardware::two_levels one that leaves a host first adds up inside it, sends every byte once for the host
// (program/host_traffic.h), in one round each way, and shares out inside it.
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

/// Which of a rank's ports a collective takes: one at a time goes through each.
enum class Port : uint8_t { host, network };
inline constexpr int kNumPorts = 2;

struct Ring {
  int ranks = 1;
  Port port = Port::host;
  Link link = {};  ///< of each rank to the next; in two levels of each to other hosts
  double seconds(const Instruction& collective) const;
  /// Of a call inside a block.
  double seconds(const InnerCall& call) const;

  bool two_levels = false;
  bool narrow = false;                         ///< two levels: sums of gradients cross in half the bytes
  std::array<double, kNumWays> crossing = {};  ///< two levels: what a port to other hosts sends, of all bytes, by Way
  Link inside = {};                            ///< two levels: between ranks of a host
  int on_host = 1;                             ///< two levels: the most ranks on a host

 private:
  double two_level_seconds(Way way, int64_t wire_bytes, bool gradients) const;
};

/// Which links of the hardware a program uses.
struct LinksUsed {
  bool intra_host = false;
  bool inter_host = false;
  bool offload = false;
};

/// The links that a program uses where a host has hardware.ranks_per_host ranks.
LinksUsed links_used(const Program& program, const Hardware& hardware);

class Network {
 public:
  /// Both must outlive it.
  Network(const Ranks& ranks, const Hardware& hardware) : ranks_(ranks), hardware_(hardware) {}

  /// The ring along these axes; `block` as for Ranks::members(). Throws InputError for a link that the hardware does not tell.
  const Ring& ring(AxisSet axes, int block = -1);

  /// How long a pass takes that makes these calls, and that would take `alone` without them for its operations: a call goes its
  /// way beside what is computed until it is awaited (where the hardware overlaps), one call at a time. Throws as ring() does.
  double seconds(const std::vector<InnerCall>& calls, double flops, double alone);

  /// The port of a message between two pipeline ranks: network where it leaves a host, for some column at least.
  Port port(int from_pp, int to_pp) const;
  /// Its link. Throws InputError for one that the hardware does not tell.
  const Link& link(int from_pp, int to_pp);

  /// The links that the rings and links asked for so far use.
  const LinksUsed& used() const { return used_; }

  /// Whether a collective or a transfer along these ports runs beside compute.
  bool is_beside(Port port) const { return hardware_.overlap || (hardware_.two_levels && port == Port::network); }

 private:
  void add_line(Ring& ring, const std::vector<int>& members, AxisSet axes);
  void add_levels(Ring& ring, const std::vector<int>& on_host) const;
  int host_of(int rank) const { return rank / hardware_.ranks_per_host; }

  const Ranks& ranks_;
  const Hardware& hardware_;
  LinksUsed used_;
  std::map<std::pair<AxisSet, int>, Ring> rings_;
};

}  // namespace weft
