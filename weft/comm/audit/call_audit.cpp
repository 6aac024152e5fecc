#include "weft/comm/audit/call_audit.h"

#include "weft/base/hash.h"

namespace weft {

void CallAudit::begin(int64_t step) {
  step_ = step;
  is_on_ = true;
}

std::vector<int64_t> CallAudit::chosen(int64_t numel, int64_t count, uint64_t call) const {
  std::vector<int64_t> elements;
  uint64_t key = splitmix64(splitmix64(seed_ ^ static_cast<uint64_t>(step_)) ^ call);
  for (int64_t i = 0; i < count && numel > 0; ++i) {
    key = splitmix64(key);
    elements.push_back(static_cast<int64_t>(key % static_cast<uint64_t>(numel)));
  }
  return elements;
}

}  // namespace weft
