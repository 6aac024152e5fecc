// Lifetime of micro-batches and activations in the engine.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/engine/lists.h"
#include "tests/engine/recorder.h"
#include "weft/engine/engine.h"

namespace weft {
namespace {

using Log = std::vector<std::string>;

TEST(EngineMemory, DropsActivationsAsSoonAsTheirBackwardIsDone) {
  Log log;
  std::vector<WeakStorage> activations;  // inputs and the blocks' outputs
  const auto alive = [&activations] {
    int count = 0;
    for (const WeakStorage& activation : activations) count += activation.expired() ? 0 : 1;
    return count;
  };
  constexpr int kBlocks = 4;
  Model chain = logged_model(log, kBlocks);
  for (int b = 0; b < kBlocks; ++b) {
    auto inner = chain.blocks[b].block;
    const auto run = [&, inner](const Tensors& in, const Context& context) {
      Tensors out = inner->forward(in, context);
      activations.push_back(out[0].storage().getWeakStorageImpl());
      out[0].register_hook([&](const at::Tensor& gradient) {
        log.push_back("alive " + std::to_string(alive()));
        return gradient;
      });
      return out;
    };
    chain.blocks[b].block = std::make_shared<FunctionBlock>(run, inner->parameters());
  }
  FlatModel model(std::move(chain), {});
  LoggedUpdater updater(log, [&] { return alive(); });
  const Program program = plain_program(kBlocks, 2);
  Engine engine(model, program, 0, updater, local(2));
  engine.step(0, [&, next = counted()] {
    MicroBatch micro = next();
    activations.push_back(micro.inputs[0].storage().getWeakStorageImpl());
    return micro;
  });
  Log seen;
  for (const std::string& line : log) {
    if (line.rfind("alive", 0) == 0) seen.push_back(line);
  }
  // Before each backward: the input, and the outputs of its own block and those before; at the updates nothing.
  const Log expected = {"alive 5", "alive 4", "alive 3", "alive 2", "alive 5", "alive 4",
                        "alive 3", "alive 2", "alive 0", "alive 0", "alive 0", "alive 0"};
  EXPECT_EQ(seen, expected);
}

/// The weight part, which may come much later, keeps only its needs: here, not the input.
TEST(EngineMemory, DropsTheMicroBatchWithTheInputsPartOfASplitBackward) {
  constexpr int kMicroBatches = 3;
  std::vector<WeakStorage> inputs;
  const auto alive = [&inputs] {
    int count = 0;
    for (const WeakStorage& input : inputs) count += input.expired() ? 0 : 1;
    return count;
  };
  Parameter weight{at::ones({2}), {}};
  FlatModel model(weighted_sum(weight), {});
  Log log;
  LoggedUpdater updater(log);
  InstructionList list;
  for (int j = 0; j < kMicroBatches; ++j) {
    for (const Instruction& x : {load(j), forward(0, j), loss(j), on_block(Op::backward_input, 0, j)}) list.push_back(x);
  }
  for (int j = 0; j < kMicroBatches; ++j) list.push_back(on_block(Op::backward_weight, 0, j));
  list.push_back(reduce_loss());
  list.push_back(update(0));
  const Program program = with_list(list, 1, kMicroBatches);
  Engine engine(model, program, 0, updater, local(kMicroBatches));
  engine.step(0, [&, next = counted()] {
    EXPECT_EQ(alive(), 0) << "before micro-batch " << inputs.size();
    MicroBatch micro = next();
    inputs.push_back(micro.inputs[0].storage().getWeakStorageImpl());
    return micro;
  });
  EXPECT_EQ(inputs.size(), 3u);
  EXPECT_TRUE(weight.value.grad().eq((1.0 + 2.0 + 3.0) / kMicroBatches).all().item<bool>()) << weight.value.grad();
}

}  // namespace
}  // namespace weft
