// ServerLoop: the thread of a store server: accepts connections, checks their proof, passes their requests to the table and
// sends the answers.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "weft/base/file_descriptor.h"
#include "weft/base/newcomers.h"
#include "weft/comm/store/key_table.h"
#include "weft/comm/store/peer.h"
#include "weft/comm/store/store_counts.h"

namespace weft {

class ServerLoop {
 public:
  ServerLoop(FileDescriptor listening, std::string token);

  /// Serves until stop(); never throws.
  void run();
  void stop();
  StoreCounts counts() const;

 private:
  using Clock = Deadline::Clock;
  using Time = Clock::time_point;

  static FileDescriptor spare_descriptor();
  void add(int fd, uint32_t events, uint64_t number);
  void listen(bool on);
  void turn();
  int poll_ms() const;
  void accept_all();
  void admit(FileDescriptor socket);
  void turn_away();
  void serve(uint64_t number, uint32_t events);
  bool receive(Peer& peer);
  bool prove(Peer& peer);
  bool take_requests(Peer& peer);
  void answer(const KeyTable::Asker& asker, message::Status status, const KeyTable::Body& body);
  bool flush(Peer& peer);
  void drop(uint64_t number);
  void drop_unproven();
  void send_the_rest();

  FileDescriptor listening_, epoll_, wake_, spare_;
  std::string token_;
  KeyTable table_;
  uint64_t next_number_;
  std::unordered_map<uint64_t, std::unique_ptr<Peer>> peers_;
  Newcomers unproven_;
  bool listens_ = false;
  Time listen_again_{};
  std::string address_;  ///< the address that another host has used
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> connections_ = 0, dropped_ = 0, requests_ = 0, bytes_in_ = 0, bytes_out_ = 0;
};

}  // namespace weft
