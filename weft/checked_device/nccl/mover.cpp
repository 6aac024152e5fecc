#include "weft/checked_device/nccl/mover.h"

// LibTorch is built with Gloo; its header shows it only if this macro is defined, as in LibTorch's own build.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <c10/util/Exception.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <set>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

namespace weft::checked_device {

namespace {

using Pending = c10::intrusive_ptr<c10d::Work>;

std::vector<at::Tensor> flat_bytes(const at::Tensor& tensor) { return {tensor.view({-1}).view(at::kByte)}; }

}  // namespace

struct Mover::Engine {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  std::mutex* starts = nullptr;
  std::mutex mutex;
  std::condition_variable ended;
  std::set<c10d::Work*> waiting;
  std::atomic<bool> aborted = false;

  Pending start(const Message& message, bool sends, uint32_t tag) const {
    std::vector<at::Tensor> bytes = flat_bytes(message.tensor);
    const std::lock_guard lock(*starts);
    TORCH_CHECK(!aborted, "the communicator was aborted");
    return sends ? gloo->send(bytes, message.peer, static_cast<int>(tag))
                 : gloo->recv(bytes, message.peer, static_cast<int>(tag));
  }

  void wait(const Pending& work) {
    {
      const std::lock_guard lock(mutex);
      waiting.insert(work.get());
    }
    std::exception_ptr error;
    bool done = false;
    try {
      TORCH_CHECK(!aborted, "the communicator was aborted");
      done = work->wait();
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex);
      waiting.erase(work.get());
      ended.notify_all();
    }
    if (error) std::rethrow_exception(error);
    TORCH_CHECK(done && !aborted, "the communicator was aborted");
  }
};

Mover::Mover(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::mutex* starts)
    : engine_(std::make_unique<Engine>()) {
  static std::mutex& all_starts = *new std::mutex;
  // Gloo's threads, which also write, inherit the signal mask of the thread that starts them.
  const auto connect = [&] {
    block_sigpipe();
    auto gloo = c10d::ProcessGroupGloo::Options::create(std::chrono::hours(24));  // the watchdog ends what lasts too long
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    gloo->devices.push_back(interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                 : c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    gloo->threads = 1;
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, gloo);
  };
  engine_->gloo = std::async(std::launch::async, connect).get();
  engine_->starts = starts != nullptr ? starts : &all_starts;
}

Mover::~Mover() { abort(); }

void Mover::block_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void Mover::exchange(const std::vector<Message>& sends, const std::vector<Message>& receives, uint32_t tag) {
  std::vector<Pending> all;
  for (const Message& message : receives) {
    if (message.tensor.numel() > 0) all.push_back(engine_->start(message, false, tag));
  }
  for (const Message& message : sends) {
    if (message.tensor.numel() > 0) all.push_back(engine_->start(message, true, tag));
  }
  for (const Pending& work : all) engine_->wait(work);
}

void Mover::abort() {
  engine_->aborted = true;
  std::unique_lock lock(engine_->mutex);
  // A wait that begins just now can miss one call.
  while (!engine_->waiting.empty()) {
    for (c10d::Work* work : engine_->waiting) work->abort();
    engine_->ended.wait_for(lock, std::chrono::milliseconds(1));
  }
}

}  // namespace weft::checked_device
