// What the engine makes of offloaded state after a step that failed, on any device.
#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/engine/lists.h"
#include "tests/engine/recorder.h"
#include "weft/base/error.h"

namespace weft {

enum class FailsAt { load, load_after_the_update };

/// A block whose weights and optimizer state are offloaded. The second step fails while one of them, or both, are in memory.
class AfterAFailedStep {
 public:
  AfterAFailedStep(at::Device device, FailsAt fails, const std::function<std::shared_ptr<OffloadStore>()>& make_store)
      : device_(device),
        weight_{at::zeros({64}, at::TensorOptions(device)), {}},
        model_(weighted_sum(weight_), {.device = device, .separate_shard = true}),
        updater_(model_) {
    EngineOptions options = local(2);
    options.groups = AxisGroups(device);
    options.offload = {.activations = nullptr, .weights = make_store(), .optimizer = make_store()};
    engine_.emplace(model_, program_, 0, updater_, options);
    engine_->initialise();
    step();  // also takes the first micro-batch before the list begins
    EXPECT_THROW(step(fails == FailsAt::load ? 0 : 1), InputError);
    updates_ = fails == FailsAt::load ? 1 : 2;
    weight_now_ = updates_ * (updates_ + 1) / 2;
  }

  /// What is read is the newest, also after the next step.
  void expect_newest() {
    expect("after the failure");
    go_on();
  }
  /// What is filled counts.
  void expect_filled() {
    engine_->fill_state([&](int block, std::vector<at::Tensor>& optimizer) {
      model_.flat(block).master.fill_(5.0);
      optimizer[0].fill_(10.0);
    });
    weight_now_ = 5.0;
    updates_ = 10.0;
    go_on();
  }

 private:
  static Program one_block() {
    const auto weights = Payload::weights, state = Payload::optimizer;
    Instruction gather = on_block(Op::gather, 0);
    gather.waits = {0};
    Program program = with_list(
        {reload(weights, 0), load(0), gather, offload(weights, 0), forward(0, 0), loss(0), backward(0, 0), reduce_loss(),
         reload(weights, 0), reload(state, 0), update(0, {8, 9}), load(1), offload(state, 0), offload(weights, 0)},
        1, 2);
    program.shard_level = ShardLevel::parameters;
    return program;
  }
  double step(int failing = -1) {
    return engine_
        ->step(steps_++,
               [this, failing, micro = 0]() mutable {
                 if (micro++ == failing) throw InputError("no data");
                 return MicroBatch{{at::ones({1, 64}, device_)}, at::zeros({1}, device_)};
               })
        .loss;
  }
  void go_on() {
    EXPECT_DOUBLE_EQ(step(), 64 * weight_now_);
    updates_ += 1;
    weight_now_ += updates_;
    expect("after the next step");
  }
  void expect(const char* what) {
    engine_->for_each_state([&](int block, std::vector<at::Tensor>& optimizer) {
      EXPECT_TRUE(model_.flat(block).master.eq(weight_now_).all().item<bool>()) << what;
      EXPECT_TRUE(optimizer[0].eq(updates_).all().item<bool>()) << what;
    });
    EXPECT_TRUE(engine_->master_weights(0).eq(weight_now_).all().item<bool>()) << what;
    EXPECT_FALSE(model_.flat(0).master.defined() || updater_.state(0)[0].defined()) << what << ": not offloaded";
  }

  at::Device device_;
  Parameter weight_;
  FlatModel model_;
  CountingUpdater updater_;
  Program program_ = one_block();
  std::optional<Engine> engine_;
  int64_t steps_ = 0;
  double updates_ = 0.0, weight_now_ = 0.0;
};

}  // namespace weft
