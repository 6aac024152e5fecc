#include "weft/comm/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/c10d/store_connection.h"

namespace weft {
namespace {

// The store's own exceptions carry stack traces and no advice.
template <class Action>
auto on_store(const std::string& key, Action action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw CommError(
        fmt::format("the store that ranks meet at cannot be reached (key \"{}\"): {}; the rank that serves it, rank 0, "
                    "may have ended",
                    key, error.what_without_backtrace()));
  }
}

}  // namespace

Store::Store(std::shared_ptr<Connection> connection, std::string prefix)
    : connection_(std::move(connection)), prefix_(std::move(prefix)) {}

void Store::set(const std::string& key, const std::string& value) {
  on_store(key, [&] {
    connection_->store->set(prefix_ + key, std::vector<uint8_t>(value.begin(), value.end()));
    return 0;
  });
}

bool Store::has(const std::string& key) {
  return on_store(key, [&] { return connection_->store->check({prefix_ + key}); });
}

std::string Store::get(const std::string& key, std::chrono::milliseconds timeout, const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto pause = std::chrono::microseconds(100);
  while (!has(key)) {
    throw_if_failed();
    if (std::chrono::steady_clock::now() >= deadline) {
      throw CommError(
          fmt::format("{}: still missing after {:.1f} s (key \"{}\")", what, timeout.count() / 1000.0, prefix_ + key));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
  return on_store(key, [&] {
    const std::vector<uint8_t> bytes = connection_->store->get(prefix_ + key);
    return std::string(bytes.begin(), bytes.end());
  });
}

int64_t Store::add(const std::string& key, int64_t amount) {
  return on_store(key, [&] { return connection_->store->add(prefix_ + key, amount); });
}

void Store::throw_if_failed() {
  if (failure_key_.empty()) return;
  on_store(failure_key_, [&] {
    if (!connection_->store->check({failure_key_})) return 0;
    const std::vector<uint8_t> bytes = connection_->store->get(failure_key_);
    throw CommError(std::string(bytes.begin(), bytes.end()));
  });
}

Store Store::failing_on(const std::string& key) const {
  Store result = *this;
  result.failure_key_ = prefix_ + key;
  return result;
}

Store Store::with(std::shared_ptr<RankTable> table) const {
  Store result = *this;
  result.table_ = std::move(table);
  return result;
}

Store Store::below(const std::string& prefix) const {
  Store result = *this;
  result.prefix_ += prefix + "/";
  return result;
}

}  // namespace weft
