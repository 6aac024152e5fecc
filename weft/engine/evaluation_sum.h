// EvaluationSum: sums the losses of an evaluation set without rounding, so their mean has the same bits in every layout.
//
// On a device results stay there until read(), so that the host does not wait for each. Traffic: two small all-reduces at the
// end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/base/exact_sum.h"
#include "weft/comm/group.h"
#include "weft/engine/engine.h"
#include "weft/nn/id_checks.h"

namespace weft {

/// Sums the losses of this rank's micro-batches, then of all ranks.
class EvaluationSum {
 public:
  /// Adds the result of micro-batch `place`, counted over all ranks; its loss is a sum, not divided by the count.
  void add(int64_t place, const LossValue& loss, const LossCount& hits, const LossCount& top5);
  /// The same for one whose numbers the host knows; `weight` is LossValue's, if it has one.
  void add(int64_t place, const EvaluationResult& sums, std::optional<double> weight = {});
  /// Copies what is on a device to the host, with the notes of `ids`: one wait.
  void read(IdChecks& ids);

  /// After read(), returns the result over all ranks of `group`, whose collectives run on `device`. Collective. Throws on all
  /// ranks: NumericError naming the first micro-batch whose loss is not finite or is 2^287 or more, InputError if no target
  /// counted.
  EvaluationResult total(const Group& group, at::Device device, int64_t steps_done);

 private:
  std::vector<int64_t> places_;     ///< of the micro-batches whose results are not read
  std::vector<at::Tensor> unread_;  ///< by such a micro-batch: loss, count, hits, top5, weight or none; [5] float64
  ExactSum above_, below_;          ///< non-negative losses, and magnitudes of negative ones
  ExactSum weight_;                 ///< of the micro-batches that have one
  int64_t weighted_ = 0;            ///< their number
  int64_t count_ = 0;
  int64_t hits_ = 0;
  int64_t top5_ = 0;
  int64_t first_bad_ = kNone;  ///< place of the first bad loss, and its kind

  static constexpr int64_t kNone = INT64_MAX;
};

}  // namespace weft
