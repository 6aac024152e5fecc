// Models of torch.export: where they are cut, whose tensors are whose, what is refused. tests/exported/python compares results.
#include "weft/exported/exported_model.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/refusal.h"
#include "weft/checkpoint/weights/exported_file.h"
#include "weft/checkpoint/weights/weights_file.h"
#include "weft/exported/size_guards.h"
#include "weft/nn/cost/measure_cost.h"
#include "weft/train/trainer/trainer.h"

namespace weft::exported_test {
namespace {

using Records = std::vector<std::pair<std::string, std::string>>;

const std::string kPrograms = WEFT_SOURCE "/tests/exported/programs/";
const std::string kTokens = kPrograms + "tokens.pt2", kImages = kPrograms + "images.pt2", kFields = kPrograms + "fields.pt2",
                  kHuber = kPrograms + "huber.pt2";
constexpr const char *kProgram = "models/model.json", *kWeights = "data/weights/model_weights_config.json";

ExportedModelOptions options_of(const std::string& path, const std::string& blocks = "auto") {
  return {.path = path, .blocks = blocks, .reads_tokens = path == kTokens};
}

std::string names_of(const Model& model) {
  std::string names;
  for (const NamedBlock& block : model.blocks) names += (names.empty() ? "" : " ") + block.name;
  return names;
}

/// Copies of a program with some records replaced, in a folder of the test.
class Copies {
 public:
  Copies() { std::filesystem::create_directories(folder_); }
  ~Copies() { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/x.pt2"; }

  static std::string record(const std::string& path, const std::string& name) {
    caffe2::serialize::PyTorchStreamReader reader(path);
    const auto [bytes, size] = reader.getRecord(name);
    return {static_cast<const char*>(bytes.get()), size};
  }

  /// The copy has the first `from` of a record replaced, which must be there.
  const std::string& replace(const std::string& of, const std::string& name, const std::string& from, const std::string& to) {
    caffe2::serialize::PyTorchStreamReader reader(of);
    caffe2::serialize::PyTorchStreamWriter writer(path_ = path());
    for (const std::string& each : reader.getAllRecords()) {
      if (each == "version" || each.starts_with(".data/")) continue;
      std::string bytes = record(of, each);
      if (each == name) {
        const size_t at = bytes.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        if (at != std::string::npos) bytes.replace(at, from.size(), to);
      }
      writer.writeRecord(each, bytes.data(), bytes.size());
    }
    writer.writeEndOfFile();
    return path_;
  }

 private:
  std::string folder_ = testing::TempDir() + "weft_exported_" + std::to_string(getpid()), path_;
};

TEST(ExportedModel, is_cut_at_the_boundaries_of_its_modules) {
  const struct {
    std::string path, blocks, names;
  } cases[] = {
      {kTokens, "auto", "wte wpe h.0 h.1 head"},
      {kTokens, "h.*, head", "model h.0 h.1 model@2 head"},
      {kTokens, "h.1", "model h.1 model@2"},
      {kImages, "auto", "0 5"},
      {kImages, "1,5", "model 1 5"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(names_of(exported_model(options_of(c.path, c.blocks))), c.names) << c.path << " " << c.blocks;
}

TEST(ExportedModel, describes_each_tensor_once_and_ties_blocks) {
  const Model model = exported_model(options_of(kTokens));
  EXPECT_EQ(model.blocks.back().uses, std::vector<int>{0});
  std::vector<std::string> names;
  for (const NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      names.push_back(spec.name);
      EXPECT_TRUE(spec.parameter->value.is_meta());
      EXPECT_EQ(spec.embedding, spec.name == "wte.weight" || spec.name == "wpe.weight");
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, open_weights(kTokens)->names());  // "head.weight" is "wte.weight"
}

std::string kind_of(const NamedBlock& named) { return dynamic_cast<const HasKind&>(*named.block).kind(); }

TEST(ExportedModel, blocks_of_equal_operations_are_of_one_kind) {
  const Model model = exported_model(options_of(kTokens, "h.*, norm"));  // model h.0 h.1 norm
  EXPECT_EQ(kind_of(model.blocks[1]), kind_of(model.blocks[2]));
  EXPECT_NE(kind_of(model.blocks[0]), kind_of(model.blocks[1]));
}

TEST(ExportedModel, knows_statistics_counts_and_frozen_parameters) {
  std::string statistics, frozen, counts;
  for (const NamedBlock& named : exported_model(options_of(kImages)).blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      if (spec.statistic) statistics += spec.name + " ";
      if (spec.frozen) frozen += spec.name + " ";
    }
    for (const BufferSpec& spec : named.block->buffers()) counts += spec.counts ? spec.name : "";
  }
  EXPECT_EQ(statistics, "1.running_mean 1.running_var ");
  EXPECT_EQ(frozen, "0.bias ");
  EXPECT_EQ(counts, "1.num_batches_tracked");
}

/// Runs the blocks on the CPU, with constant weights.
at::Tensor run(const Model& model, Tensors values, const Context& context) {
  for (const NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      if (spec.parameter->value.is_meta()) spec.parameter->value = at::zeros(spec.parameter->value.sizes()).add_(0.25);
    }
    values = named.block->forward(values, context);
  }
  return values.front();
}

TEST(ExportedModel, dropout_is_drawn_by_sample_and_only_in_training) {
  const Model model = exported_model(options_of(kTokens));
  const at::Tensor ids = at::randint(64, {4, 16}, at::kLong);
  const Context training{.seed = 1}, evaluation{.seed = 1, .training = false};
  const at::Tensor whole = run(model, {ids}, training);
  EXPECT_TRUE(at::equal(whole, run(model, {ids}, training)));
  EXPECT_FALSE(at::equal(whole, run(model, {ids}, {.seed = 2})));
  EXPECT_FALSE(at::equal(whole, run(model, {ids}, evaluation)));
  EXPECT_TRUE(at::equal(run(model, {ids}, evaluation), run(model, {ids}, {.seed = 2, .training = false})));
  EXPECT_TRUE(at::allclose(whole.narrow(0, 2, 2), run(model, {ids.narrow(0, 2, 2)}, {.seed = 1, .first_sample = 2})));
}

TEST(ExportedModel, its_input_and_output_are_those_of_the_recipe) {
  const struct {
    ExportedModelOptions options;
    std::string text;
  } cases[] = {
      {{.path = kTokens}, "it takes Long, but model.inputs = \"images\" gives Float; set model.inputs"},
      {{.path = kTokens, .reads_tokens = true, .sample_shape = {32}},
       "it takes samples of [16], but the recipe's are [32]; set model.context"},
      {{.path = kImages, .sample_shape = {3, 16, 16}}, "set model.channels and model.image_size"},
      {{.path = kTokens, .reads_tokens = true, .classes = 256}, "its logits are of 64; set model.vocabulary = 64 (here: 256)"},
      {{.path = kImages, .classes = 10}, "its logits are of 5; set model.classes = 5"},
      {{.path = kTokens, .blocks = "layers.*", .reads_tokens = true}, "model.blocks: 'layers.*' matches no module of"},
      {{.path = "/nowhere.pt2"}, "/nowhere.pt2: cannot open it"},
      {{.path = WEFT_SOURCE "/tests/checkpoint/weights/state_dict.pt"},
       "it holds no exported program (models/model.json); write it with torch.export.save()"},
  };
  for (const auto& c : cases) {
    const std::string text = test::refusal([&] { exported_model(c.options); });
    EXPECT_NE(text.find(c.text), std::string::npos) << text;
  }
}

TEST(ExportedModel, what_is_not_trained_is_refused_with_what_to_do) {
  constexpr size_t kDepth = 100'000;
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const struct {
    std::string path, record, from, to, text;
  } cases[] = {
      {kTokens, kProgram, "\"major\": 8", "\"major\": 9",
       "its schema is version 9, weft reads version 8; export it with PyTorch 2.11"},
      {kTokens, kProgram, "torch.ops.aten.gelu.default", "torch.ops.higher_order.cond", "control flow and regions"},
      {kTokens, kProgram, "torch.ops.aten.gelu.default", "torch.ops.mine.gelu.default",
       "a custom operator, which LibTorch does not have"},
      {kTokens, kProgram, "torch.ops.aten.gelu.default", "torch.ops.aten.guess.default", "LibTorch 2.11 has no such operator"},
      {kTokens, kProgram, "torch.ops.aten.gelu.default", "torch.ops.aten.item.default",
       "a value on the host decides what follows"},
      {kTokens, kProgram, "torch.ops.aten.gelu.default", "torch.ops.aten.from_file.default", "or a file; export a forward on"},
      {kImages, kProgram,
       "\"torch.ops.aten.relu_.default\", \"inputs\": [{\"name\": \"self\", \"arg\": {\"as_tensor\": {\"name\": "
       "\"batch_norm\"}}",
       "\"torch.ops.aten.cat.default\", \"inputs\": [{\"name\": \"tensors\", \"arg\": {\"as_tensors\": []}",
       "it is an empty list"},
      {kTokens, kProgram, "{\"name\": \"device\", \"arg\": {\"as_device\": {\"type\": \"cpu\", \"index\": null}}",
       "{\"name\": \"dtype\", \"arg\": {\"as_int\": 77}", "argument 'dtype': it is no ScalarType"},
      {kImages, kProgram, "\"as_ints\": [2, 2]", "\"as_ints\": [2, 2, 2]", "argument 'stride': it has 3 integers, not 2"},
      {kTokens, kProgram, "\"as_int\": 16", "\"as_int\": 1e300", "must be an integer of 64 bits"},
      {kTokens, kProgram, "\"as_int\": 16", "\"as_int\": 18446744073709551615", "must be an integer of 64 bits"},
      {kTokens, kProgram, "\"as_int\": 16", "\"as_int\": " + deep, "it is nested too deep"},
      {kTokens, kProgram, "\"as_device\"", "\"as_graph\"", "weft gives no value of type"},
      {kTokens, kProgram, "user_output", "buffer_mutation", "it was decomposed or made functional"},
      {kImages, kWeights, "\"dtype\": 7", "\"dtype\": 6", "its record"},
      {kImages, kWeights, "weight_0", "weight_x", "is missing; export it again"},
      {kImages, kWeights, "\"sizes\": [{\"as_int\": 4", "\"sizes\": [{\"as_int\": 5", "bytes, but its record"},
      {kImages, kWeights, "\"strides\": [{\"as_int\": 9", "\"strides\": [{\"as_int\": 3",
       "make it contiguous before exporting"},
      {kImages, kWeights, "\"as_int\": 9", "\"as_int\": 1e300", "must be an integer of 64 bits"},
      {kImages, kWeights, "\"as_int\": 9", "\"as_int\": " + deep, "it is nested too deep"},
      {kImages, "byteorder", "little", "big", "not little-endian"},
      {kImages, kProgram, "{", "[", "its program is damaged"},
  };
  Copies copies;
  for (const auto& c : cases) {
    ExportedModelOptions options = options_of(c.path);
    options.path = copies.replace(c.path, c.record, c.from, c.to);
    const std::string text = test::refusal([&] { exported_model(options); });
    EXPECT_NE(text.find(c.text), std::string::npos) << c.to << ": " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST(SizeGuards, hold_for_some_numbers_of_samples) {
  const struct {
    std::string text;
    std::set<int64_t> broken;
  } cases[] = {
      {"L['x'].size()[0] <= 3", {4, 5, 6}},
      {"(L['x'].size()[0] % 2) != 1", {1, 3, 5}},
      {"2 <= L['x'].size()[0] and not L['x'].size()[0] == 4", {1, 4}},
      {"(16*L['o'].size()[0]) == (16*L['t'].size()[0])", {}},
      {"L['ids']._base.size()[1] != 16", {}},
      {"(6 // (L['x'].size()[0] - 1)) >= 2", {1, 5, 6}},
      {"min(6, L['x'].size()[0]) == 4", {1, 2, 3, 5, 6}},
      {"Max(3, -L['x'].size()[0] + 8) > 4 or Min(L['x'].size()[0], 9) == 6", {4, 5}},
      {"not not L['xs'][1].size()[0] > 2", {1, 2}},
  };
  for (const auto& c : cases) {
    const SizeGuards guards("x.pt2", {c.text});
    for (int64_t samples = 1; samples <= 6; ++samples) {
      const std::string text = test::refusal([&] { guards.check(samples); });
      EXPECT_EQ(!text.empty(), c.broken.count(samples) > 0) << c.text << " " << samples << ": " << text;
    }
  }
  for (const char* text : {"L['x'].size()[1] == 2", "x", "2 ** 3 == 8", "1 <", "(1", "99999999999999999999 > 1", "2 + ",
                           "torch.sym_not(1)", "9223372036854775807 + 1 > 0", "L['x'].stride()[0] > L['x'].size()[0]",
                           "L[x].size()[0] > 1", "L['x']", "-(-9223372036854775807 - 1) > 0"}) {
    EXPECT_NE(test::refusal([&] { SizeGuards("x.pt2", {text}); }).find("which weft cannot read"), std::string::npos) << text;
  }
}

TEST(SizeGuards, ranges_of_the_number_of_samples_are_conditions) {
  Copies copies;
  const struct {
    std::string from, to, refused;
  } cases[] = {{R"("max_val": null)", R"("max_val": 4)",
                "with 5 samples it is not the exported forward, which is so only where L['input'].size()[0] <= 4"},
               {R"("min_val": 2)", R"("min_val": 8)", "which is so only where L['input'].size()[0] >= 8"}};
  for (const auto& c : cases) {
    ExportedModelOptions options = options_of(kImages);
    options.path = copies.replace(kImages, kProgram, c.from, c.to);
    const Model model = exported_model(options);
    const auto run = [&](int64_t samples) {
      return test::refusal([&] { model.blocks.front().block->forward({at::zeros({samples, 1, 8, 8})}, {}); });
    };
    EXPECT_NE(run(5).find(c.refused), std::string::npos) << run(5);
    EXPECT_EQ(run(c.to.ends_with("4") ? 1 : 8), "");
  }
}

TEST(ExportedModel, weights_are_of_the_file_that_it_was_read_from) {
  Copies copies;
  ExportedModelOptions options = options_of(kImages);
  options.path = copies.replace(kImages, "byteorder", "little", "little");
  Trainer trainer(Mesh(World(), {}), exported_model(options), Sgd{}, {.global_batch = 1});
  trainer.load_weights(options.path);
  trainer.load_weights(kImages);
  const std::filesystem::path path = options.path, other = options.path + ".other";
  std::filesystem::copy_file(path, other);
  std::filesystem::rename(other, path);
  for (const std::string& spelled : {options.path, (path.parent_path() / "." / path.filename()).string()}) {
    EXPECT_NE(test::refusal([&] { trainer.load_weights(spelled); }).find("replaced or changed after the model was read"),
              std::string::npos);
  }
}

ExportedModelOptions fields_with(const std::string& loss) { return {.path = kFields, .reads_arrays = true, .loss = loss}; }

TEST(ExportedLoss, says_what_its_targets_are) {
  const struct {
    std::string loss;
    ExportedArray target;
    bool has_hits;
  } cases[] = {{"cross_entropy", {at::kLong, {2}}, true},
               {"mean_squares", {at::kFloat, {2, 12}}, false},
               {kHuber, {at::kFloat, {2, 12}}, false}};
  for (const auto& c : cases) {
    const ExportedArrays arrays = exported_arrays(fields_with(c.loss));
    EXPECT_EQ(arrays.inputs, (std::vector<ExportedArray>{{at::kFloat, {3, 12}}}));
    EXPECT_EQ(arrays.target, c.target) << c.loss;
    EXPECT_EQ(static_cast<bool>(exported_model(fields_with(c.loss)).hits), c.has_hits);
  }
}

TEST(ExportedLoss, a_program_is_run_on_outputs_and_target) {
  const Loss loss = exported_model(fields_with(kHuber)).loss;
  const at::Tensor outputs = at::zeros({3, 2, 12}).requires_grad_(true), target = at::zeros({3, 2, 12}).add_(0.5);
  const LossValue value = loss({outputs}, target);
  EXPECT_EQ(int64_t{value.count}, 3 * 2 * 12);
  EXPECT_FALSE(value.weight.defined());
  EXPECT_NEAR(value.sum.item<double>(), 0.125 * 72, 1e-5) << "the scales' mean is 1";
  value.sum.backward();
  EXPECT_NEAR(outputs.grad().sum().item<double>(), -0.5 * 72, 1e-5);
}

TEST(ExportedLoss, what_does_not_fit_is_refused) {
  Copies copies;
  const struct {
    std::string model, record, from, to, text;
    bool reads_arrays = true;
  } cases[] = {
      {kFields, kProgram, "\"buffer\"", "\"buffet\"", "it has an input of kind 'buffet'"},
      {kFields, kProgram, "torch.ops.aten.huber_loss.default", "torch.ops.aten.huber.default", "has no such operator"},
      {kFields, kProgram, "user_output", "buffer_mutation", "it was decomposed or made functional"},
      {kImages, "byteorder", "little", "little",
       "input 0 is Float [samples, 2, 12], but the model's output is Float [samples, 5]", false},
  };
  for (const auto& c : cases) {
    const ExportedModelOptions options{
        .path = c.model, .reads_arrays = c.reads_arrays, .loss = copies.replace(kHuber, c.record, c.from, c.to)};
    const std::string text = test::refusal([&] { exported_model(options); });
    EXPECT_NE(text.find(c.text), std::string::npos) << c.to << ": " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST(ExportedLoss, checkpoints_know_it_by_its_graph_and_buffers) {
  const auto option = [](const std::string& loss) { return exported_model(fields_with(loss)).options.back(); };
  Copies copies;
  EXPECT_EQ(option("mean_squares").value, "mean_squares");
  const std::string known = option(kHuber).value;
  EXPECT_EQ(option(copies.replace(kHuber, "byteorder", "little", "little")).value, known) << "in another place";
  EXPECT_NE(option(copies.replace(kHuber, kProgram, "0.7", "0.9")).value, known);
  const std::string scale = Copies::record(kHuber, "data/weights/weight_0");
  EXPECT_NE(option(copies.replace(kHuber, "data/weights/weight_0", scale.substr(0, 4), std::string("\0\0\0\0", 4))).value,
            known);
}

/// Operators whose arguments do not fit: measured on the meta device, as weft memory does, and run.
TEST(ExportedModel, an_operator_that_fails_is_named_with_its_file) {
  const struct {
    std::string path, from, to, text;
  } cases[] = {
      {kTokens, "p_wpe_weight\"}}, \"kind\"", "p_norm_weight\"}}, \"kind\"",
       "operator torch.ops.aten.embedding.default ('embedding_1') of "},
      {kImages, "\"as_ints\": [2, 2]", "\"as_ints\": [0, 0]", "operator torch.ops.aten.conv2d.default ('conv2d') of "},
      {kImages, "{\"name\": \"p_0_weight\"}}, \"kind\"", "{\"name\": \"p_0_bias\"}}, \"kind\"",
       "operator torch.ops.aten.conv2d.default ('conv2d') of "},
      {kTokens, "\"as_ints\": [8]", "\"as_ints\": [8, 8, 8, 8]",
       "operator torch.ops.aten.layer_norm.default ('layer_norm') of "},
  };
  Copies copies;
  for (const auto& c : cases) {
    ExportedModelOptions options = options_of(c.path);
    options.path = copies.replace(c.path, kProgram, c.from, c.to);
    Model model = exported_model(options);
    const bool has_tokens = c.path == kTokens;
    const std::vector<int64_t> shape = has_tokens ? std::vector<int64_t>{2, 16} : std::vector<int64_t>{2, 1, 16, 16};
    const at::TensorOptions type(has_tokens ? at::kLong : at::kFloat);
    const std::string measured = test::refusal([&] { measure_cost(model, {at::empty(shape, type.device(at::kMeta))}); });
    EXPECT_NE(measured.find(c.text), std::string::npos) << measured;
    EXPECT_NE(measured.find("cannot be measured"), std::string::npos) << measured;
    try {
      run(exported_model(options), {at::zeros(shape, type)}, {.seed = 1});
      ADD_FAILURE() << c.to;
    } catch (const std::exception& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(c.text + options.path), std::string::npos) << text;
    }
  }
}

TEST(ExportedModel, memory_that_nothing_has_set_is_zero) {
  Copies copies;
  ExportedModelOptions options = options_of(kImages);
  options.path = copies.replace(kImages, kProgram, "aten.relu_.default", "aten.empty_like.default");
  const at::Tensor out = run(exported_model(options), {at::ones({2, 1, 16, 16})}, {.training = false});
  EXPECT_TRUE(at::equal(out, at::full({2, 5}, 0.25))) << "the last layer's bias";
  ExportedFile file(kImages);
  const at::Tensor bools = file.read({.record = "data/weights/weight_0", .type = at::kBool, .shape = {144}});
  EXPECT_LE(bools.view(at::kByte).max().item<int>(), 1);
}

TEST(ExportedModel, a_file_that_is_replaced_stays_as_it_was_opened) {
  Copies copies;
  ExportedFile file(copies.replace(kImages, "byteorder", "little", "little"));
  const std::string program = Copies::record(kImages, kProgram);
  std::filesystem::remove(copies.path());
  copies.replace(kTokens, "byteorder", "little", "little");
  EXPECT_EQ(file.program(), program);
}

TEST(ExportedModel, damage_shows_in_checksums) {
  Copies copies;
  const std::string whole = [] {
    std::ifstream file(kImages, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  const auto write = [&](const std::string& bytes) { std::ofstream(copies.path(), std::ios::binary) << bytes; };
  const auto weights_refused = [&](const std::string& bytes) {
    write(bytes);
    return test::refusal([&] {
      const std::unique_ptr<WeightsFile> weights = open_weights(copies.path());
      for (const std::string& name : weights->names()) weights->read(name);
    });
  };
  const auto refused = [&](const std::string& bytes) {
    write(bytes);
    const std::string text = test::refusal([&] { exported_model(options_of(copies.path())); });
    return text.empty() ? weights_refused(bytes) : text;
  };
  EXPECT_EQ(refused(whole), "");
  EXPECT_NE(refused(whole.substr(0, whole.size() / 2)).find("truncated"), std::string::npos);
  EXPECT_NE(weights_refused(whole.substr(0, whole.size() / 2)).find("x.pt2: it is no zip archive, or truncated"),
            std::string::npos);
  EXPECT_NE(weights_refused("x" + whole.substr(1)).find("x.pt2"), std::string::npos);
  const std::string weight = Copies::record(kImages, "data/weights/weight_0");
  std::string flipped = whole;
  flipped[whole.find(weight) + 5] ^= 1;
  EXPECT_NE(refused(flipped).find("record 'data/weights/weight_0' is damaged"), std::string::npos) << refused(flipped);
}

}  // namespace
}  // namespace weft::exported_test
