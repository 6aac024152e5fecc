// An engine for tests of the device back end where there is no device: Gloo, for CPU tensors. Its calls end like NCCL's: a
// message that is sent and received with different sizes never ends, nor does a call that a rank holds, until abort().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/gloo_engine.h"
#include "weft/comm/group.h"
#include "weft/comm/world.h"

namespace weft::test {

class StandInEngine : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  explicit StandInEngine(const DeviceEngineOptions& options);
  ~StandInEngine() override;

  const std::string getBackendName() const override { return "stand-in"; }
  Work allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  Work broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
                     std::vector<int64_t>& input_counts, const c10d::AllToAllOptions& options) override;
  Work send(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  Work recv(std::vector<at::Tensor>& tensors, int peer, int tag) override;
  void abort() override;
  void shutdown() override { add("shutdown"); }

  /// Later calls of this rank never start.
  void hold() { holds_ = true; }
  bool is_aborted() const { return aborted_; }
  /// Names of the calls so far, in order.
  std::string calls() const;

 private:
  template <class Start>
  Work start(const char* name, Start call);
  void add(const char* name);
  void run();

  class Call;
  c10::intrusive_ptr<GlooEngine> gloo_;
  std::atomic<bool> holds_ = false, aborted_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string calls_;
  std::deque<c10::intrusive_ptr<Call>> in_flight_;
  bool stopping_ = false;
  std::thread stream_;
};

/// A group of all ranks on such an engine, and the engine.
struct StandInGroup {
  Group group;
  c10::intrusive_ptr<StandInEngine> engine;
};
StandInGroup stand_in_group(const World& world, GroupOptions options = {.timeout = std::chrono::seconds(20)});

}  // namespace weft::test
