// make_audit: the audit of a trainer's steps (audit.h).
#pragma once

#include <memory>

#include "weft/train/trainer/audit.h"

namespace weft {

struct TrainerState;

/// `trainer` must outlive it.
std::unique_ptr<Audit> make_audit(TrainerState& trainer);

}  // namespace weft
