#include "weft/comm/store/store.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/comm/store/store_connection.h"
#include "weft/comm/store/store_errors.h"

namespace weft {
namespace {

using Bytes = std::vector<uint8_t>;

std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

Store::Store(std::shared_ptr<StoreConnection> connection, std::string prefix)
    : connection_(std::move(connection)), prefix_(std::move(prefix)) {}

const std::string& Store::server() const { return connection_->server(); }

Deadline Store::deadline() const { return deadline_.value_or(connection_->timeout()); }

void Store::set(const std::string& key, const std::string& value) { set(key, value, deadline()); }

void Store::set(const std::string& key, const std::string& value, const Deadline& deadline) {
  connection_->ask_or_throw(key, deadline, [key = prefix_ + key, value](c10d::Store& store) {
    store.set(key, Bytes(value.begin(), value.end()));
    return true;
  });
}

bool Store::has(const std::string& key) {
  return connection_->ask_or_throw(key, deadline(), [key = prefix_ + key](c10d::Store& store) { return store.check({key}); });
}

std::optional<bool> Store::has(const std::string& key, const Deadline& deadline) {
  return connection_->ask(key, deadline, [key = prefix_ + key](c10d::Store& store) { return store.check({key}); });
}

std::string Store::set_once(const std::string& key, const std::string& value) {
  return connection_->ask_or_throw(key, deadline(), [key = prefix_ + key, value](c10d::Store& store) {
    return text_of(store.compareSet(key, Bytes(), Bytes(value.begin(), value.end())));
  });
}

std::string Store::get(const std::string& key, const Deadline& deadline, const std::string& what) {
  return get_all({key}, deadline, what).front();
}

std::vector<std::string> Store::get_all(const std::vector<std::string>& keys, const Deadline& deadline,
                                        const std::string& what) {
  if (keys.empty()) return {};
  std::vector<std::string> whole;
  whole.reserve(keys.size());
  for (const std::string& key : keys) whole.push_back(prefix_ + key);
  Waited waited = connection_->await(whole, failure_key(), deadline, {});
  if (waited.end == WaitEnd::came) return std::move(waited.values);
  if (waited.end == WaitEnd::failed) throw_if(waited.values.front());
  throw CommError(fmt::format("{}: {} {:.1f} s (key \"{}\")", what,
                              waited.end == WaitEnd::passed
                                  ? "still missing after"
                                  : fmt::format("the store, which {} serves, has not answered for", server()),
                              deadline.timeout().count() / 1000.0, whole.front()));
}

Waited Store::await(const std::string& key, const Deadline& deadline, const Watch& watch) {
  Waited waited = connection_->await({prefix_ + key}, failure_key(), deadline, watch);
  if (waited.end == WaitEnd::failed) throw_if(waited.values.front());
  return waited;
}

Gathered Store::gather(const Contribution& own, const Deadline& deadline, const Watch& watch) {
  Contribution whole = own;
  whole.name = prefix_ + own.name;
  Gathered gathered = connection_->gather(whole, failure_key(), deadline, watch);
  if (gathered.end == WaitEnd::failed && gathered.other_rank < 0) throw_if(gathered.values.front());
  return gathered;
}

Gathered Store::missing(const Contribution& own, const Deadline& deadline) {
  Contribution whole = own;
  whole.name = prefix_ + own.name;
  return connection_->missing(whole, deadline);
}

void Store::remove(const std::string& key) {
  connection_->ask_or_throw(key, deadline(), [key = prefix_ + key](c10d::Store& store) { return store.deleteKey(key), true; });
}

int64_t Store::add(const std::string& key, int64_t amount) {
  return connection_->ask_or_throw(key, deadline(),
                                   [key = prefix_ + key, amount](c10d::Store& store) { return store.add(key, amount); });
}

void Store::throw_if_failed() {
  if (!failure_) return;
  const auto look = [key = failure_->key](c10d::Store& store) -> std::optional<std::string> {
    if (!store.check({key})) return std::nullopt;
    return text_of(store.get(key));
  };
  throw_if(connection_->ask_or_throw(failure_->key, deadline(), look));
}

// The value is the lost rank's number, or -1, and the text. A rank that cannot set the key still throws the error.
void Store::announce(const Error& error) {
  if (!failure_ || failure_->known.exchange(true)) return;
  const std::string text = fmt::format("{} {}", lost_rank_of(error), error.what());
  try {
    connection_->ask(failure_->key, kToAnswer, [key = failure_->key, text](c10d::Store& store) {
      store.compareSet(key, {}, Bytes(text.begin(), text.end()));  // the first one stays
      return true;
    });
  } catch (const CommError&) {  // the store is gone, as all other ranks notice
  }
}

void Store::throw_if(const std::optional<std::string>& failure) {
  if (!failure) return;
  failure_->known = true;
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
