#include "weft/comm/store/server_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "weft/base/error.h"
#include "weft/comm/store/proof.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kListening = 0, kWake = 1, kFirstPeer = 2;  // numbers in epoll's events
/// No limit per address: thousands of ranks may share one.
constexpr NewcomerLimits kUnproven{.most = 4096, .young = milliseconds(1000), .to_prove = milliseconds(5000)};
constexpr milliseconds kToSendTheRest{1000};
constexpr size_t kReceiveBytes = size_t{64} << 10;
/// A client with this many unread answer bytes is not read from until it catches up.
constexpr size_t kMostUnsent = size_t{4} << 20;

}  // namespace

ServerLoop::ServerLoop(FileDescriptor listening, std::string token)
    : listening_(std::move(listening)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spare_(spare_descriptor()),
      token_(std::move(token)),
      table_([this](const KeyTable::Asker& asker, message::Status status, const KeyTable::Body& body) {
        answer(asker, status, body);
      }),
      next_number_(kFirstPeer),
      unproven_(kUnproven) {
  if (!epoll_ || !wake_ || ::fcntl(listening_.get(), F_SETFL, O_NONBLOCK) != 0) {
    throw CommError(fmt::format("cannot serve a store: {}", std::strerror(errno)));
  }
  add(wake_.get(), EPOLLIN, kWake);
  add(listening_.get(), 0, kListening);
  listen(true);
}

void ServerLoop::add(int fd, uint32_t events, uint64_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw CommError(fmt::format("cannot serve a store: {}", std::strerror(errno)));
  }
}

void ServerLoop::listen(bool on) {
  listens_ = on;
  epoll_event event{};
  event.events = on ? uint32_t{EPOLLIN} : 0;
  event.data.u64 = kListening;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event);
}

void ServerLoop::stop() {
  stopping_ = true;
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

// If the loop itself fails (out of memory), clients find their connections closed.
void ServerLoop::run() {
  try {
    while (!stopping_) turn();
    send_the_rest();
  } catch (const std::exception&) {
  }
  listening_.close();
  peers_.clear();
}

int ServerLoop::poll_ms() const {
  Time due = Clock::now() + std::chrono::hours(1);
  if (const auto next = table_.next_due()) due = std::min(due, *next);
  if (const auto next = unproven_.next_due()) due = std::min(due, *next);
  if (!listens_) due = std::min(due, listen_again_);
  const auto left = std::chrono::ceil<milliseconds>(due - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

void ServerLoop::turn() {
  std::array<epoll_event, 256> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), poll_ms());
  // Arrived messages take precedence, so expired times come last.
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kListening) {
      accept_all();
    } else if (event.data.u64 != kWake) {
      serve(event.data.u64, event.events);
    }
  }
  table_.expire(Clock::now());
  drop_unproven();
  if (!listens_ && Clock::now() >= listen_again_) listen(true);
}

void ServerLoop::serve(uint64_t number, uint32_t events) {
  const auto place = peers_.find(number);
  if (place == peers_.end()) return;  // dropped meanwhile
  Peer& peer = *place->second;
  bool good = false;
  try {
    good = (events & EPOLLERR) == 0 && ((events & (EPOLLIN | EPOLLHUP)) == 0 || receive(peer)) && flush(peer);
  } catch (const std::exception&) {
  }
  if (!good) drop(number);
}

bool ServerLoop::receive(Peer& peer) {
  // Before the welcome a client may send only its reply; one byte more is a protocol error.
  const size_t room = peer.proven ? kReceiveBytes : proof::kReplyBytes + 1 - peer.received().size();
  const int64_t count = peer.receive(room);
  if (count < 0) return false;
  bytes_in_ += count;
  return peer.proven ? take_requests(peer) : prove(peer);
}

bool ServerLoop::take_requests(Peer& peer) {
  while (peer.received().size() >= message::kHeaderBytes) {
    message::Reader in(peer.received());
    const size_t bytes = in.u32();
    if (bytes + 4 < message::kHeaderBytes || bytes > message::kMostRequestBytes) return false;
    if (peer.received().size() < bytes + 4) return true;
    const uint32_t number = in.u32();
    const uint8_t kind = in.u8();
    ++requests_;
    const auto body = peer.received().substr(message::kHeaderBytes, bytes + 4 - message::kHeaderBytes);
    table_.ask({peer.number(), number}, kind, body, Clock::now());
    peer.take_off(bytes + 4);
  }
  return true;
}

// Also answers other clients whose waits the current request ends.
void ServerLoop::answer(const KeyTable::Asker& asker, message::Status status, const KeyTable::Body& body) {
  const auto place = peers_.find(asker.connection);
  if (place == peers_.end()) return;
  Peer& peer = *place->second;
  const bool was_idle = peer.unsent() == 0;
  peer.send(message::header(asker.number, static_cast<uint8_t>(status), body->size()), body);
  // Not dropped here, while the table is being updated: epoll reports a broken connection.
  if (was_idle) flush(peer);
}

bool ServerLoop::flush(Peer& peer) {
  const int64_t sent = peer.flush();
  bytes_out_ += std::max<int64_t>(sent, 0);
  const uint32_t events = (peer.unsent() < kMostUnsent ? uint32_t{EPOLLIN} : 0) | (peer.unsent() > 0 ? uint32_t{EPOLLOUT} : 0);
  if (events != peer.events) {
    peer.events = events;
    epoll_event event{};
    event.events = events;
    event.data.u64 = peer.number();
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.fd(), &event);
  }
  return sent >= 0;
}

void ServerLoop::drop(uint64_t number) {
  if (unproven_.remove(number)) ++dropped_;
  table_.forget(number);
  peers_.erase(number);
}

// The serving process may be done before its clients have received their last answers.
void ServerLoop::send_the_rest() {
  const Deadline deadline = kToSendTheRest;
  while (!deadline.passed()) {
    size_t unsent = 0;
    for (auto& [number, peer] : peers_) {
      if (peer->proven && peer->unsent() > 0 && peer->flush() >= 0) unsent += peer->unsent();
    }
    if (unsent == 0) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

StoreCounts ServerLoop::counts() const { return {connections_, dropped_, requests_, bytes_in_, bytes_out_}; }

}  // namespace weft
