// Bars: what a time drawing shows of each rank. Adjacent blocks of one stage that run one after another on the same micro-batch
// are one bar.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "weft/base/enum_names.h"
#include "weft/program/timed.h"

namespace weft {

/// Kind of a bar's work.
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
/// Names of kinds, as in legends.
inline constexpr EnumNames<BarKind, 10> kBarKinds("forward", "recompute", "backward", "backward, input", "backward, weights",
                                                  "loss, update", "gather", "reduce", "transfer", "copy");

/// Name of a kind.
inline std::string_view name(BarKind kind) { return kBarKinds.of(kind); }

/// An interval of a rank's work, as drawn.
struct Bar {
  BarKind kind = BarKind::forward;
  int chunk = 0;            ///< index among the rank's stages, in block order
  int micro = -1;           ///< micro-batch, or -1
  int first = 0, last = 0;  ///< blocks [first, last)
  double start_s = 0.0, end_s = 0.0;
  std::vector<double> edges_s = {};  ///< start of each block after the first
  int joined = 1;                    ///< bars that joined_bars() made it of; more: `kind` is the one with most of their time
};

/// Work of a class of identical ranks in a step.
struct BarRow {
  int rank = 0;
  int alike = 1;             ///< ranks that the row represents; `rank` is the first
  int pp = 0;                ///< place on the pipeline axis
  int num_chunks = 1;        ///< stages that it runs
  std::vector<Bar> compute;  ///< in time order, without zero-length bars
  std::vector<Bar> side;     ///< overlapping compute: gather to copy
};

/// Returns a row per rank of `timed`, in its order. Bars are joined across gaps of up to 0.02 % of the whole time.
std::vector<BarRow> bar_rows(const Program& program, const std::vector<TimedInstruction>& timed);

/// Joins neighbours shorter than `least_s` into bars of about that length, whatever their kinds; longer bars stay.
std::vector<Bar> joined_bars(std::vector<Bar> bars, double least_s);

/// Seconds of each kind, mean per rank.
std::array<double, kBarKinds.size()> seconds_by_kind(const std::vector<BarRow>& rows);

}  // namespace weft
