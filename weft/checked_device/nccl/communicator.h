// Communicator: launches that several ranks make together, one at a time, on a stream of this rank's device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/checked_device/nccl/mover.h"
#include "weft/checked_device/order.h"

namespace weft::checked_device {

/// What all ranks of a collective must agree on, or both of a message.
struct CallShape {
  int64_t operation = 0;  ///< c10d::OpType
  int64_t dtype = 0;
  int64_t numel = 0;
  int64_t root = -1;
  int64_t reduction = -1;
};

/// A launch as its maker describes it. Tensors are of the device.
struct Launch {
  const char* what = "";                        ///< "nccl all_reduce"
  CallShape shape;                              ///< of a collective
  std::vector<Mover::Message> sends, receives;  ///< of messages; both empty: a collective
  std::vector<at::Tensor> reads, writes;
  /// Moves the bytes, on the communicator's thread. It keeps no tensor of the device, whose life is the caller's affair.
  std::function<void(uint32_t tag)> move;
};

/// A launch under way or done.
struct Launched {
  Access access;
  Clock end;  ///< of the stream, behind it
  std::shared_future<void> done;
  std::shared_ptr<std::string> error;  ///< once done
  std::chrono::steady_clock::time_point begin;
};

class Communicator {
 public:
  /// `ranks`: its ranks in the group that `mover` connects; `number` differs between the communicators of one mover.
  Communicator(std::string name, std::shared_ptr<Mover> mover, c10::intrusive_ptr<c10d::Store> store, std::vector<int> ranks,
               int rank, std::vector<int> job_ranks, c10::Device device, uint32_t number, std::chrono::milliseconds timeout);
  ~Communicator();

  /// Blocks until all its ranks are there. The first launch() does it otherwise.
  void connect();

  /// After what the current stream of the device has been given.
  Launched launch(Launch launch);

  const c10::Stream& stream() const { return stream_; }
  const std::string& name() const { return name_; }

  /// The oldest launch that is not done; nullopt without one.
  std::optional<Launched> oldest();
  /// Whether the host has waited for all launches.
  bool host_has_waited();
  /// What the first failed launch said, or "".
  std::string error();
  /// Lets the thread end what it was given; call Mover::abort() before to cut it short.
  void stop();

 private:
  struct Job {
    std::function<void(uint32_t tag)> move;
    Launched launched;
    std::vector<std::pair<int, at::Tensor>> headers;  ///< by peer
    std::vector<std::shared_future<void>> before;     ///< movements of the same memory
    std::promise<void> done;
  };

  void connect_once();  ///< under launching_
  std::vector<std::pair<int, at::Tensor>> headers(const Launch& launch);
  void run_jobs();
  void run(Job& job);
  void compare_headers(const Job& job);
  int job_rank(int group_rank) const { return job_ranks_.at(static_cast<size_t>(group_rank)); }

  const std::string name_;
  const std::shared_ptr<Mover> mover_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::vector<int> ranks_;
  const int rank_;
  const std::vector<int> job_ranks_;
  const c10::Device device_;
  const uint32_t number_;
  const std::chrono::milliseconds timeout_;
  const c10::Stream stream_;
  const int actor_;
  std::mutex launching_;
  bool connected_ = false;
  uint64_t last_time_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool stopped_ = false;
  std::string error_;
  std::thread thread_;
};

}  // namespace weft::checked_device
