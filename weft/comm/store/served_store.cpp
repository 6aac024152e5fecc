#include "weft/comm/store/served_store.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/comm/store/equal_runs.h"

namespace weft {
namespace {

using message::Reader;
using message::Request;
using message::Status;
using message::Writer;
using std::chrono::milliseconds;

/// No answer by the deadline.
struct NoAnswer {};

// c10d's calls, each of which ends by the deadline, throwing NoAnswer if there is no answer.
class ServedStore : public c10d::Store {
 public:
  using Value = std::vector<uint8_t>;
  ServedStore(StoreClient& client, const Deadline& deadline)
      : c10d::Store(std::max(deadline.left(), milliseconds(1))), client_(client), deadline_(deadline) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<ServedStore>(client_, deadline_); }
  void set(const std::string& key, const Value& value) override {
    ask(Request::set, Writer().text(key).text(text_of(value)).take());
  }
  Value compareSet(const std::string& key, const Value& expected, const Value& desired) override {
    return value_in(ask(Request::compare_set, Writer().text(key).text(text_of(expected)).text(text_of(desired)).take()));
  }
  Value get(const std::string& key) override { return multiGet({key}).front(); }
  int64_t add(const std::string& key, int64_t amount) override {
    return static_cast<int64_t>(number_in(ask(Request::add, Writer().text(key).u64(static_cast<uint64_t>(amount)).take())));
  }
  bool deleteKey(const std::string& key) override { return flag_in(ask(Request::remove, Writer().text(key).take())); }
  bool check(const std::vector<std::string>& keys) override {
    Writer body;
    body.u32(static_cast<uint32_t>(keys.size()));
    for (const std::string& key : keys) body.text(key);
    return flag_in(ask(Request::check, body.take()));
  }
  int64_t getNumKeys() override { return static_cast<int64_t>(number_in(ask(Request::count, ""))); }
  void wait(const std::vector<std::string>& keys) override { multiGet(keys); }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { multiGet(keys); }
  void append(const std::string& key, const Value& value) override {
    ask(Request::append, Writer().text(key).text(text_of(value)).take());
  }
  std::vector<Value> multiGet(const std::vector<std::string>& keys) override {
    Writer body;
    body.u64(static_cast<uint64_t>(deadline_.left().count())).text("").u32(static_cast<uint32_t>(keys.size()));
    for (const std::string& key : keys) body.text(key);
    const std::string answer = ask(Request::await, body.take());
    Reader in(answer);
    std::vector<Value> values;
    values.reserve(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) values.push_back(bytes_of(in.text()));
    return values;
  }
  void multiSet(const std::vector<std::string>& keys, const std::vector<Value>& values) override {
    Writer body;
    body.u32(static_cast<uint32_t>(keys.size()));
    for (size_t i = 0; i < keys.size(); ++i) body.text(keys[i]).text(text_of(values[i]));
    ask(Request::set_all, body.take());
  }
  bool hasExtendedApi() const override { return true; }

 private:
  static std::string_view text_of(const Value& value) { return {reinterpret_cast<const char*>(value.data()), value.size()}; }
  static Value bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
  static Value value_in(const std::string& body) { return bytes_of(Reader(body).text()); }
  static uint64_t number_in(const std::string& body) { return Reader(body).u64(); }
  static bool flag_in(const std::string& body) { return Reader(body).u32() != 0; }

  std::string ask(Request request, const std::string& body) {
    StoreClient::Question question(client_, request, body, deadline_);
    auto answer = question.wait_until(deadline_.end());
    if (!answer || answer->status != Status::good) throw NoAnswer();
    return std::move(answer->body);
  }

  StoreClient& client_;
  Deadline deadline_;
};

// Missing ranks: their number, and the first of them.
Gathered missing_in(const std::string& body) {
  Reader in(body);
  Gathered result{.end = WaitEnd::passed};
  result.missing = static_cast<int>(in.u32());
  while (!in.at_end()) result.missing_ranks.push_back(static_cast<int>(in.u32()));
  return result;
}

uint64_t left_ms(const Deadline& deadline) { return static_cast<uint64_t>(deadline.left().count()); }

}  // namespace

void ServedConnection::open(const std::string& host, int port, const std::string& token, const Deadline& deadline) {
  client_ = std::make_unique<StoreClient>(host, port, token, deadline);
}

