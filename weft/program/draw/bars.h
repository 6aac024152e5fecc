// Bars: what a drawing of time shows of each rank. Adjacent blocks of one stage that run on the same micro-batch, one right
// after the other, are one bar.
#pragma once

#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/timed.h"

namespace weft {

/// What a bar is of.
enum class BarKind : uint8_t {
  forward,
  recompute,
  backward,  ///< whole
  backward_input,
  backward_weight,
  other,  ///< loss, combine, norm, update
  gather,
  reduce,  ///< gradients and losses
  transfer,
  copy,
};
/// The words for kinds, as legends have them.
inline constexpr EnumNames<BarKind, 10> kBarKinds("forward", "recompute", "backward", "backward, input", "backward, weights",
                                                  "loss, update", "gather", "reduce", "transfer", "copy");

/// The word for a kind.
inline std::string_view name(BarKind kind) { return kBarKinds.of(kind); }

/// What a rank does for some time, as a drawing shows it.
struct Bar {
  BarKind kind = BarKind::forward;
  int chunk = 0;            ///< which of the rank's stages, in the order of blocks
  int micro = -1;           ///< micro-batch, -1 for those of none
  int first = 0, last = 0;  ///< blocks [first, last)
  double start_s = 0.0, end_s = 0.0;
  std::vector<double> edges_s = {};  ///< where a further block begins
};

/// What ranks that do alike do in a step.
struct BarRow {
  int rank = 0;
  int alike = 1;             ///< ranks that the row stands for; `rank` is the first
  int pp = 0;                ///< its place on the pipeline axis
  int num_chunks = 1;        ///< stages that it runs
  std::vector<Bar> compute;  ///< in the order of time, without those that take none
  std::vector<Bar> side;     ///< beside it: gather to copy
};

/// A row for each rank of `timed`, in its order. Bars are joined across gaps of up to a fiftieth of a percent of the whole
/// time.
std::vector<BarRow> bar_rows(const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
