// StoreClient: the client's end of a connection to a StoreServer.
//
// Threads may ask at a time, and none holds up another: answers come in any order. There is no thread behind it: of those that
// wait one reads the socket for all.
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

  /// Connects, tries again while nobody listens yet, and proves itself with the token. Throws Error with the last reason: at
  /// the deadline, or at once where the two sides do not have the same token.
  StoreClient(const std::string& host, int port, const std::string& token, const Deadline& deadline);

  struct Answer {
    message::Status status = message::Status::good;
    std::string body = {};
  };
  /// A question that has been sent. Whoever lets it go wants no answer any more.
  class Question {
   public:
    Question(StoreClient& client, message::Request request, const std::string& body, const Deadline& deadline);
    ~Question();
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;
    /// The answer, or nothing when there is none by then. Throws StoreGone.
    std::optional<Answer> wait_until(Clock::time_point end);

   private:
    StoreClient& client_;
    uint32_t number_;
  };

  /// This host's address on the connection.
  const std::string& own_address() const { return own_address_; }
  /// Questions that have been sent so far.
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
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool reading_ = false;  ///< one of the waiting is at the socket
  uint32_t last_ = 0;
  int64_t trips_ = 0;
  std::set<uint32_t> asked_;
  std::unordered_map<uint32_t, Answer> answers_;
  std::string in_, out_;
  std::string problem_;  ///< why the connection is gone
};

}  // namespace weft
