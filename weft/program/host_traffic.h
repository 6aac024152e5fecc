// What a step sends from host to host, where collectives go in two levels: every byte of a reduction or a gather leaves a host
// once for all of its ranks (comm/two_level/host_operations.h).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/instruction.h"
#include "weft/program/program.h"

namespace weft {

/// Bytes that one host sends to others in a step, without headers of the network's.
struct HostTraffic {
  int64_t gradients = 0;  ///< to reduce them, and to gather them for updates
  int64_t weights = 0;    ///< to gather them
  int64_t transfers = 0;  ///< activations and their gradients, to other stages
  int64_t losses = 0;     ///< norms too
  int64_t inner = 0;      ///< inside blocks and the loss
  /// All of them.
  int64_t total() const { return gradients + weights + transfers + losses + inner; }
};

/// The traffic of each host, where neighbours by rank share one, `ranks_per_host` of them (the last may have fewer). Of n ranks
/// of an axis on H hosts, c of them on this one, an all-reduce of B bytes sends 2 B (H-1)/H, a reduce-scatter B (n-c)/n, an
/// all-gather B c/n (H-1). `narrow`: sums of gradients in float32 cross in bfloat16. Throws InputError for less than one rank a
/// host.
std::vector<HostTraffic> host_traffic(const Program& program, int ranks_per_host, bool narrow = false);

/// The host that sends most.
HostTraffic most_traffic(const std::vector<HostTraffic>& hosts);

/// Which part of the axis' whole a host sends in a collective.
enum class Way : uint8_t { all_reduce, reduce_scatter, all_gather };
inline constexpr int kNumWays = 3;  ///< of them

/// That of a collective.
Way way_of(Op op);

/// Bytes that are reduced or gathered among n ranks, of which a ring over all of them would send `wire_bytes` a rank.
double whole_bytes(Way way, int64_t wire_bytes, int ranks);

/// What crosses of a byte that does: half of one where sums of gradients in float32 cross in bfloat16 (`narrow`:
/// comm/two_level/wire.h). Those of up to 16 KiB, and what is gathered, cross as they are.
double wire_factor(bool narrow, Way way, double whole_bytes);

/// The share of them that a host with `here` of the n ranks sends to `hosts` - 1 others: of an all-reduce 2 (H-1)/H, of a
/// reduce-scatter (n-c)/n, of an all-gather c/n (H-1).
double crossing_share(Way way, int hosts, int ranks, int here);

}  // namespace weft
