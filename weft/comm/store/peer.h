// Peer: the server's end of one connection: what has come and makes no whole message yet, and what is still to be sent.
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

  /// Takes what has come, up to `most` bytes: how many; 0 for none yet, -1 when the other end has gone.
  int64_t receive(size_t most);
  /// What has come and was not taken off.
  std::string_view received() const { return std::string_view(in_).substr(taken_); }
  void take_off(size_t bytes);

  /// Sends, now or when flush() is called.
  void send(std::string head, std::shared_ptr<const std::string> body);
  /// Sends what the connection takes: how many bytes; -1 when the other end has gone.
  int64_t flush();
  size_t unsent() const { return unsent_; }

  bool proven = false;
  uint32_t events = 0;     ///< that epoll is asked for
  std::string nonce = {};  ///< the server's, until the client has proven itself

 private:
  struct Part {
    std::string head;
    std::shared_ptr<const std::string> body;  ///< shared by all that are sent the same
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
