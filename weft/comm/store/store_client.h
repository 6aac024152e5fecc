// StoreClient: the client's end of a connection to a StoreServer.
//
// Threads may ask concurrently without blocking each other: answers arrive in any order. The client has no thread of its own:
// one of the waiting threads reads the socket for all.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "weft/base/deadline.h"
#include "weft/base/file_descriptor.h"
#include "weft/comm/store/message.h"
#include "weft/comm/store/store_errors.h"

namespace weft {

class StoreClient {
 public:
  using Clock = Deadline::Clock;

  /// Connects, retrying until a server listens, and proves itself with the token. Throws Error with the last reason: at the
  /// deadline, or immediately if the two sides' tokens differ.
  StoreClient(const std::string& host, int port, const std::string& token, const Deadline& deadline);

  struct Answer {
    message::Status status = message::Status::good;
    std::string body = {};
  };
  /// A question that has been sent. Destroying it discards the answer.
  class Question {
   public:
    Question(StoreClient& client, message::Request request, const std::string& body, const Deadline& deadline);
    ~Question();
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;
    /// Returns the answer, or nullopt if there is none by `end`. Throws StoreGone.
    std::optional<Answer> wait_until(Clock::time_point end);

   private:
    StoreClient& client_;
    uint32_t number_;
  };

  /// This host's address on the connection.
  const std::string& own_address() const { return own_address_; }
  /// Number of questions sent so far.
  int64_t trips();

 private:
  void meet(const std::string& token, const Deadline& deadline);
  std::string read_exactly(size_t bytes, const Deadline& deadline);
  void flush();
  void receive();
  void take_answers();
  void break_off(const std::string& problem);

  FileDescriptor socket_;
  std::string own_address_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  bool reading_ = false;  ///< a waiting thread is reading the socket
  uint32_t last_ = 0;
  int64_t trips_ = 0;
  std::set<uint32_t> asked_;
  std::unordered_map<uint32_t, Answer> answers_;
  std::string in_, out_;
  std::string problem_;  ///< why the connection is gone
};

}  // namespace weft
