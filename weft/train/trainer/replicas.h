// Compares what ranks hold copies of: in one small collective over the world if all of them agree, and then nothing more.
#pragma once

#include <vector>

#include "weft/train/trainer/audit_report.h"
#include "weft/train/trainer/state_digests.h"

namespace weft {

struct TrainerState;

/// Findings of all ranks: those that ranks give, `own`, and copies that differ; the same on every rank. `digests` are this
/// rank's of for_each_held(). A few numbers per rank; where copies differ, digests of all parts, and each differing tensor
/// once. Collective over the world.
std::vector<AuditFinding> compare_replicas(TrainerState& trainer, const std::vector<PartDigest>& digests,
                                           const std::vector<AuditFinding>& own);

}  // namespace weft
