#include "tests/comm/c10d/stand_in_engine.h"

#include <csignal>
#include <numeric>

#include "weft/base/without_signal.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/c10d/tags.h"

namespace weft::test {
namespace {

thread_local c10::intrusive_ptr<StandInEngine> latest;  // of this rank

c10::intrusive_ptr<c10d::Backend> make(const DeviceEngineOptions& options) {
  return latest = c10::make_intrusive<StandInEngine>(options);
}

}  // namespace

/// A call of Gloo, some of whose Works end only when they are waited for.
class StandInEngine::Call : public c10d::Work {
 public:
  explicit Call(c10::intrusive_ptr<c10d::Work> inner) : inner_(std::move(inner)) {}
  void run() {
    try {
      inner_->wait();
      finish();
    } catch (const std::exception&) {
      finish(std::current_exception());
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
};

StandInEngine::StandInEngine(const DeviceEngineOptions& options) : Backend(options.rank, options.size) {
  const WithoutSignal guard(SIGPIPE);  // the threads that start below inherit the mask
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  gloo->threads = 1;
  gloo_ = c10::make_intrusive<GlooEngine>(options.store, options.rank, options.size, gloo);
  stream_ = std::thread([this] { run(); });
}

StandInEngine::~StandInEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  stream_.join();
}

void StandInEngine::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !in_flight_.empty(); });
    if (in_flight_.empty()) return;
    const c10::intrusive_ptr<Call> call = in_flight_.front();
    in_flight_.pop_front();
    lock.unlock();
    call->run();
    lock.lock();
  }
}

template <class Start>
StandInEngine::Work StandInEngine::start(const char* name, Start call) {
  add(name);
  const WithoutSignal guard(SIGPIPE);
  if (holds_) return c10::make_intrusive<c10d::Work>();  // never ends
  auto started = c10::make_intrusive<Call>(start_call(call));
  const std::lock_guard lock(mutex_);
  in_flight_.push_back(started);
  changed_.notify_all();
  return started;
}

void StandInEngine::add(const char* name) {
  const std::lock_guard lock(mutex_);
  calls_ += calls_.empty() ? name : std::string(" ") + name;
}

std::string StandInEngine::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

StandInEngine::Work StandInEngine::allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) {
  return start("allreduce", [&] { return gloo_->allreduce(tensors, options); });
}

StandInEngine::Work StandInEngine::broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) {
  return start("broadcast", [&] { return gloo_->broadcast(tensors, options); });
}

StandInEngine::Work StandInEngine::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions& options) {
  return start("allgather", [&] { return gloo_->_allgather_base(output, input, options); });
}

StandInEngine::Work StandInEngine::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::ReduceScatterOptions& options) {
  return start("reduce_scatter", [&] { return gloo_->_reduce_scatter_base(output, input, options); });
}

StandInEngine::Work StandInEngine::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
                                                 std::vector<int64_t>& input_counts, const c10d::AllToAllOptions& options) {
  return start("alltoall", [&] { return gloo_->alltoall_base(output, input, output_counts, input_counts, options); });
}

StandInEngine::Work StandInEngine::send(std::vector<at::Tensor>& tensors, int peer, int) {
  return start("send", [&] { return gloo_->send(tensors, peer, message_tag(tensors[0].nbytes())); });
}

StandInEngine::Work StandInEngine::recv(std::vector<at::Tensor>& tensors, int peer, int) {
  return start("recv", [&] { return gloo_->recv(tensors, peer, message_tag(tensors[0].nbytes())); });
}

void StandInEngine::abort() {
  aborted_ = true;
  gloo_->close();
}

StandInGroup stand_in_group(const World& world, GroupOptions options) {
  static const bool registered = (register_device_engine(at::kCPU, {make}), true);
  (void)registered;
  Axis axis{.name = "dp", .ranks = std::vector<int>(static_cast<size_t>(world.size())), .index = world.rank()};
  std::iota(axis.ranks.begin(), axis.ranks.end(), 0);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
  latest = nullptr;
  Group group(make_device_backend(
      {axis, hosts, world.next_group_store(), options, Deadline(options.timeout), world.device_channels()}));
  return {std::move(group), std::move(latest)};
}

}  // namespace weft::test
