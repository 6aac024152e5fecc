// OperatorObserver: shows the operators of this thread, and of autograd's threads that run its backwards, to two functions.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace at {
struct ObserverContext;
struct RecordFunction;
}  // namespace at

namespace weft {

/// Where the functions find what they add to, by kind of observer: LibTorch hands these slots on to autograd's threads, and
/// training has no other use for them.
inline constexpr auto kOperatorLog = c10::DebugInfoKind::MOBILE_RUNTIME_INFO;
inline constexpr auto kOperatorWatch = c10::DebugInfoKind::TEST_INFO_2;

class OperatorObserver {
 public:
  using Before = std::unique_ptr<at::ObserverContext> (*)(const at::RecordFunction& call);
  using After = void (*)(const at::RecordFunction& call, at::ObserverContext* context);

  /// Until it is destroyed, on the same thread.
  OperatorObserver(c10::DebugInfoKind slot, std::shared_ptr<c10::DebugInfoBase> seen, Before before, After after);
  ~OperatorObserver();
  OperatorObserver(const OperatorObserver&) = delete;
  OperatorObserver& operator=(const OperatorObserver&) = delete;

 private:
  c10::DebugInfoGuard guard_;
  uint64_t handle_;
};

/// What the observer of this thread's operators was given; null: there is none.
template <class Seen>
Seen* seen_by(c10::DebugInfoKind slot) {
  return static_cast<Seen*>(c10::ThreadLocalDebugInfo::get(slot));
}

}  // namespace weft
