#include "weft/nn/recorded_group.h"

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

/// Bytes are those that Group adds to the traffic before it calls.
class RecordingBackend : public Backend {
 public:
  RecordingBackend(const std::string& name, int size, std::shared_ptr<std::vector<RecordedCall>> calls)
      : Backend(axis_of(name, size)), calls_(std::move(calls)) {}

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
    calls_->push_back({name(), rounds, counted_ - before});
    return {};
  }

  std::shared_ptr<std::vector<RecordedCall>> calls_;
  int64_t counted_ = 0;
};

}  // namespace

Group recorded_group(const std::string& name, int size, std::shared_ptr<std::vector<RecordedCall>> calls) {
  if (size == 1) return Group(at::Device(at::kMeta));
  return Group(std::make_shared<RecordingBackend>(name, size, std::move(calls)));
}

}  // namespace weft
