#include "weft/nn/operators_path.h"

#include <utility>

namespace weft {

namespace {
thread_local bool operators_forced = false;
}  // namespace

bool forces_operators() { return operators_forced; }

ForcedOperators::ForcedOperators() : before_(std::exchange(operators_forced, true)) {}
ForcedOperators::~ForcedOperators() { operators_forced = before_; }

}  // namespace weft
