#include "weft/base/operator_work.h"

#include <algorithm>

namespace weft {

double OperatorWork::flops() const {
  const double pairs = static_cast<double>(batch) * static_cast<double>(rows) * static_cast<double>(columns);
  if (kind == OperatorKind::product) return 2.0 * pairs * static_cast<double>(inner);
  if (kind == OperatorKind::memory) return 0.0;
  const double products = (is_causal ? 1.0 : 2.0) * (is_backward ? 2.5 : 1.0);  // backward: five for forward's two
  return 2.0 * products * pairs * static_cast<double>(heads) * static_cast<double>(inner);
}

void add_operator(PassOperators& operators, const OperatorWork& work) {
  const auto is_same = [&work](OperatorWork other) {
    other.count = work.count;
    return other == work;
  };
  const auto known = std::find_if(operators.begin(), operators.end(), is_same);
  if (known == operators.end()) {
    operators.push_back(work);
  } else {
    known->count += work.count;
  }
}

}  // namespace weft
