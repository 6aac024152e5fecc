// Bars: what a drawing of time shows of each rank. Adjacent blocks of one stage that run on the same micro-batch, one right
// after the other, are one bar.
#pragma once

#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/timed.h"

namespace weft {

enum class BoxKind : uint8_t {
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
inline constexpr EnumNames<BoxKind, 10> kBoxKinds("forward", "recompute", "backward", "backward, input", "backward, weights",
                                                  "loss, update", "gather", "reduce", "transfer", "copy");
inline constexpr int kNumBoxKinds = 10;

inline std::string_view name(BoxKind kind) { return kBoxKinds.of(kind); }

struct Bar {
  BoxKind kind = BoxKind::forward;
  int chunk = 0;            ///< which of the rank's stages, in the order of blocks
  int micro = -1;           ///< micro-batch, -1 for those of none
  int first = 0, last = 0;  ///< blocks [first, last)
  double start_s = 0.0, end_s = 0.0;
  std::vector<double> edges_s = {};  ///< where a further block begins
};

struct BoxRow {
  int rank = 0;
  int alike = 1;             ///< ranks that the row stands for; `rank` is the first
  int pp = 0;                ///< its place on the pipeline axis
  int num_chunks = 1;        ///< stages that it runs
  std::vector<Bar> compute;  ///< in the order of time, without those that take none
  std::vector<Bar> side;     ///< beside it: gather to copy
};

/// A row for each rank of `timed`, in its order. Bars are joined across gaps of up to a fiftieth of a percent of the whole
/// time.
std::vector<BoxRow> box_rows(const Program& program, const std::vector<TimedInstruction>& timed);

}  // namespace weft