void ServedConnection::serve(FileDescriptor listening, const std::string& token, const Deadline& deadline) {
  server_ = std::make_unique<StoreServer>(std::move(listening), token);
  open(server_->host(), server_->port(), token, deadline);
}

bool ServedConnection::run(std::function<void(c10d::Store&)> call, const Deadline& deadline) {
  const auto store = c10::make_intrusive<ServedStore>(*client_, deadline);
  try {
    call(*store);
    return true;
  } catch (const NoAnswer&) {
    return false;
  } catch (const message::Malformed& error) {
    throw StoreGone(error.what());
  }
}

// The server ends the wait at the deadline, or does not answer.
ServedConnection::Ended ServedConnection::wait(const std::string& key, Request request, const std::string& body,
                                               const Deadline& deadline, const Watch& watch) {
  try {
    const Deadline answered = Deadline(deadline.left() + kToAnswer);
    StoreClient::Question question(*client_, request, body, answered);
    while (true) {
      const auto look = StoreClient::Clock::now() + watch.every;
      auto answer = question.wait_until(watch.keep_waiting ? std::min(look, answered.end()) : answered.end());
      if (answer) return {WaitEnd::came, *std::move(answer)};
      if (answered.passed()) return {WaitEnd::silent};
      if (!watch.keep_waiting()) return {WaitEnd::called_off};
    }
  } catch (const StoreGone& error) {
    gone(key, error.what());
  }
}

// Returns read()'s result for an answer's body; a malformed one means the store is gone.
template <class Read>
auto ServedConnection::read(const std::string& key, const Read& read) {
  try {
    return read();
  } catch (const message::Malformed& error) {
    gone(key, error.what());
  }
}

Waited ServedConnection::await(const std::vector<std::string>& keys, const std::string& unless, const Deadline& deadline,
                               const Watch& watch) {
  Writer body;
  body.u64(left_ms(deadline)).text(unless).u32(static_cast<uint32_t>(keys.size()));
  for (const std::string& key : keys) body.text(key);
  const std::string key = keys.empty() ? "" : keys.front();
  const Ended ended = wait(key, Request::await, body.take(), deadline, watch);
  if (ended.end != WaitEnd::came) return {.end = ended.end};
  if (ended.answer.status == Status::passed) return {.end = WaitEnd::passed};
  const bool came = ended.answer.status == Status::good;
  Waited result{.end = came ? WaitEnd::came : WaitEnd::failed};
  return read(key, [&] {
    Reader in(ended.answer.body);
    for (size_t i = 0; i < (came ? keys.size() : 1); ++i) result.values.push_back(in.own_text());
    return result;
  });
}

Gathered ServedConnection::gather(const Contribution& own, const std::string& unless, const Deadline& deadline,
                                  const Watch& watch) {
  Writer body;
  body.u64(left_ms(deadline)).text(unless).text(own.name);
  body.u32(static_cast<uint32_t>(own.rank)).u32(static_cast<uint32_t>(own.size)).text(own.value);
  const Ended ended = wait(own.name, Request::gather, body.take(), deadline, watch);
  if (ended.end != WaitEnd::came) return {.end = ended.end};
  return read(own.name, [&]() -> Gathered {
    Reader in(ended.answer.body);
    Gathered result{.end = WaitEnd::failed};
    switch (ended.answer.status) {
      case Status::good:
        return {.end = WaitEnd::came, .values = read_runs(ended.answer.body, static_cast<size_t>(own.size))};
      case Status::passed:
        return missing_in(ended.answer.body);
      case Status::instead:
        result.values.push_back(in.own_text());
        break;
      case Status::mismatch:
        result.other_rank = static_cast<int>(in.u32());
        result.other_size = static_cast<int>(in.u32());
    }
    return result;
  });
}

Gathered ServedConnection::missing(const Contribution& own, const Deadline& deadline) {
  const Ended ended = wait(own.name, Request::missing, Writer().text(own.name).take(), deadline, {});
  if (ended.end != WaitEnd::came) return {.end = ended.end};
  return read(own.name, [&] { return missing_in(ended.answer.body); });
}

// On the server's host this is the loopback address; then the server knows the address that other hosts have used.
std::string ServedConnection::address() {
  const std::string& own = client_->own_address();
  if (!is_loopback_address(own)) return own;
  const Ended ended = wait("address", Request::address, "", kToAnswer, {});
  if (ended.end != WaitEnd::came) return {};
  return read("address", [&] { return Reader(ended.answer.body).own_text(); });
}

}  // namespace weft
