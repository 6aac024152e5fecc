#include "weft/comm/store/key_table.h"

#include <algorithm>
#include <charconv>

#include "weft/comm/store/equal_runs.h"

namespace weft {
namespace {

using message::Malformed;
using message::Reader;
using message::Request;
using message::Status;
using message::Writer;

// The clock can represent this, whatever a client requests.
constexpr uint64_t kLongestMs = uint64_t{1000} * 60 * 60 * 24 * 365;

std::vector<std::string> read_keys(Reader& in) {
  uint32_t left = in.u32();
  std::vector<std::string> keys;  // grows with the actual data, not the announced count
  while (left-- > 0) keys.push_back(in.own_text());
  return keys;
}

// Numbers are kept as text, as in c10d's stores, so a key that add() created can be read.
int64_t number_in(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw Malformed();
  return value;
}

template <class Map>
void drop_from(Map& map, const typename Map::key_type& key, uint64_t number) {
  const auto place = map.find(key);
  if (place == map.end()) return;
  place->second.erase(number);
  if (place->second.empty()) map.erase(place);
}

}  // namespace

void KeyTable::answer(const Asker& asker, Status status, std::string body) {
  answer_(asker, status, std::make_shared<const std::string>(std::move(body)));
}

void KeyTable::ask(const Asker& asker, uint8_t kind, std::string_view body, Time now) {
  Reader in(body);
  const auto request = static_cast<Request>(kind);
  if (request == Request::await) return await(asker, in, now);
  if (request == Request::gather) return gather(asker, in, now);
  auto answered = look(request, in);
  if (!answered) answered = change(request, in);
  // Answer first: a woken client may stop this server.
  answer(asker, Status::good, *std::move(answered));
  for (const std::string& key : std::exchange(changed_, {})) wake(key);
}

// Answers a request that changes nothing; nullopt for other requests.
std::optional<std::string> KeyTable::look(Request request, Reader& in) const {
  Writer out;
  if (request == Request::check) {
    const std::vector<std::string> keys = read_keys(in);
    out.u32(std::all_of(keys.begin(), keys.end(), [this](const auto& key) { return values_.count(key) > 0; }) ? 1 : 0);
  } else if (request == Request::missing) {
    std::string missing = missing_of(in.own_text());
    in.end();
    return missing;
  } else if (request == Request::count) {
    out.u64(values_.size());
  } else if (request == Request::address) {
    out.text(address_);
  } else {
    return std::nullopt;
  }
  in.end();
  return out.take();
}

std::string KeyTable::change(Request request, Reader& in) {
  Writer out;
  if (request == Request::set_all) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (uint32_t left = in.u32(); left > 0; --left) {
      std::string key = in.own_text();
      pairs.emplace_back(std::move(key), in.own_text());
    }
    in.end();
    for (auto& [key, value] : pairs) set(key, std::move(value));
    return out.take();
  }
  const std::string key = in.own_text();
  const auto old = values_.find(key);
  const bool is_there = old != values_.end();
  if (request == Request::set) {
    std::string value = in.own_text();
    in.end();
    set(key, std::move(value));
  } else if (request == Request::add) {
    const uint64_t amount = in.u64();
    in.end();
    // Unsigned, so that it may overflow.
    const uint64_t sum = amount + static_cast<uint64_t>(is_there ? number_in(old->second) : 0);
    set(key, std::to_string(static_cast<int64_t>(sum)));
    out.u64(sum);
  } else if (request == Request::remove) {
    in.end();
    out.u32(static_cast<uint32_t>(values_.erase(key)));
  } else if (request == Request::compare_set) {
    const std::string expected = in.own_text();
    std::string desired = in.own_text();
    in.end();
    const bool sets = is_there ? old->second == expected : expected.empty();
    out.text(sets ? desired : is_there ? old->second : expected);
    if (sets) set(key, std::move(desired));
  } else if (request == Request::append) {
    const std::string more = in.own_text();
    in.end();
    set(key, is_there ? old->second + more : more);
  } else {
    throw Malformed();
  }
  return out.take();
}

void KeyTable::set(const std::string& key, std::string value) {
  values_[key] = std::move(value);
  changed_.push_back(key);
}

void KeyTable::wake(const std::string& key) {
  const auto place = by_key_.find(key);
  if (place == by_key_.end()) return;
  const std::unordered_set<uint64_t> waiting = std::move(place->second);
  by_key_.erase(place);
  for (const uint64_t number : waiting) {
    Waiter waiter = drop(number);
    if (waiter.gathering.empty() ? answer_if_present(waiter) : answer_instead(waiter)) continue;
    watch(number, waiter);
    waiters_.emplace(number, std::move(waiter));
  }
}

// The keys take precedence over the `unless` key.
bool KeyTable::answer_if_present(Waiter& waiter) {
  while (waiter.present_keys < waiter.keys.size() && values_.count(waiter.keys[waiter.present_keys]) > 0) ++waiter.present_keys;
  if (waiter.present_keys < waiter.keys.size()) return answer_instead(waiter);
  Writer out;
  for (size_t i = 0; i < waiter.keys.size(); ++i) {
    const auto value = values_.find(waiter.keys[i]);
    if (value == values_.end()) {  // it arrived, and was removed
      waiter.present_keys = i;
      return answer_instead(waiter);
    }
    out.text(value->second);
  }
  answer(waiter.asker, Status::good, out.take());
  return true;
}

