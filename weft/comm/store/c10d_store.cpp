#include "weft/comm/store/c10d_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "weft/comm/store/message.h"

namespace weft {
namespace {

using Clock = Deadline::Clock;
using StoreBytes = std::vector<uint8_t>;

StoreBytes as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::vector<std::string> values_of(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  if (keys.size() == 1 || !store.hasExtendedApi()) {
    for (const std::string& key : keys) values.push_back(store.get_to_str(key));
  } else {
    for (const StoreBytes& value : store.multiGet(keys)) values.emplace_back(value.begin(), value.end());
  }
  return values;
}

struct Look {
  bool there = false, failed = false;
  std::vector<std::string> values = {};
};

// One call for all keys, so that they take one wait for the store.
Look look(c10d::Store& store, const std::vector<std::string>& keys, const std::string& unless) {
  if (keys.empty() || store.check(keys)) return {.there = true, .values = values_of(store, keys)};
  if (unless.empty() || !store.check({unless})) return {};
  return {.failed = true, .values = {store.get_to_str(unless)}};
}

// Keys of a gathering. The first rank sets its size; the last sets that all have arrived.
constexpr const char* kAllCame = "yes";
constexpr const char* kOtherSize = "no";  // a rank has another size
std::string size_key(const Contribution& own) { return own.name + "/size"; }
std::string other_key(const Contribution& own) { return own.name + "/other size"; }
std::string arrived_key(const Contribution& own) { return own.name + "/come"; }
std::string all_key(const Contribution& own) { return own.name + "/all"; }
std::string value_key(const Contribution& own, int rank) { return fmt::format("{}/{}", own.name, rank); }

Gathered other_size(const std::string& rank_and_size) {
  Gathered result{.end = WaitEnd::failed};
  std::istringstream(rank_and_size) >> result.other_rank >> result.other_size;
  return result;
}

// Contributes the value. Returns the first rank and its size if that size differs, else an empty text.
std::string join(c10d::Store& store, const Contribution& own) {
  const std::string mine = fmt::format("{} {}", own.rank, own.size);
  const std::string first = store.compareSet(size_key(own), std::string(), mine);
  if (first.substr(first.find(' ') + 1) != std::to_string(own.size)) {
    store.set(other_key(own), as_bytes(mine));
    store.set(all_key(own), as_bytes(kOtherSize));
    return first;
  }
  store.set(value_key(own, own.rank), as_bytes(own.value));
  if (store.add(arrived_key(own), 1) == own.size) store.compareSet(all_key(own), std::string(), std::string(kAllCame));
  return {};
}

}  // namespace

Waited PollingConnection::await(const std::vector<std::string>& keys, const std::string& unless, const Deadline& deadline,
                                const Watch& watch) {
  auto pause = std::chrono::microseconds(100);
  auto next_look = Clock::now() + watch.every;
  const std::string key = keys.empty() ? "" : keys.front();
  while (true) {
    auto found =
        ask(key, deadline.with_at_least(kToAnswer), [keys, unless](c10d::Store& store) { return look(store, keys, unless); });
    if (!found) return {.end = WaitEnd::silent};
    if (found->there) return {.end = WaitEnd::came, .values = std::move(found->values)};
    if (found->failed) return {.end = WaitEnd::failed, .values = std::move(found->values)};
    if (deadline.passed()) return {.end = WaitEnd::passed};
    if (watch.keep_waiting && Clock::now() >= next_look) {
      if (!watch.keep_waiting()) return {.end = WaitEnd::called_off};
      next_look = Clock::now() + watch.every;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

Gathered PollingConnection::gather(const Contribution& own, const std::string& unless, const Deadline& deadline,
                                   const Watch& watch) {
  const auto first = ask(own.name, deadline.with_at_least(kToAnswer), [own](c10d::Store& store) { return join(store, own); });
  if (!first) return {.end = WaitEnd::silent};
  if (!first->empty()) return other_size(*first);
  Waited waited = await({all_key(own)}, unless, deadline, watch);
  if (waited.end == WaitEnd::passed) return missing(own, deadline);
  if (waited.end != WaitEnd::came) return {.end = waited.end, .values = std::move(waited.values)};
  const bool all = waited.values[0] != kOtherSize;
  std::vector<std::string> keys;
  for (int rank = 0; all && rank < own.size; ++rank) keys.push_back(value_key(own, rank));
  if (!all) keys.push_back(other_key(own));
  waited = await(keys, "", deadline.with_at_least(kToAnswer), {});
  if (waited.end == WaitEnd::came && !all) return other_size(waited.values[0]);
  return {.end = waited.end, .values = std::move(waited.values)};
}

Gathered PollingConnection::missing(const Contribution& own, const Deadline& deadline) {
  auto result = ask(own.name, deadline.with_at_least(kToAnswer), [own](c10d::Store& store) {
    Gathered found{.end = WaitEnd::passed};
    found.missing = own.size - static_cast<int>(store.add(arrived_key(own), 0));
    const size_t named = std::min<size_t>(message::kMostMissing, static_cast<size_t>(std::max(0, found.missing)));
    for (int rank = 0; rank < own.size && found.missing_ranks.size() < named; ++rank) {
      if (!store.check({value_key(own, rank)})) found.missing_ranks.push_back(rank);
    }
    return found;
  });
  return result ? *std::move(result) : Gathered{.end = WaitEnd::silent};
}

}  // namespace weft
