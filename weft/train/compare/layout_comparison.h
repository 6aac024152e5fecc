// LayoutComparison: what came of training the same steps in a layout and on one device (run/compare_layouts.h). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// How like two trainings are.
enum class Likeness : uint8_t {
  bit_identical,    ///< losses, norms and weights have the same bits
  within_rounding,  ///< they differ as sums in another order do, which this layout may
  different,        ///< they differ by more, or at all where the layout promises the same bits
};
/// The words for it.
inline constexpr EnumNames<Likeness, 3> kLikenesses("bit-identical", "within rounding", "different");
/// The word for it.
inline std::string_view name(Likeness likeness) { return kLikenesses.of(likeness); }

inline constexpr char kLoss[] = "loss";                   ///< Deviation::what: StepResult::loss
inline constexpr char kTargetCount[] = "target count";    ///< StepResult::count
inline constexpr char kGradientNorm[] = "gradient norm";  ///< StepResult::norm

/// A number, or a parameter, that is not what it is on one device.
struct Deviation {
  std::string what;        ///< one of those, or the parameter's name
  int64_t step = 0;        ///< counted from 1: weights are those after it; 0: the first values
  int64_t ulps = 0;        ///< parameters: most units in the last place of float32 that an element is off
  double relative = 0.0;   ///< most that an element is off, over the largest element; 2 where one is not a number
  double changed = 0.0;    ///< parameters: most that an element has changed since the start on one device, over the largest
  double allowed = 0.0;    ///< what of that counts as rounding; 0: nothing
  bool is_weight = false;  ///< a parameter, or a statistic

  bool is_rounding() const { return allowed > 0.0 && relative <= allowed; }  ///< not more than that
};

/// What computes something else the second time.
struct NotRepeated {
  std::string what = {};  ///< "block 'h.3'", "the data"; empty: nothing was found
  bool at_once = false;   ///< of a block: a second forward in the same place; otherwise one in a second run
};

/// A run with something of the layout switched off.
struct SwitchedOff {
  std::vector<std::string> names;           ///< what was off: "dp", "layout.recompute"
  Likeness likeness = Likeness::different;  ///< to the reference, the one device
  std::string not_run;                      ///< why there was no such run; empty: there was
};

/// What came of a comparison.
struct LayoutComparison {
  std::string layout;                           ///< "pp 2 x dp 2"
  std::string against = "one device";           ///< what the deviations are from; or rest_as, where all is well but for that
  int64_t steps = 0;                            ///< trained
  int64_t parameters = 0;                       ///< that were compared, by name: statistics too
  Likeness likeness = Likeness::bit_identical;  ///< the verdict; known on every rank, the rest on rank 0
  bool exact = false;  ///< any other bit counts: the layout promises the same (run.reproducible_slots), or so it was asked
  bool may_promise = false;                ///< with reproducible slots it would
  std::vector<Deviation> deviations = {};  ///< in order: by step, then loss, count, norm, parameters by name
  /// "tp 2": what splits sums and may round, where the rest of the layout was compared with that alone, to the bit; else empty.
  std::string rest_as = {};
  bool repeats =
      true;  ///< the run that all are compared with gives the same bits a second time; looked at where something differs
  NotRepeated not_repeated = {};         ///< why not, where forwards on one device tell
  std::vector<SwitchedOff> tried = {};   ///< where it is different: runs that look for the cause
  std::vector<std::string> causes = {};  ///< what makes the difference: each of these alone, or
  bool together = false;                 ///< all of them together: the smallest such set that was found

  /// The first that tells: beyond rounding where the verdict is different; null where the bits are the same.
  const Deviation* first() const;
  /// The largest, relative to what it should be, of parameters; null where none deviates.
  const Deviation* largest() const;
};

}  // namespace weft