bool KeyTable::answer_instead(const Waiter& waiter) {
  const auto value = waiter.unless.empty() ? values_.end() : values_.find(waiter.unless);
  if (value == values_.end()) return false;
  answer(waiter.asker, Status::instead, Writer().text(value->second).take());
  return true;
}

void KeyTable::await(const Asker& asker, Reader& in, Time now) {
  const uint64_t milliseconds = in.u64();
  Waiter waiter{.asker = asker, .due = now, .unless = in.own_text()};
  waiter.keys = read_keys(in);
  in.end();
  if (answer_if_present(waiter)) return;
  keep(std::move(waiter), milliseconds, now);
}

void KeyTable::gather(const Asker& asker, Reader& in, Time now) {
  const uint64_t milliseconds = in.u64();
  Waiter waiter{.asker = asker, .due = now, .unless = in.own_text()};
  waiter.gathering = in.own_text();
  const uint32_t rank = in.u32();
  waiter.size = in.u32();
  std::string value = in.own_text();
  in.end();
  if (rank >= waiter.size || waiter.gathering.empty()) throw Malformed();

  Gathering& all = gatherings_[waiter.gathering];
  const Member member{rank, waiter.size};
  if (all.first.size == 0) all.first = member;
  if (all.first.size != member.size && !all.other) {
    all.other = member;
    for (const uint64_t number : std::exchange(all.waiters, {})) {
      const Waiter other = drop(number);
      answer_mismatch(other.asker, other.size, all);
    }
  }
  if (all.other) return answer_mismatch(asker, waiter.size, all);
  all.values[rank] = std::move(value);
  if (all.values.size() == all.first.size) {
    const Body body = std::make_shared<const std::string>(write_runs(all.values));
    const std::set<uint64_t> waiting = std::move(all.waiters);
    gatherings_.erase(waiter.gathering);
    answer_(asker, Status::good, body);
    for (const uint64_t number : waiting) answer_(drop(number).asker, Status::good, body);
    return;
  }
  if (answer_instead(waiter)) return;
  all.waiters.insert(keep(std::move(waiter), milliseconds, now));
}

// Reports to each rank the member whose size differs from its own.
void KeyTable::answer_mismatch(const Asker& asker, uint32_t size, const Gathering& gathering) {
  const Member& differing = gathering.first.size == size ? *gathering.other : gathering.first;
  answer(asker, Status::mismatch, Writer().u32(differing.rank).u32(differing.size).take());
}

std::string KeyTable::missing_of(const std::string& gathering) const {
  const auto place = gatherings_.find(gathering);
  if (place == gatherings_.end()) return Writer().u32(0).take();
  const Gathering& all = place->second;
  Writer out;
  out.u32(all.first.size - static_cast<uint32_t>(all.values.size()));
  uint32_t rank = 0;
  size_t named = 0;
  for (auto value = all.values.begin(); rank < all.first.size && named < message::kMostMissing; ++rank) {
    if (value != all.values.end() && value->first == rank) {
      ++value;
    } else {
      out.u32(rank);
      ++named;
    }
  }
  return out.take();
}

uint64_t KeyTable::keep(Waiter waiter, uint64_t milliseconds, Time now) {
  waiter.due = now + std::chrono::milliseconds(std::min(milliseconds, kLongestMs));
  const uint64_t number = ++waits_;
  watch(number, waiter);
  waiters_.emplace(number, std::move(waiter));
  return number;
}

void KeyTable::watch(uint64_t number, const Waiter& waiter) {
  by_time_.emplace(waiter.due, number);
  by_connection_[waiter.asker.connection].insert(number);
  if (!waiter.unless.empty()) by_key_[waiter.unless].insert(number);
  if (waiter.gathering.empty()) by_key_[waiter.keys[waiter.present_keys]].insert(number);
}

KeyTable::Waiter KeyTable::drop(uint64_t number) {
  const auto place = waiters_.find(number);
  Waiter waiter = std::move(place->second);
  waiters_.erase(place);
  by_time_.erase({waiter.due, number});
  drop_from(by_connection_, waiter.asker.connection, number);
  if (!waiter.unless.empty()) drop_from(by_key_, waiter.unless, number);
  if (waiter.gathering.empty()) drop_from(by_key_, waiter.keys[waiter.present_keys], number);
  if (const auto all = gatherings_.find(waiter.gathering); all != gatherings_.end()) all->second.waiters.erase(number);
  return waiter;
}

void KeyTable::forget(uint64_t connection) {
  const auto place = by_connection_.find(connection);
  if (place == by_connection_.end()) return;
  const std::unordered_set<uint64_t> waiting = std::move(place->second);
  by_connection_.erase(place);
  for (const uint64_t number : waiting) drop(number);
}

void KeyTable::expire(Time now) {
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const Waiter waiter = drop(by_time_.begin()->second);
    answer(waiter.asker, Status::passed, waiter.gathering.empty() ? "" : missing_of(waiter.gathering));
  }
}

std::optional<KeyTable::Time> KeyTable::next_due() const {
  if (by_time_.empty()) return std::nullopt;
  return by_time_.begin()->first;
}

}  // namespace weft
