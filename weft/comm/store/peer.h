// Peer: the server's end of one connection: received bytes of incomplete messages, and unsent answers.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/file_descriptor.h"

namespace weft {

class Peer {
 public:
  Peer(FileDescriptor socket, uint64_t number) : socket_(std::move(socket)), number_(number) {}

  int fd() const { return socket_.get(); }
  uint64_t number() const { return number_; }
  const FileDescriptor& socket() const { return socket_; }

  /// Receives up to `most` bytes. Returns the number of bytes: 0 for none yet, -1 if the other end has gone.
  int64_t receive(size_t most);
  /// Received bytes, except those removed by take_off().
  std::string_view received() const { return std::string_view(in_).substr(taken_); }
  void take_off(size_t bytes);

  /// Queues data for flush().
  void send(std::string head, std::shared_ptr<const std::string> body);
  /// Sends as much as the connection accepts. Returns the number of bytes, or -1 if the other end has gone.
  int64_t flush();
  size_t unsent() const { return unsent_; }

  bool proven = false;
  uint32_t events = 0;     ///< events requested from epoll
  std::string nonce = {};  ///< the server's nonce, until the client has proven itself

 private:
  struct Part {
    std::string head;
    std::shared_ptr<const std::string> body;  ///< shared by all recipients
  };
  FileDescriptor socket_;
  uint64_t number_;
  std::string in_;
  size_t taken_ = 0;
  std::deque<Part> out_;
  size_t sent_of_first_ = 0;
  size_t unsent_ = 0;
};

}  // namespace weft
