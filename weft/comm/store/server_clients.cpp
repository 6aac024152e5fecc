// Accepting clients of a store's server and checking their proof: part of ServerLoop (comm/store/server_loop.h).
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "weft/base/interfaces.h"
#include "weft/base/tcp_options.h"
#include "weft/base/token.h"
#include "weft/base/uninterrupted.h"
#include "weft/comm/store/proof.h"
#include "weft/comm/store/server_loop.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookForRoom{100};

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

// Drops a client whose host has vanished after 15 minutes, whether the connection is idle or has unsent data: a run may survive
// a network cut for as long as its own timeouts allow.
void keep_alive(int fd) {
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 29);
  send_at_once(fd);
  retry_each_second(fd);
}

bool raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur * 2, 4096));
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

FileDescriptor ServerLoop::spare_descriptor() { return FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void ServerLoop::drop_unproven() {
  const Time now = Clock::now();
  while (const auto late = unproven_.expired(now)) drop(*late);
}

void ServerLoop::accept_all() {
  for (int i = 0; i < 64; ++i) {  // then existing clients get their turn
    if (!unproven_.has_room(Clock::now())) {
      listen_again_ = Clock::now() + kLookForRoom;
      return listen(false);
    }
    if (const auto oldest = unproven_.to_evict()) drop(*oldest);
    FileDescriptor socket(
        uninterrupted([this] { return ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
    if (socket) {
      admit(std::move(socket));
    } else if (errno == EMFILE && raise_descriptor_limit()) {
      continue;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      turn_away();
      listen_again_ = Clock::now() + kLookForRoom;
      return listen(false);
    } else if (errno != ECONNABORTED) {
      return;
    }
  }
}

// The spare descriptor allows refusing a client when no other descriptor is left.
void ServerLoop::turn_away() {
  spare_.close();
  const std::string text = proof::greeting(proof::Greeting::full, std::string(proof::kNonceBytes, '\0'));
  for (int i = 0; i < 64; ++i) {
    const FileDescriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) break;
    (void)!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    ++dropped_;
  }
  spare_ = spare_descriptor();
}

// An error here, and in serve(), concerns only that client.
void ServerLoop::admit(FileDescriptor socket) {
  const uint64_t number = next_number_++;
  try {
    keep_alive(socket.get());
    Peer& peer = *peers_.emplace(number, std::make_unique<Peer>(std::move(socket), number)).first->second;
    unproven_.add(number, Clock::now());
    peer.nonce = random_bytes(proof::kNonceBytes);
    peer.send(proof::greeting(token_.empty() ? proof::Greeting::open : proof::Greeting::prove, peer.nonce), nullptr);
    peer.events = EPOLLIN;
    add(peer.fd(), peer.events, number);
    if (flush(peer)) return;
  } catch (const std::exception&) {
  }
  drop(number);
}

bool ServerLoop::prove(Peer& peer) {
  if (peer.received().size() < proof::kReplyBytes) return true;
  std::string client_nonce;
  if (!proof::is_proven(peer.received(), token_, peer.nonce, client_nonce)) {
    peer.send(proof::refusal(), nullptr);
    flush(peer);
    return false;
  }
  peer.take_off(proof::kReplyBytes);
  peer.send(proof::welcome(token_, peer.nonce, client_nonce), nullptr);
  peer.proven = true;
  std::string().swap(peer.nonce);
  unproven_.remove(peer.number());
  ++connections_;
  const std::string here = own_address_of(peer.socket());
  if (address_.empty() && !is_loopback_address(here) && here != peer_address_of(peer.socket())) {
    address_ = here;
    table_.set_address(address_);
  }
  return true;
}

}  // namespace weft
