// Blocks, an updater and a group that record the engine's calls.
#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/StorageImpl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/nn/bound_layer.h"
#include "weft/comm/call/backend.h"
#include "weft/engine/engine.h"
#include "weft/nn/layers/layers.h"

namespace weft {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

inline LossValue sum_loss(const Tensors& outputs, const at::Tensor& target) { return {outputs[0].sum(), target.numel()}; }

/// y = x w with a scalar w; logs "F2 of 1" and "B2 of 1": forward and backward of block 2 on the micro-batch whose values
/// are 1.
class LoggedBlock : public Block {
 public:
  LoggedBlock(std::vector<std::string>& log, int index) : log_(log), index_(index), weight_{at::ones({1}), {}} {}

  Tensors forward(const Tensors& inputs, const Context&) override {
    const auto value = static_cast<int>(inputs[0].flatten()[0].item<float>());
    const std::string what = std::to_string(index_) + " of " + std::to_string(value);
    log_.push_back("F" + what);
    const at::Tensor output = inputs[0].mul(weight_.value);
    output.register_hook([this, what](const at::Tensor& gradient) {
      log_.push_back("B" + what);
      return gradient;
    });
    return {output};
  }
  std::vector<ParamSpec> parameters() override { return {{"weight", &weight_, {}}}; }

 private:
  std::vector<std::string>& log_;
  int index_;
  Parameter weight_;
};

inline Model logged_model(std::vector<std::string>& log, int num_blocks) {
  Model model{.name = "logged", .blocks = {}, .loss = {}, .hits = {}};
  model.loss = [&log](const Tensors& outputs, const at::Tensor& target) {
    log.push_back("loss");
    return sum_loss(outputs, target);
  };
  for (int b = 0; b < num_blocks; ++b) {
    const std::string name = "b" + std::to_string(b);
    model.blocks.push_back({name, name, std::make_shared<LoggedBlock>(log, b)});
  }
  return model;
}

/// Micro-batches of one sample each; the value is the index.
inline NextMicroBatch counted() {
  return [count = 0]() mutable { return MicroBatch{{at::full({1, 2}, ++count)}, at::zeros({1})}; };
}

/// loss = sum(w * x): the gradient of w is the sum of the x, over the number of targets.
inline Model weighted_sum(Parameter& weight) {
  Model model{.name = "sum", .blocks = {}, .loss = sum_loss, .hits = {}};
  auto block = std::make_shared<FunctionBlock>(
      [&weight](const Tensors& in, const Context&) -> Tensors { return {in[0].mul(weight.value)}; },
      std::vector<ParamSpec>{{"weight", &weight, {}}});
  model.blocks.push_back({"sum", "sum", std::move(block)});
  return model;
}

class IdleUpdater : public Updater {
 public:
  void add_squares(const at::Tensor&) override {}
  bool accept(double) override { return true; }
  void update(int, double d) override { divisor = d; }
  std::vector<at::Tensor>& state(int) override { return state_; }
  double divisor = 0.0;  ///< divisor of the last update

 private:
  std::vector<at::Tensor> state_;
};

/// Adds 1 to its one state tensor, and to the weights, at every update.
class CountingUpdater : public IdleUpdater {
 public:
  explicit CountingUpdater(FlatModel& model) : model_(model), states_(model.num_blocks(), std::vector<at::Tensor>(1)) {}
  void update(int block, double) override {
    FlatBlock& flat = model_.flat(block);
    at::Tensor& state = states_[block][0];
    if (!state.defined()) state = at::zeros_like(flat.master);
    state.add_(1.0);
    flat.master.add_(state);
    model_.copy_master_to_shard(block);
  }
  std::vector<at::Tensor>& state(int block) override { return states_[block]; }
  std::vector<int64_t> state_numels(int block) const override { return {model_.flat(block).num_owned()}; }

 private:
  FlatModel& model_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// Logs "squares", "norm" and "U1"; with `alive`, "alive N" before each update.
class LoggedUpdater : public Updater {
 public:
  explicit LoggedUpdater(std::vector<std::string>& log, std::function<int()> alive = {})
      : log_(log), alive_(std::move(alive)) {}
  void add_squares(const at::Tensor&) override { log_.push_back("squares"); }
  bool accept(double) override {
    log_.push_back("norm");
    return true;
  }
  void update(int block, double) override {
    if (alive_) log_.push_back("alive " + std::to_string(alive_()));
    log_.push_back("U" + std::to_string(block));
  }
  std::vector<at::Tensor>& state(int) override { return state_; }

 private:
  std::vector<std::string>& log_;
  std::function<int()> alive_;
  std::vector<at::Tensor> state_;
};

/// Two ranks, of which the other one holds zeros; logs "start losses" and, once, "wait losses".
class LoggedBackend : public Backend {
 public:
  explicit LoggedBackend(std::vector<std::string>& log) : Backend({"data", {0, 1}, 0}), log_(log) {}

  std::string_view kind() const override { return "logged"; }
  Work all_reduce(const at::Tensor&, ReduceOp, std::string_view what) override {
    log_.push_back("start " + std::string(what));
    return Work(std::make_shared<Waiting>(log_, "wait " + std::string(what)));
  }
  Work reduce_scatter(const at::Tensor&, const at::Tensor&, ReduceOp, std::string_view) override { return {}; }
  Work all_gather(const at::Tensor&, const at::Tensor&, std::string_view) override { return {}; }
  Work broadcast(const at::Tensor&, int, std::string_view) override { return {}; }
  Work all_to_all(const at::Tensor&, const at::Tensor&, std::string_view) override { return {}; }
  Work send(const at::Tensor&, int, std::string_view) override { return {}; }
  Work receive(const at::Tensor&, int, std::string_view) override { return {}; }
  Work barrier(std::string_view) override { return {}; }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view) override { return at::zeros({numel}, dtype); }

 private:
  class Waiting : public Work::State {
   public:
    Waiting(std::vector<std::string>& log, std::string line) : log_(log), line_(std::move(line)) {}
    void wait() override {
      if (!line_.empty()) log_.push_back(std::move(line_));
      line_.clear();
    }

   private:
    std::vector<std::string>& log_;
    std::string line_;
  };

  std::vector<std::string>& log_;
};

}  // namespace weft
