#include "weft/comm/c10d/engine_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/parse_number.h"
#include "weft/comm/store/store_connection.h"

namespace weft {
namespace {

/// Addresses fetched per trip. In a group of 1 024 ranks an address takes 8 KiB, so this is half a MiB.
constexpr int kNeighbours = 64;

}  // namespace

EngineStore::EngineStore(weft::Store store, Milliseconds timeout, std::string what, int numbered)
    : c10d::Store(timeout), store_(std::move(store)), what_(std::move(what)), numbered_(numbered) {}

template <class Call>
auto EngineStore::ask(const std::string& key, Call call) {
  return store_.connection().ask_or_throw(key, timeout_, std::move(call));
}

EngineStore::Keys EngineStore::whole(const Keys& keys) const {
  Keys result;
  result.reserve(keys.size());
  for (const std::string& key : keys) result.push_back(store_.prefix() + key);
  return result;
}

c10::intrusive_ptr<c10d::Store> EngineStore::clone() {
  return c10::make_intrusive<EngineStore>(store_, timeout_, what_, numbered_);
}

void EngineStore::set(const std::string& key, const Bytes& value) { store_.set(key, {value.begin(), value.end()}, timeout_); }

EngineStore::Bytes EngineStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  return ask(key, [key = store_.prefix() + key, expected, desired](c10d::Store& store) {
    return store.compareSet(key, expected, desired);
  });
}

// Returns whether the key is one of those fetched together; its value is then in fetched_.
bool EngineStore::fetch_together(const std::string& key) {
  const size_t digits = key.find_last_not_of("0123456789") + 1;
  const auto number = parse_number<int>(std::string_view(key).substr(digits));
  if (!number || *number >= numbered_) return false;
  if (fetched_.count(key) > 0) return true;
  Keys keys;
  const int begin = *number / kNeighbours * kNeighbours;
  for (int i = begin; i < std::min(begin + kNeighbours, numbered_); ++i) {
    keys.push_back(fmt::format("{}{}", key.substr(0, digits), i));
  }
  std::vector<std::string> values = store_.get_all(keys, timeout_, what_);
  for (size_t i = 0; i < keys.size(); ++i) fetched_[keys[i]] = std::move(values[i]);
  return fetched_.count(key) > 0;
}

EngineStore::Bytes EngineStore::get(const std::string& key) {
  if (fetch_together(key)) {
    const auto value = fetched_.extract(key);
    return {value.mapped().begin(), value.mapped().end()};
  }
  const std::string value = store_.get(key, timeout_, what_);
  return {value.begin(), value.end()};
}

int64_t EngineStore::add(const std::string& key, int64_t value) {
  return ask(key, [key = store_.prefix() + key, value](c10d::Store& store) { return store.add(key, value); });
}

bool EngineStore::deleteKey(const std::string& key) {
  return ask(key, [key = store_.prefix() + key](c10d::Store& store) { return store.deleteKey(key); });
}

bool EngineStore::check(const Keys& keys) {
  return ask(keys.empty() ? "" : keys.front(), [keys = whole(keys)](c10d::Store& store) { return store.check(keys); });
}

int64_t EngineStore::getNumKeys() {
  return ask("", [](c10d::Store& store) { return store.getNumKeys(); });
}

void EngineStore::wait(const Keys& keys) { wait(keys, timeout_); }

void EngineStore::wait(const Keys& keys, const Milliseconds& timeout) {
  if (keys.size() == 1 && fetch_together(keys.front())) return;
  const Deadline deadline = timeout == kNoTimeout ? timeout_ : timeout;
  store_.get_all(keys, deadline, what_);
}

void EngineStore::append(const std::string& key, const Bytes& value) {
  ask(key, [key = store_.prefix() + key, value](c10d::Store& store) {
    store.append(key, value);
    return true;
  });
}

std::vector<EngineStore::Bytes> EngineStore::multiGet(const Keys& keys) {
  std::vector<Bytes> values;
  values.reserve(keys.size());
  for (const std::string& value : store_.get_all(keys, timeout_, what_)) values.emplace_back(value.begin(), value.end());
  return values;
}

void EngineStore::multiSet(const Keys& keys, const std::vector<Bytes>& values) {
  ask(keys.empty() ? "" : keys.front(), [keys = whole(keys), values](c10d::Store& store) {
    store.multiSet(keys, values);
    return true;
  });
}

}  // namespace weft
