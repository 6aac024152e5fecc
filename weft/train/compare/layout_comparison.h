// LayoutComparison: result of training the same steps in a layout and on one device (compare/compare_layouts.h). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// How closely two trainings match.
enum class LayoutMatch : uint8_t {
  bit_identical,    ///< losses, norms and weights have the same bits
  within_rounding,  ///< they differ only as far as a changed order of sums explains
  different,        ///< they differ by more, or differ although the layout promises equal bits
};
/// Names of the verdicts.
inline constexpr EnumNames<LayoutMatch, 3> kLayoutMatches("bit-identical", "within rounding", "different");
/// Returns the name of a verdict.
inline std::string_view name(LayoutMatch match) { return kLayoutMatches.of(match); }

inline constexpr char kLoss[] = "loss";                   ///< Deviation::what: StepResult::loss
inline constexpr char kTargetCount[] = "target count";    ///< StepResult::count
inline constexpr char kGradientNorm[] = "gradient norm";  ///< StepResult::norm

/// A number or parameter that differs from one device.
struct Deviation {
  std::string what;        ///< one of the above, or the parameter's name
  int64_t step = 0;        ///< counted from 1, for weights after it; 0: initial values
  int64_t ulps = 0;        ///< parameters: largest element deviation in float32 units in the last place
  double relative = 0.0;   ///< largest element deviation relative to the largest element; 2 if one is not finite
  double changed = 0.0;    ///< parameters: largest change since the start on one device, relative to the largest element
  double allowed = 0.0;    ///< part of that explained by rounding; 0: none
  bool is_weight = false;  ///< a parameter or a statistic

  bool is_rounding() const { return allowed > 0.0 && relative <= allowed; }  ///< explained by rounding
};

/// A computation whose result varies between runs.
struct NotRepeated {
  std::string what = {};  ///< "block 'h.3'", "the data"; empty: none was found
  bool at_once = false;   ///< for a block: differs between two forwards in a row; otherwise between runs
};

/// A run with part of the layout switched off.
struct SwitchedOff {
  std::vector<std::string> names;              ///< parts switched off: "dp", "layout.recompute"
  LayoutMatch match = LayoutMatch::different;  ///< compared with the reference on one device
  std::string not_run;                         ///< why the run was not made; empty: it was
};

/// Result of a comparison.
struct LayoutComparison {
  std::string layout;                              ///< "pp 2 x dp 2"
  std::string against = "one device";              ///< reference of the deviations; rest_as if only that comparison failed
  int64_t steps = 0;                               ///< trained steps
  int64_t parameters = 0;                          ///< number compared, by name, including statistics
  LayoutMatch match = LayoutMatch::bit_identical;  ///< the verdict, on every rank; the rest is on rank 0
  bool exact = false;        ///< any differing bit counts: equal bits are promised (run.reproducible_slots) or requested
  bool may_promise = false;  ///< reproducible slots would promise equal bits
  std::vector<Deviation> deviations = {};  ///< by step, then loss, count, norm, parameters by name
  /// "tp 2": the sum-splitting parts that may round, if the rest of the layout was compared with them alone, bitwise; else
  /// empty.
  std::string rest_as = {};
  bool repeats = true;                   ///< the reference run repeats bit by bit; checked only if something differs
  NotRepeated not_repeated = {};         ///< what does not repeat, if forwards on one device show it
  std::vector<SwitchedOff> tried = {};   ///< if different: runs in search of the cause
  std::vector<std::string> causes = {};  ///< parts that cause the difference: switching off any one of them removes it
  bool together = false;                 ///< only switching off all `causes` removes it: the smallest such set found

  /// The first relevant deviation: beyond rounding if the verdict is different; null if the bits are equal.
  const Deviation* first() const;
  /// The parameter with the largest relative deviation; null if none deviates.
  const Deviation* largest() const;
};

}  // namespace weft
