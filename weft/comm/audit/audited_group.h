// audited: a group whose calls are checked while an audit is on (call_audit.h).
#pragma once

#include <memory>

#include "weft/comm/audit/call_audit.h"
#include "weft/comm/call/axis.h"
#include "weft/comm/group.h"

namespace weft {

/// Returns a group of the same ranks, `axis`, whose calls go through `group`, and are checked while `audit` is on. A group of
/// one, and one of tensors that are not on the CPU, is returned as it is.
Group audited(const Group& group, const Axis& axis, at::Device device, std::shared_ptr<CallAudit> audit);

}  // namespace weft
