#include "weft/comm/store/store_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/interfaces.h"
#include "weft/base/token.h"
#include "weft/base/uninterrupted.h"
#include "weft/comm/host/reach.h"
#include "weft/comm/store/proof.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

/// The connection ended before the server accepted or refused this client: the server has just started or ended.
class Unsettled : public Error {
 public:
  using Error::Error;
};

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

int poll_ms(Deadline::Clock::time_point end) {
  const auto left = std::chrono::ceil<milliseconds>(end - Deadline::Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

}  // namespace

StoreClient::StoreClient(const std::string& host, int port, const std::string& token, const Deadline& deadline) {
  for (auto pause = milliseconds(5);; pause = std::min(pause * 2, milliseconds(200))) {
    socket_ = reach(host, port, deadline);
    try {
      meet(token, deadline);
      break;
    } catch (const Unsettled&) {
      if (deadline.passed()) throw;
      std::this_thread::sleep_for(std::min(pause, deadline.left()));
    }
  }
  own_address_ = own_address_of(socket_);
}

void StoreClient::meet(const std::string& token, const Deadline& deadline) {
  proof::Greeting kind{};
  std::string server_nonce;
  if (!proof::read_greeting(read_exactly(proof::kGreetingBytes, deadline), kind, server_nonce)) {
    throw Error("the server there is not a weft store, or is one of another version");
  }
  if (kind == proof::Greeting::full) {
    throw Error("it has no room for another connection; raise the open-file limit (ulimit -n) where it is served");
  }
  if (kind == proof::Greeting::prove && token.empty()) {
    throw Error("it requires the job's token, but this rank has none; give all ranks the same WEFT_TOKEN");
  }
  if (kind == proof::Greeting::open && !token.empty()) {
    throw Error(
        "it does not require the job's token, which this rank has, so it may be another job's; give its server "
        "the same WEFT_TOKEN");
  }
  const std::string nonce = random_bytes(proof::kNonceBytes), text = proof::reply(token, server_nonce, nonce);
  if (::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    throw Unsettled(std::strerror(errno));
  }
  switch (proof::read_welcome(read_exactly(proof::kWelcomeBytes, deadline), token, server_nonce, nonce)) {
    case proof::Welcome::taken:
      return;
    case proof::Welcome::refused:
      throw Error("it refuses this rank's token; give all ranks the same WEFT_TOKEN");
    case proof::Welcome::stranger:
      throw Error("the server there does not know the job's token (WEFT_TOKEN), so it is not this job's store");
  }
}

std::string StoreClient::read_exactly(size_t bytes, const Deadline& deadline) {
  std::string text(bytes, '\0');
  for (size_t have = 0; have < bytes;) {
    const ssize_t count = uninterrupted([&] { return ::recv(socket_.get(), text.data() + have, bytes - have, MSG_DONTWAIT); });
    if (count > 0) {
      have += static_cast<size_t>(count);
    } else if (count == 0) {
      throw Unsettled("it closed the connection");
    } else if (!would_block()) {
      throw Unsettled(std::strerror(errno));
    } else {
      if (deadline.passed()) throw Error("no answer");
      pollfd entry{socket_.get(), POLLIN, 0};
      ::poll(&entry, 1, poll_ms(deadline.end()));
    }
  }
  return text;
}

StoreClient::Question::Question(StoreClient& client, message::Request request, const std::string& body,
                                const Deadline& deadline)
    : client_(client) {
  std::unique_lock lock(client_.mutex_);
  number_ = ++client_.last_;
  client_.asked_.insert(number_);
  ++client_.trips_;
  client_.out_ += message::header(number_, static_cast<uint8_t>(request), body.size()) + body;
  client_.flush();
  // Unsent data goes out with the next question.
  while (!client_.out_.empty() && client_.problem_.empty() && !deadline.passed()) {
    pollfd entry{client_.socket_.get(), POLLOUT, 0};
    lock.unlock();
    ::poll(&entry, 1, std::min(poll_ms(deadline.end()), 100));
    lock.lock();
    client_.flush();
  }
}

StoreClient::Question::~Question() {
  const std::lock_guard lock(client_.mutex_);
  client_.asked_.erase(number_);
  client_.answers_.erase(number_);
}

std::optional<StoreClient::Answer> StoreClient::Question::wait_until(Clock::time_point end) {
  std::unique_lock lock(client_.mutex_);
  while (true) {
    if (const auto answer = client_.answers_.find(number_); answer != client_.answers_.end()) return std::move(answer->second);
    if (!client_.problem_.empty()) throw StoreGone(client_.problem_);
    if (client_.reading_) {
      if (Clock::now() >= end) return std::nullopt;
      client_.changed_.wait_until(lock, end);
      continue;
    }
    // Data already received counts even if no time is left.
    const bool last = Clock::now() >= end;
    client_.reading_ = true;
    pollfd entry{client_.socket_.get(), static_cast<short>(client_.out_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    lock.unlock();
    ::poll(&entry, 1, poll_ms(end));
    lock.lock();
    client_.reading_ = false;
    client_.flush();
    client_.receive();
    client_.changed_.notify_all();
    if (last && client_.answers_.count(number_) == 0 && client_.problem_.empty()) return std::nullopt;
  }
}

int64_t StoreClient::trips() {
  const std::lock_guard lock(mutex_);
  return trips_;
}

void StoreClient::break_off(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

void StoreClient::flush() {
  while (!out_.empty() && problem_.empty()) {
    const ssize_t count =
        uninterrupted([&] { return ::send(socket_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL); });
    if (count < 0) {
      if (!would_block()) break_off(std::strerror(errno));
      return;
    }
    out_.erase(0, static_cast<size_t>(count));
  }
}

void StoreClient::receive() {
  std::array<char, 16384> bytes;
  while (problem_.empty()) {
    const ssize_t count = uninterrupted([&] { return ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT); });
    if (count < 0 && would_block()) break;
    if (count > 0) {
      in_.append(bytes.data(), static_cast<size_t>(count));
    } else {  // answers before the end count
      take_answers();
      return break_off(count == 0 ? "it closed the connection" : std::strerror(errno));
    }
  }
  take_answers();
}

void StoreClient::take_answers() {
  size_t begin = 0;
  while (in_.size() - begin >= message::kHeaderBytes) {
    message::Reader in(std::string_view(in_).substr(begin));
    const size_t bytes = in.u32();
    if (bytes + 4 < message::kHeaderBytes || bytes > message::kMostAnswerBytes) {
      break_off("it sent a malformed answer");
      break;
    }
    if (in_.size() - begin < bytes + 4) break;
    const uint32_t number = in.u32();
    const auto status = static_cast<message::Status>(in.u8());
    if (asked_.count(number) > 0) {
      answers_[number] = {status, in_.substr(begin + message::kHeaderBytes, bytes + 4 - message::kHeaderBytes)};
    }
    begin += bytes + 4;
  }
  in_.erase(0, begin);
}

}  // namespace weft
