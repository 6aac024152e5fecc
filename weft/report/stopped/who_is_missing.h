// Who did not come to what: the merged line of a run that hung, from its ranks' evidence. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/report/stopped/rank_evidence.h"

namespace weft {

/// Evidence of a run's ranks, by rank; some may be missing.
using Evidence = std::vector<RankEvidence>;

/// The evidence of a rank; null: there is none.
const RankEvidence* evidence_of(const Evidence& all, int rank);

/// A call that some ranks of a group have not come to, or where their calls differ.
struct MissedCall {
  std::string axis = {};
  std::vector<int> ranks = {};  ///< of the group
  CallEvidence call = {};
  std::vector<int> waiting = {};
  std::vector<int> missing = {};  ///< of those with evidence, and the culprit
  double waited_s = 0.0;          ///< the longest
};

struct HangVerdict {
  int culprit = -1;  ///< -1: none; calls do not match, or data is late
  std::optional<MissedCall> call = {};
  std::string text = {};  ///< one line
};

/// Returns the verdict: the culprit is the one that the first error names, or, without an error, the one that most ranks wait
/// for and that waits for none. Throws nothing; without evidence the text is empty.
HangVerdict who_is_missing(const Evidence& all);

/// Where a rank is, as the verdict's text ends: "it is in forward of block 'layers.2', micro-batch 1, step 3, in f()".
std::string state_text(const Evidence& all, int rank);

/// A group in which ranks' last calls differ.
struct DifferingCalls {
  std::string axis = {};
  std::vector<int> ranks = {};
  /// By rank of the group: its last collective, and where it stands in it; number 0: it has no evidence, or made none.
  std::vector<CallEvidence> last = {};
};
std::vector<DifferingCalls> differing_calls(const Evidence& all);

}  // namespace weft
