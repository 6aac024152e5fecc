#include "weft/comm/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/store/lost_rank.h"
#include "weft/comm/store/store_connection.h"

namespace weft {
namespace {

using Bytes = std::vector<uint8_t>;

std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

struct LookedUp {
  std::optional<std::string> value, failure;
};

// One call for both, so that one wait for the store does. The failure counts where there is no value.
LookedUp look_up(c10d::Store& store, const std::string& key, const std::string& failure_key) {
  if (store.check({key})) return {text_of(store.get(key)), std::nullopt};
  if (failure_key.empty() || !store.check({failure_key})) return {};
  return {std::nullopt, text_of(store.get(failure_key))};
}

}  // namespace

Store::Store(std::shared_ptr<StoreConnection> connection, std::string prefix)
    : connection_(std::move(connection)), prefix_(std::move(prefix)) {}

const std::string& Store::server() const { return connection_->server(); }

Deadline Store::deadline() const { return deadline_.value_or(connection_->timeout()); }

void Store::set(const std::string& key, const std::string& value) { set(key, value, deadline()); }

void Store::set(const std::string& key, const std::string& value, const Deadline& deadline) {
  connection_->insist(key, deadline, [key = prefix_ + key, value](c10d::Store& store) {
    store.set(key, Bytes(value.begin(), value.end()));
    return true;
  });
}

bool Store::has(const std::string& key) {
  return connection_->insist(key, deadline(), [key = prefix_ + key](c10d::Store& store) { return store.check({key}); });
}

std::optional<bool> Store::has(const std::string& key, const Deadline& deadline) {
  return connection_->ask(key, deadline, [key = prefix_ + key](c10d::Store& store) { return store.check({key}); });
}

std::string Store::get(const std::string& key, const Deadline& deadline, const std::string& what) {
  const std::string whole = prefix_ + key, failure = failure_ ? failure_->key : "";
  auto pause = std::chrono::microseconds(100);
  while (true) {
    const auto found = connection_->ask(key, deadline.with_at_least(kToAnswer),
                                        [whole, failure](c10d::Store& store) { return look_up(store, whole, failure); });
    if (found && found->value) return *found->value;
    if (found) throw_if(found->failure);
    if (deadline.passed()) {
      throw CommError(
          fmt::format("{}: {} {:.1f} s (key \"{}\")", what,
                      found ? "still missing after" : fmt::format("the store, which {} serves, has not answered for", server()),
                      deadline.timeout().count() / 1000.0, whole));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

void Store::remove(const std::string& key) {
  connection_->insist(key, deadline(), [key = prefix_ + key](c10d::Store& store) { return store.deleteKey(key), true; });
}

int64_t Store::add(const std::string& key, int64_t amount) {
  return connection_->insist(key, deadline(),
                             [key = prefix_ + key, amount](c10d::Store& store) { return store.add(key, amount); });
}

void Store::throw_if_failed() {
  if (!failure_) return;
  const auto look = [key = failure_->key](c10d::Store& store) { return look_up(store, key, "").value; };
  throw_if(connection_->insist(failure_->key, deadline(), look));
}

// Written as the number of the rank that was lost, or -1, and the text. Who cannot tell it has the error itself to throw.
void Store::announce(const Error& error) {
  if (!failure_ || failure_->told.exchange(true)) return;
  const std::string text = fmt::format("{} {}", lost_rank_of(error), error.what());
  try {
    connection_->ask(failure_->key, kToAnswer, [key = failure_->key, text](c10d::Store& store) {
      store.compareSet(key, {}, Bytes(text.begin(), text.end()));  // the first stays
      return true;
    });
  } catch (const CommError&) {  // the store is gone, as all others find
  }
}

void Store::throw_if(const std::optional<std::string>& failure) {
  if (!failure) return;
  failure_->told = true;
  const size_t space = failure->find(' ');
  throw_failure(std::stoi(*failure), failure->substr(space + 1));
}

Store Store::failing_on(std::shared_ptr<Failure> failure) const {
  Store result = *this;
  result.failure_ = std::move(failure);
  return result;
}

Store Store::within(const Deadline& deadline) const {
  Store result = *this;
  result.deadline_ = deadline;
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
