// What offload copies is what the program declares, by kind and direction.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/recorder.h"
#include "weft/engine/host_store.h"
#include "weft/program/build/build.h"

namespace weft::copied_bytes_test {
namespace {

constexpr int kBlocks = 3, kStates = 3, kMicroBatches = 2;
constexpr int64_t kWidth = 64;

struct Copied {
  int64_t out = 0, in = 0;
  auto operator<=>(const Copied&) const = default;
};

void PrintTo(const Copied& copied, std::ostream* out) { *out << copied.out << " bytes out, " << copied.in << " in"; }

class CountingStore : public HostStore {
 public:
  void put(int room, const at::Tensor& tensor) override {
    copied.out += static_cast<int64_t>(tensor.nbytes());
    HostStore::put(room, tensor);
  }
  void get(int room, const at::Tensor& tensor) override {
    copied.in += static_cast<int64_t>(tensor.nbytes());
    HostStore::get(room, tensor);
  }
  Copied copied;
};

/// With state of as many elements as the rank owns.
class StatefulUpdater : public IdleUpdater {
 public:
  explicit StatefulUpdater(FlatModel& model) : model_(model), states_(model.num_blocks()) {
    for (std::vector<at::Tensor>& state : states_) state.resize(kStates);
  }
  std::vector<at::Tensor>& state(int block) override { return states_[block]; }
  std::vector<int64_t> state_numels(int block) const override {
    return std::vector<int64_t>(kStates, model_.flat(block).num_owned());
  }

 private:
  FlatModel& model_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// y = x w f with a trained w and a frozen f.
struct Product {
  Product() : trained{at::zeros({kWidth}), {}}, frozen{at::zeros({kWidth}), {}} {}
  NamedBlock block(const std::string& name) {
    const auto run = [this](const Tensors& in, const Context&) -> Tensors {
      return {in[0].mul(trained.value).mul(frozen.value)};
    };
    const Init one{Init::Kind::constant, 1.0};
    const std::vector<ParamSpec> specs = {{"w", &trained, one},
                                          {.name = "f", .parameter = &frozen, .init = one, .frozen = true}};
    return {name, name, std::make_shared<FunctionBlock>(run, specs)};
  }
  Parameter trained, frozen;
};

Copied declared(const Program& program, Payload what) {
  Copied copied;
  for (const Instruction& x : program.of(0)) {
    if (x.what == what) (x.op == Op::offload ? copied.out : copied.in) += x.copy_bytes;
  }
  return copied;
}

void expect_as_declared(at::ScalarType type) {
  const int bytes = type == at::kFloat ? 4 : 2;
  ModelCost cost{.name = "products", .blocks = {}, .input_bytes = 0};
  Model model{.name = "products", .blocks = {}, .loss = sum_loss, .hits = {}};
  std::vector<std::unique_ptr<Product>> products;
  for (int b = 0; b < kBlocks; ++b) {
    products.push_back(std::make_unique<Product>());
    model.blocks.push_back(products.back()->block("b" + std::to_string(b)));
    cost.blocks.push_back(
        {.name = "b", .numel = kWidth, .output_bytes = kWidth * bytes, .frozen_numel = kWidth, .states = kStates});
  }
  const Program program = build_program(cost, {.shard_level = ShardLevel::parameters,
                                               .recompute = {.every = 1},
                                               .offload = {.activations = true, .optimizer = true, .weights = true},
                                               .weight_bytes = bytes,
                                               .gradient_bytes = bytes,
                                               .micro_batches = kMicroBatches});
  FlatModel flat(std::move(model), {.weight_dtype = type,
                                    .gradient_dtype = type,
                                    .separate_shard = true,
                                    .late_shard = true,
                                    .separate_gradients = true,
                                    .weight_buffer = program.buffers[0].weight,
                                    .gradient_buffer = program.buffers[0].gradient});
  StatefulUpdater updater(flat);
  const auto inputs = std::make_shared<CountingStore>(), weights = std::make_shared<CountingStore>(),
             state = std::make_shared<CountingStore>();
  EngineOptions options{.offload = {.activations = inputs, .weights = weights, .optimizer = state},
                        .all_micro_batches = kMicroBatches};
  Engine engine(flat, program, 0, updater, options);
  engine.initialise();
  for (int64_t step = 0; step < 2; ++step) {
    for (CountingStore* store : {inputs.get(), weights.get(), state.get()}) store->copied = {};
    engine.step(step, [type] { return MicroBatch{{at::full({1, kWidth}, 1.0, type)}, at::zeros({1})}; });
    EXPECT_EQ(inputs->copied, declared(program, Payload::input));
    EXPECT_EQ(weights->copied, declared(program, Payload::weights));
    EXPECT_EQ(state->copied, declared(program, Payload::optimizer));
    EXPECT_GT(inputs->copied.out, 0);
    EXPECT_LT(weights->copied.out, weights->copied.in) << "what no update has changed does not leave again";
  }
}

TEST(CopiedBytes, AreTheDeclaredOnes) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(toString(type));
    expect_as_declared(type);
  }
}

}  // namespace
}  // namespace weft::copied_bytes_test
