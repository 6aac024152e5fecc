#include "weft/nn/cost/recorded_group.h"

#include <ATen/ops/zeros.h>

#include <numeric>
#include <utility>

#include "weft/comm/call/backend.h"

namespace weft {

namespace {

Axis axis_of(const std::string& name, int size) {
  Axis axis{name, std::vector<int>(static_cast<size_t>(size)), 0};
  std::iota(axis.ranks.begin(), axis.ranks.end(), 0);
  return axis;
}

/// Work that is done when waited for; records the wait.
class RecordedWork : public Work::State {
 public:
  RecordedWork(std::shared_ptr<RecordedCalls> record, int64_t number) : record_(std::move(record)), number_(number) {}
  void wait() override { record_->await(number_); }

 private:
  std::shared_ptr<RecordedCalls> record_;
  int64_t number_;
};

/// Bytes are those that Group adds to the traffic before it calls the backend.
class RecordingBackend : public Backend {
 public:
  RecordingBackend(const std::string& name, int size, std::shared_ptr<RecordedCalls> record)
      : Backend(axis_of(name, size)), record_(std::move(record)) {}

  std::string_view kind() const override { return "recorded"; }
  Work all_reduce(const at::Tensor&, ReduceOp, std::string_view) override { return note(2 * (size() - 1)); }
  Work reduce_scatter(const at::Tensor&, const at::Tensor&, ReduceOp, std::string_view) override { return note(size() - 1); }
  Work all_gather(const at::Tensor&, const at::Tensor&, std::string_view) override { return note(size() - 1); }
  Work broadcast(const at::Tensor&, int, std::string_view) override { return note(1); }
  Work all_to_all(const at::Tensor&, const at::Tensor&, std::string_view) override { return note(size() - 1); }
  Work send(const at::Tensor&, int, std::string_view) override { return note(1); }
  Work receive(const at::Tensor&, int, std::string_view) override { return {}; }
  Work barrier(std::string_view) override { return note(1); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view) override {
    return at::zeros({numel}, at::TensorOptions(dtype).device(at::kMeta));
  }

 private:
  Work note(int rounds) {
    const int64_t before = std::exchange(counted_, traffic().bytes);
    const int64_t number = record_->begin({.group = name(), .rounds = rounds, .wire_bytes = counted_ - before});
    return Work(std::make_shared<RecordedWork>(record_, number));
  }

  std::shared_ptr<RecordedCalls> record_;
  int64_t counted_ = 0;
};

}  // namespace

int64_t RecordedCalls::begin(RecordedCall call) {
  call.begins_at = call.waited_at = now();
  calls_.push_back(std::move(call));
  awaited_.push_back(false);
  return taken_ + static_cast<int64_t>(calls_.size()) - 1;
}

void RecordedCalls::await(int64_t number) {
  const int64_t index = number - taken_;
  if (index < 0 || awaited_[static_cast<size_t>(index)]) return;
  awaited_[static_cast<size_t>(index)] = true;
  calls_[static_cast<size_t>(index)].waited_at = now();
}

std::vector<RecordedCall> RecordedCalls::take() {
  taken_ += static_cast<int64_t>(calls_.size());
  awaited_.clear();
  return std::exchange(calls_, {});
}

Group recorded_group(const std::string& name, int size, std::shared_ptr<RecordedCalls> record) {
  if (size == 1) return Group(at::Device(at::kMeta));
  return Group(std::make_shared<RecordingBackend>(name, size, std::move(record)));
}

}  // namespace weft
