#include "weft/engine/operator_observer.h"

#include <ATen/record_function.h>

#include <utility>

namespace weft {

OperatorObserver::OperatorObserver(c10::DebugInfoKind slot, std::shared_ptr<c10::DebugInfoBase> seen, Before before,
                                   After after)
    : guard_(slot, std::move(seen)),
      handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(before, after)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}

OperatorObserver::~OperatorObserver() { at::removeCallback(handle_); }

}  // namespace weft
