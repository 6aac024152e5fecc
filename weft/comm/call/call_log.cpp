#include "weft/comm/call/call_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/utf8.h"

namespace weft {

CallLog::CallLog(const Axis& axis) : axis_(axis), sent_(axis.ranks.size()), received_(axis.ranks.size()) {}

void CallLog::set_group(std::string id, std::string backend, std::shared_ptr<std::atomic<uint64_t>> calls) {
  const std::lock_guard lock(mutex_);
  all_calls_ = std::move(calls);
  id_ = std::move(id);
  backend_ = std::move(backend);
}

uint64_t CallLog::begin(const Call& call, LoggedCall::Time now) {
  const std::lock_guard lock(mutex_);
  LoggedCall& entry = calls_[++serial_ % kKept];
  entry.serial = serial_;
  entry.order = all_calls_->fetch_add(1, std::memory_order_relaxed) + 1;
  entry.operation = call.operation;
  entry.reduce = call.reduce;
  entry.dtype = call.dtype;
  entry.root = call.root;
  entry.numel = call.numel;
  entry.begun = now;
  entry.waited = entry.ended = {};
  entry.is_in_background = false;
  size_t length = std::min(call.what.size(), LoggedCall::kNameBytes - 1);
  while (length > 0 && length < call.what.size() && continues_character(call.what[length])) --length;
  std::memcpy(entry.what.data(), call.what.data(), length);
  entry.what[length] = '\0';
  if (entry.is_message()) {
    std::vector<uint64_t>& messages = call.operation == Operation::send ? sent_ : received_;
    entry.number = ++messages[static_cast<size_t>(call.root)];
  } else {
    entry.number = ++collectives_;
  }
  return serial_;
}

LoggedCall* CallLog::find(uint64_t serial) {
  LoggedCall& entry = calls_[serial % kKept];
  return entry.serial == serial ? &entry : nullptr;
}

void CallLog::hand_over(uint64_t serial) {
  const std::lock_guard lock(mutex_);
  if (LoggedCall* entry = find(serial)) entry->is_in_background = true;
}

void CallLog::waits(uint64_t serial, LoggedCall::Time now) {
  const std::lock_guard lock(mutex_);
  LoggedCall* entry = find(serial);
  if (entry != nullptr && entry->waited == LoggedCall::Time()) entry->waited = now;
}

void CallLog::end(uint64_t serial, LoggedCall::Time now) {
  const std::lock_guard lock(mutex_);
  LoggedCall* entry = find(serial);
  if (entry != nullptr && entry->ended == LoggedCall::Time()) entry->ended = now;
}

CallLog::Content CallLog::content() const {
  const std::lock_guard lock(mutex_);
  Content content{.id = id_, .backend = backend_, .axis = axis_, .collectives = collectives_, .calls = {}};
  for (uint64_t serial = serial_ > kKept ? serial_ - kKept + 1 : 1; serial <= serial_; ++serial) {
    content.calls.push_back(calls_[serial % kKept]);
  }
  return content;
}

void CallLogs::add(const std::shared_ptr<CallLog>& log, std::string id, std::string backend) {
  log->set_group(std::move(id), std::move(backend), calls_);
  const std::lock_guard lock(mutex_);
  std::erase_if(logs_, [](const std::weak_ptr<CallLog>& one) { return one.expired(); });
  logs_.push_back(log);
}

std::vector<CallLog::Content> CallLogs::content() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallLog::Content> result;
  for (const std::weak_ptr<CallLog>& one : logs_) {
    if (const std::shared_ptr<CallLog> log = one.lock()) result.push_back(log->content());
  }
  return result;
}

}  // namespace weft
