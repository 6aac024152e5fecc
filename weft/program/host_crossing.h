// What crosses hosts of a collective that goes in two levels: every byte of a reduction or a gather leaves a host once for all
// of its ranks (comm/hosts/host_operations.h).
#pragma once

#include <cstdint>

#include "weft/program/instruction.h"

namespace weft {

/// Which part of the axis' whole a host sends in a collective.
enum class Way : uint8_t { all_reduce, reduce_scatter, all_gather };
inline constexpr int kNumWays = 3;  ///< of them

/// That of a collective.
Way way_of(Op op);

/// Bytes that are reduced or gathered among n ranks, of which a ring over all of them would send `wire_bytes` a rank.
double whole_bytes(Way way, int64_t wire_bytes, int ranks);

/// What crosses of a byte that does: half of one where sums of gradients in float32 cross in bfloat16 (`narrow`:
/// comm/hosts/wire.h). Those of up to 16 KiB, and what is gathered, cross as they are.
double wire_factor(bool narrow, Way way, double whole_bytes);

/// The share of them that a host with `here` of the n ranks sends to `hosts` - 1 others: of an all-reduce 2 (H-1)/H, of a
/// reduce-scatter (n-c)/n, of an all-gather c/n (H-1).
double crossing_share(Way way, int hosts, int ranks, int here);

}  // namespace weft
