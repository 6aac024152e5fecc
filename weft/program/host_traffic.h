// Traffic of a step between hosts, with collectives in two levels: every byte of a reduction or gather leaves a host once, not
// once per rank (comm/two_level/host_operations.h).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/instruction.h"
#include "weft/program/program.h"

namespace weft {

/// Bytes that one host sends to others in a step, without network headers.
struct HostTraffic {
  int64_t gradients = 0;  ///< gradient reductions, and gradient gathers for updates
  int64_t weights = 0;    ///< weight gathers
  int64_t transfers = 0;  ///< activations and their gradients, to other stages
  int64_t losses = 0;     ///< losses and norms
  int64_t inner = 0;      ///< inside blocks and the loss
  /// Sum of all kinds.
  int64_t total() const { return gradients + weights + transfers + losses + inner; }
};

/// Traffic of each host, with `ranks_per_host` consecutive ranks per host (the last may have fewer). For n ranks of an axis on
/// H hosts, c of them on this host, an all-reduce of B bytes sends 2 B (H-1)/H, a reduce-scatter B (n-c)/n, an all-gather B c/n
/// (H-1). `narrow`: float32 gradient sums cross in bfloat16. Throws InputError for less than one rank per host.
std::vector<HostTraffic> host_traffic(const Program& program, int ranks_per_host, bool narrow = false);

/// Traffic of the host that sends most.
HostTraffic most_traffic(const std::vector<HostTraffic>& hosts);

/// Kinds of collectives, by how much a host sends.
enum class Way : uint8_t { all_reduce, reduce_scatter, all_gather };
inline constexpr int kNumWays = 3;  ///< number of kinds

/// Kind of a collective.
Way way_of(Op op);

/// Bytes reduced or gathered among n ranks, given the `wire_bytes` per rank of a ring over all of them.
double whole_bytes(Way way, int64_t wire_bytes, int ranks);

/// Wire bytes per crossing byte: one half if float32 gradient sums cross in bfloat16 (`narrow`: comm/two_level/wire.h),
/// otherwise one. Sums of up to 16 KiB, and gathers, cross unchanged.
double wire_factor(bool narrow, Way way, double whole_bytes);

/// Share of whole_bytes() that a host with `here` of the n ranks sends to `hosts` - 1 other hosts: all-reduce 2 (H-1)/H,
/// reduce-scatter (n-c)/n, all-gather c/n (H-1).
double crossing_share(Way way, int hosts, int ranks, int here);

}  // namespace weft
