#include "weft/engine/operator_log.h"

#include <ATen/record_function.h>

#include <mutex>
#include <utility>

#include "weft/engine/time_marks.h"
#include "weft/nn/cost/launched_work.h"
#include "weft/nn/cost/launches.h"

namespace weft {

namespace {

constexpr double kShortest_s = 1e-6;  // of calls that are no kernels

}  // namespace

struct OperatorLog::Watch : c10::DebugInfoBase {
  struct Entry {
    MeasuredOperator call;
    int start = 0, end = 0;  ///< marks
  };
  explicit Watch(c10::Device device) : marks(device), is_cpu(device.is_cpu()) {}

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& call);
  static void after(const at::RecordFunction& call, at::ObserverContext* context);

  std::mutex mutex;  ///< a device's backward has a thread of its own, beside the CPU's
  TimeMarks marks;
  bool is_cpu;
  int running = 0;  ///< kernels that run now, with what they call
  std::vector<Entry> entries;
};

namespace {

struct Running : at::ObserverContext {
  bool is_launch = false, is_kernel = false;
  PassOperators work;
  int start = 0;
};

}  // namespace

std::unique_ptr<at::ObserverContext> OperatorLog::Watch::before(const at::RecordFunction& call) {
  auto* watch = seen_by<Watch>(kOperatorLog);
  if (!watch) return nullptr;
  const std::lock_guard lock(watch->mutex);
  auto running = std::make_unique<Running>();
  running->is_launch = !launch_of(call).empty();
  if (running->is_launch) {
    running->is_kernel = watch->running++ == 0;
    if (running->is_kernel) running->work = work_before(call);
  } else if (!watch->is_cpu) {
    return nullptr;  // the device sees nothing of it
  }
  running->start = watch->marks.put();
  return running;
}

void OperatorLog::Watch::after(const at::RecordFunction& call, at::ObserverContext* context) {
  auto* watch = seen_by<Watch>(kOperatorLog);
  auto* running = static_cast<Running*>(context);
  if (!watch || !running) return;
  const std::lock_guard lock(watch->mutex);
  const int end = watch->marks.put();
  if (running->is_launch) --watch->running;
  if (!running->is_kernel && watch->is_cpu && watch->marks.seconds(end) - watch->marks.seconds(running->start) < kShortest_s)
    return;
  if (running->is_kernel) complete_work(running->work, call);
  watch->entries.push_back({.call = {.name = call.name(), .is_kernel = running->is_kernel, .work = std::move(running->work)},
                            .start = running->start,
                            .end = end});
}

OperatorLog::OperatorLog(c10::Device device)
    : watch_(std::make_shared<Watch>(device)), observer_(kOperatorLog, watch_, Watch::before, Watch::after) {}

std::vector<MeasuredOperator> OperatorLog::operators() const {
  std::vector<MeasuredOperator> all;
  for (const Watch::Entry& entry : watch_->entries) {
    all.push_back(entry.call);
    all.back().start_s = watch_->marks.seconds(entry.start);
    all.back().end_s = watch_->marks.seconds(entry.end);
  }
  return all;
}

}  // namespace weft
