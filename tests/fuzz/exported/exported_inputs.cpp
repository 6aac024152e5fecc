#include "tests/fuzz/exported/exported_inputs.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <memory>
#include <utility>

#include "tests/fuzz/data_inputs.h"
#include "tests/fuzz/exported/program_damage.h"
#include "tests/fuzz/exported/zip_damage.h"
#include "tests/fuzz/mutate.h"
#include "weft/base/error.h"
#include "weft/checkpoint/weights/weights_file.h"
#include "weft/exported/exported_model.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/train/trainer/trainer.h"

namespace weft::fuzz {
namespace {

using test::Random;

constexpr const char *kProgram = "models/model.json", *kWeights = "data/weights/model_weights_config.json";
constexpr int64_t kSamples = 2;

std::string program_path(const std::string& name) { return WEFT_SOURCE "/tests/exported/programs/" + name + ".pt2"; }

struct Program {
  std::string inputs;                 ///< as model.inputs
  std::vector<int64_t> sample_shape;  ///< of images and tokens
  int64_t classes;
  std::string blocks;
  Members records;
  std::string learner = {};  ///< the model of which the program is the loss; empty: it is a model

  bool reads_tokens() const { return inputs == "tokens"; }
  bool reads_arrays() const { return inputs == "arrays"; }
};

const Program& any_program(Random& random) {
  static const std::vector<Program> all = {
      {"images", {1, 16, 16}, 5, "1,5", records_of(program_path("images"))},
      {"tokens", {16}, 64, "h.*", records_of(program_path("tokens"))},
      {"arrays", {}, 0, "layers.*", records_of(program_path("guided"))},
      {"arrays", {}, 0, "layers.*", records_of(program_path("huber")), program_path("fields")},
  };
  return random.of(all);
}

/// A machine with little memory: an absurd size is an error of the allocator at once.
class SmallMemory : public at::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kMost = size_t{128} << 20;
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= kMost, "no memory for ", bytes, " bytes");
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetDefaultCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

ExportedModelOptions options_of(const std::string& path, const Program& program, Random& random) {
  ExportedModelOptions options{.path = program.learner.empty() ? path : program.learner,
                               .blocks = random.one_in(2) ? "auto" : program.blocks,
                               .reads_tokens = program.reads_tokens(),
                               .reads_arrays = program.reads_arrays()};
  if (program.reads_arrays()) options.loss = program.learner.empty() ? "mean_squares" : path;
  if (random.one_in(8)) return options;
  options.sample_shape = program.sample_shape;
  options.classes = program.classes;
  return options;
}

Batch batch_of(const Program& program) {
  if (program.reads_arrays()) {
    constexpr int64_t kPoints = 12;
    Batch batch{.inputs = {at::ones({kSamples, 3, kPoints})}, .target = at::ones({kSamples, 2, kPoints})};
    if (program.learner.empty()) {
      batch.inputs.push_back(at::arange(kSamples, at::kLong));
      batch.inputs.push_back(at::ones({kSamples, kPoints}));
    }
    return batch;
  }
  std::vector<int64_t> shape = {kSamples};
  shape.insert(shape.end(), program.sample_shape.begin(), program.sample_shape.end());
  const at::Tensor numbers = at::arange(c10::multiply_integers(shape), at::kLong).remainder(program.classes).reshape(shape);
  if (program.reads_tokens()) return {.inputs = {numbers}, .target = numbers};
  return {.inputs = {numbers.to(at::kFloat)}, .target = at::arange(kSamples, at::kLong)};
}

/// Forward and backward of all blocks without values. Returns whether the model is too large to train here.
bool is_large(Model& model, const Batch& batch) {
  constexpr double kMostFlops = 1e9;
  const auto meta = [](const at::Tensor& x) { return at::empty_like(x, at::TensorOptions(at::kMeta)); };
  double flops = 0.0;
  Tensors outputs;
  Tensors inputs;
  for (const at::Tensor& input : batch.inputs) inputs.push_back(meta(input));
  for (const MeasuredCost& cost : measure_cost(model, inputs, {}, &outputs)) flops += cost.forward_flops + cost.backward_flops;
  measure_loss(model, outputs, meta(batch.target));
  return flops > kMostFlops;
}

void load_and_train(const std::string& path, const Program& program, Random& random) {
  static SmallMemory memory;
  static const bool is_set_up = [] {
    at::set_num_threads(1);
    c10::SetCPUAllocator(&memory, 1);
    return true;
  }();
  (void)is_set_up;
  const std::unique_ptr<WeightsFile> weights = open_weights(path);
  for (const std::string& name : weights->names()) weights->read(name);
  const ExportedModelOptions options = options_of(path, program, random);
  if (random.one_in(8)) exported_size(path);
  if (program.reads_arrays()) exported_arrays(options);
  Model model = exported_model(options);
  const Batch batch = batch_of(program);
  try {
    if (is_large(model, batch)) return;
  } catch (const Error&) {  // what an operator does not do without values it may do with them
    model = exported_model(options);
  }
  Trainer trainer(Mesh(World(), {}), std::move(model), Sgd{}, {.global_batch = kSamples, .micro_batch = 1});
  trainer.load_weights(options.path);
  trainer.step(batch);
  trainer.predict(batch);
}

std::string& record(Members& records, const std::string& name) {
  for (auto& [key, bytes] : records) {
    if (key == name) return bytes;
  }
  throw std::logic_error("no record " + name);
}

}  // namespace

void exported_archive(const std::string& folder, Random& random) {
  const Program& program = any_program(random);
  const std::string path = folder + "/x.pt2";
  const std::string whole = zip_of(program.records);
  write(path, random.one_in(3) ? damaged_bytes(whole, whole, random) : damaged_zip(program.records, random));
  load_and_train(path, program, random);
}

void exported_program(const std::string& folder, Random& random) {
  static const std::vector<std::string> words = {"as_tensor", "as_int",   "as_none", "as_ints",
                                                 "as_float",  "Infinity", "sizes",   "name"};
  const Program& program = any_program(random);
  const std::string path = folder + "/x.pt2";
  Members records = program.records;
  std::string& json = record(records, kProgram);
  json = random.one_in(10) ? damaged(json, json, words, random) : damaged_program(json, random);
  write(path, zip_of(records));
  load_and_train(path, program, random);
}

void exported_weights(const std::string& folder, Random& random) {
  const Program& program = any_program(random);
  const std::string path = folder + "/x.pt2";
  Members records = program.records;
  std::string& list = record(records, kWeights);
  if (!random.one_in(4)) list = damaged_weights_list(list, random);
  for (auto& [name, bytes] : records) {
    if (random.one_in(30)) bytes = damaged_bytes(bytes, list, random);
  }
  write(path, zip_of(records));
  load_and_train(path, program, random);
}

}  // namespace weft::fuzz
