#include "weft/checked_device/nccl/nccl_work.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/recorder.h"

namespace weft::checked_device {

namespace {

/// A launch as its caller sees it. Keeps the tensors until the caller's stream waits.
class NcclWork final : public c10d::Work {
 public:
  NcclWork(int rank, c10d::OpType operation, std::shared_ptr<Launched> launched, const c10::Stream& stream,
           std::vector<at::Tensor> kept, bool in_graph)
      : Work(rank, operation), launched_(std::move(launched)), stream_(stream), kept_(std::move(kept)), in_graph_(in_graph) {}

  ~NcclWork() override {
    const std::lock_guard lock(order_mutex());
    for (const at::Tensor& tensor : kept_) allocation_of(tensor).recorded.push_back(actor_of(stream_));
  }

  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  void synchronize() override {
    TORCH_CHECK(!is_done() || launched_->error->empty(), *launched_->error);
    const std::lock_guard lock(order_mutex());
    if (in_graph_ && recorder_on(stream_.device_index()) == nullptr) {
      violate("a stream waits for a call that was recorded in a graph", /*may_throw=*/true);
    }
    ++counts_here().stream_waits;
    if (!is_dropped(Ordering::wait, stream_.device_index())) {
      join(actor_of(current_stream(stream_.device_index())), launched_->end);
      record();
    }
    kept_.clear();
  }
  void blockCurrentStream() override { synchronize(); }
  bool isCompleted() override {
    if (in_graph_) violate("the host asks whether a call is done that is recorded in a graph", /*may_throw=*/true);
    return is_done();
  }
  bool isSuccess() const override { return !is_done() || launched_->error->empty(); }
  std::exception_ptr exception() const override {
    return isSuccess() ? nullptr : std::make_exception_ptr(std::runtime_error(*launched_->error));
  }

 private:
  void record() {
    const int device = stream_.device_index();
    Recorder* recorder = records() ? recorder_on(device) : nullptr;
    if (recorder == nullptr) return;
    recorder->note_wait(actor_of(current_stream(device)), in_graph_);
    recorder->add("a wait for a call", [launched = launched_, device] {
      const std::lock_guard lock(order_mutex());
      join(actor_of(current_stream(device)), launched->end);
    });
  }
  bool is_done() const { return launched_->done.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  std::shared_ptr<Launched> launched_;
  c10::Stream stream_;
  std::vector<at::Tensor> kept_;
  bool in_graph_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> make_nccl_work(int rank, c10d::OpType operation, std::shared_ptr<Launched> launched,
                                              const c10::Stream& stream, std::vector<at::Tensor> kept, bool in_graph) {
  return c10::make_intrusive<NcclWork>(rank, operation, std::move(launched), stream, std::move(kept), in_graph);
}

}  // namespace weft::checked_device
