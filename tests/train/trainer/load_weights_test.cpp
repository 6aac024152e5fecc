// Other tools' weights: accepted files, files refused because the model would compute something else, and ignored parts.
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "weft/checkpoint/format/compare_checkpoints.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/model_options.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/models/resnet.h"
#include "weft/models/vision.h"
#include "weft/train/trainer/trainer.h"

namespace weft::load_weights_test {
namespace {

using test::refusal;
using test::TempFolder;

constexpr LlamaOptions kLlama = {
    .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .ffn = 32, .context = 8, .vocabulary = 13};

Trainer trainer_of(Model model, const World& world = World()) {
  return Trainer(Mesh(world, {{"shard", world.size()}}), std::move(model), Sgd{},
                 {.global_batch = 4, .micro_batch = 1, .seed = 3});
}

std::vector<NamedTensor> weights_of(Trainer& trainer) {
  std::vector<NamedTensor> weights;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) { weights.push_back({name, value.clone()}); });
  return weights;
}

std::vector<NamedTensor> llama_weights() {
  Trainer trainer = trainer_of(llama(kLlama));
  return weights_of(trainer);
}

const at::Tensor& named(const std::vector<NamedTensor>& weights, const std::string& name) {
  return std::find_if(weights.begin(), weights.end(), [&](const NamedTensor& t) { return t.name == name; })->tensor;
}

std::string said(const std::string& path, Model model, const WeightsOptions& options = {}) {
  Trainer trainer = trainer_of(std::move(model));
  return refusal([&] { trainer.load_weights(path, options); });
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

/// Options that do not affect shapes. Checkpoints and files saved by weft store them; other files are not checked.
TEST(LoadWeights, RefusesThoseOfAModelThatComputesSomethingElse) {
  struct Case {
    LlamaOptions other;
    const char* said;
  };
  Case cases[] = {{kLlama, "model.heads is 4 there, 8 here"},
                  {kLlama, "model.rope_theta is 10000 there, 500000 here"},
                  {kLlama, "model.norm_eps is 1e-05 there, 1e-06 here"}};
  cases[0].other.heads = 8;
  cases[0].other.kv_heads = 4;
  cases[1].other.rope_theta = 5e5;
  cases[2].other.norm_eps = 1e-6;
  const TempFolder folder;
  Trainer one = trainer_of(llama(kLlama));
  one.save(folder.file("a"));
  save_safetensors(folder.file("reported.safetensors"), weights_of(one), weights_metadata(one.model().model().options));
  save_safetensors(folder.file("bare.safetensors"), weights_of(one));
  for (const Case& c : cases) {
    Trainer other = trainer_of(llama(c.other));
    expect_part(refusal([&] { other.load(folder.file("a")); }), c.said);
    const LoadReport report = other.load(folder.file("a"), {.strict = false});
    ASSERT_FALSE(report.skipped.empty());
    EXPECT_EQ(report.skipped.front(), c.said);
    for (const char* file : {"a", "reported.safetensors"}) expect_part(said(folder.file(file), llama(c.other)), c.said);
    EXPECT_EQ(said(folder.file("bare.safetensors"), llama(c.other)), "");
  }
  LlamaOptions longer = kLlama;  // bounds samples, computes nothing
  longer.context = 16;
  EXPECT_EQ(said(folder.file("a"), llama(longer)), "");
  Trainer same = trainer_of(llama(longer));
  same.load(folder.file("a"));
}

/// One of an older weft, without the entry, loads.
TEST(LoadWeights, TakesCheckpointsWithoutOptions) {
  const TempFolder folder;
  Model silent = llama(kLlama);
  silent.options.clear();
  Trainer one = trainer_of(std::move(silent));
  one.save(folder.file("a"));
  EXPECT_EQ(SavedCheckpoint(folder.file("a")).index().texts.count(kModelEntry), 0u);
  Trainer other = trainer_of(llama(kLlama));
  other.load(folder.file("a"));
}

TEST(LoadWeights, EveryModelTellsWhatItIs) {
  const std::pair<Model, const char*> models[] = {{gpt({.layers = 1, .heads = 2, .width = 8}), "gpt"},
                                                  {llama(kLlama), "llama"},
                                                  {resnet({.depth = 8}), "resnet"},
                                                  {cnn({}), "cnn"},
                                                  {mlp({}), "mlp"}};
  for (const auto& [model, name] : models) {
    EXPECT_EQ(option_value(model.options, "name"), name);
    EXPECT_EQ(parse_model_options(model_options_text(model.options), "x"), model.options);
    EXPECT_TRUE(option_differences(model.options, model.options).empty());
  }
  EXPECT_EQ(option_differences(models[0].first.options, models[1].first.options),
            (std::vector<std::string>{"model.name is gpt there, llama here"}));
  EXPECT_EQ(option_differences({{"name", "exported"}, {"graph", "f00d"}}, {{"name", "exported"}, {"graph", "cafe"}}),
            (std::vector<std::string>{"model.path has another graph: its digest is f00d there, cafe here"}));
}

/// config.json next to a file, or in its folder.
TEST(LoadWeights, ReadsTheConfigNextToThem) {
  const TempFolder folder;
  save_safetensors(folder.file("model.safetensors"), llama_weights());
  nlohmann::json config = {{"model_type", "llama"},        {"num_hidden_layers", 2}, {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},     {"hidden_size", 16},      {"intermediate_size", 32},
                           {"max_position_embeddings", 8}, {"vocab_size", 13},       {"rms_norm_eps", 1e-5}};
  const std::string path = folder.write("config.json", config.dump());
  const auto both = [&] {
    const std::string of_folder = said(folder.path().string(), llama(kLlama));
    EXPECT_EQ(said(folder.file("model.safetensors"), llama(kLlama)), of_folder);
    return of_folder;
  };
  EXPECT_EQ(both(), "");
  config["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "llama3"}, {"factor", 8.0}};
  config["attention_bias"] = true;
  folder.write("config.json", config.dump());
  expect_part(both(), path + ": attention_bias = true, which model \"llama\" does not compute; rope_parameters = ");
  expect_part(both(), "set model.rope_theta = 500000");
  config = {{"model_type", "llama"}, {"num_attention_heads", 2}, {"rms_norm_eps", 1e-5}};
  folder.write("config.json", config.dump());
  expect_part(both(), path + ": num_attention_heads = 2, model.heads is 4 (set model.heads = 2)");
  folder.write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  expect_part(both(), path + ": it is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`, or remove it");
  Trainer trainer = trainer_of(resnet({.depth = 8, .classes = 2, .width = 4}));
  save_safetensors(folder.file("model.safetensors"), weights_of(trainer));
  EXPECT_EQ(trainer.load_weights(folder.path().string()).notes,
            (std::vector<std::string>{path + " is not compared: weft reads it for gpt and llama only"}));
}

/// Parts of a file that the model lacks: part of its computation, or an addition.
TEST(LoadWeights, RefusesPartsThatTheModelLacks) {
  const TempFolder folder;
  const at::Tensor one = at::ones({16});
  const std::string path = folder.file("w.safetensors");
  for (const char* name : {"model.layers.1.self_attn.q_proj.bias", "model.layers.0.self_attn.q_norm.weight", "lm_head.bias",
                           "model.layers.2.input_layernorm.weight", "embed_norm.weight", "ln_0.bias", "logit_scale",
                           "model.layers.0.mlp.up_proj.weight_scale"}) {
    std::vector<NamedTensor> weights = llama_weights();
    weights.push_back({name, one});
    save_safetensors(path, weights);
    const std::string text = said(path, llama(kLlama));
    expect_part(text, path + ": it has '" + name + "', which model 'llama' lacks");
    Trainer trainer = trainer_of(llama(kLlama));
    EXPECT_TRUE(trainer.load_weights(path, {.skip = {name}}).unused.empty());
  }
  for (const char* name : {"extra", "score.weight", "vision.norm.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    std::vector<NamedTensor> weights = llama_weights();
    weights.push_back({name, one});
    save_safetensors(path, weights);
    Trainer trainer = trainer_of(llama(kLlama));
    EXPECT_EQ(trainer.load_weights(path).unused, (std::vector<std::string>{name}));
  }
}

/// Following the advice drops the missing parts only, and nothing that the model uses.
TEST(LoadWeights, AdviceLeavesOutMissingPartsOnly) {
  const TempFolder folder;
  const std::string path = folder.file("w.safetensors");
  const auto wider = [](int64_t layers) {
    LlamaOptions options = kLlama;
    options.layers = layers;
    Trainer trainer = trainer_of(llama(options));
    return weights_of(trainer);
  };
  const auto with = [](std::vector<NamedTensor> weights, const std::vector<std::string>& names) {
    for (const std::string& name : names) weights.push_back({name, at::ones({16})});
    return weights;
  };
  Trainer net = trainer_of(resnet({.depth = 8, .width = 4}));
  const std::vector<NamedTensor> images = weights_of(net);
  struct Row {
    std::vector<NamedTensor> weights;
    std::function<Model()> model;
    std::string advice;
  };
  const auto two = [] { return llama(kLlama); };
  const auto eight = [] { return resnet({.depth = 8, .width = 4}); };
  const Row rows[] = {
      {wider(3), two, "model.layers.2.*"},
      {wider(4), two, "model.layers.2.*, model.layers.3.*"},
      {with(images, {"conv1.bias"}), eight, "conv1.bias"},
      {with(images, {"bn1.scale", "conv1.bias", "conv1.gain"}), eight, "bn1.scale, conv1.bias, conv1.gain"},
      {with(wider(2), {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.self_attn.q_proj.bias"}), two,
       "*.self_attn.q_proj.bias"},
  };
  for (const Row& row : rows) {
    save_safetensors(path, row.weights);
    expect_part(said(path, row.model()), "model.weights_skip = \"" + row.advice + "\" leaves it out");
    std::vector<std::string> patterns;
    for (size_t at = 0, end = 0; end != std::string::npos; at = end + 2) {
      end = row.advice.find(", ", at);
      patterns.push_back(row.advice.substr(at, end - at));
    }
    Trainer trainer = trainer_of(row.model());
    EXPECT_TRUE(trainer.load_weights(path, {.skip = patterns}).skipped.empty());
    for (const auto& [name, value] : weights_of(trainer)) EXPECT_TRUE(at::equal(value, named(row.weights, name))) << name;
  }
  save_safetensors(path, wider(12));
  expect_part(said(path, two()), "these are the weights of another model; set its options");
}

/// Floats of any width are taken, codes of quantized weights are not.
TEST(LoadWeights, TakesFloatsAlone) {
  const TempFolder folder;
  const std::string path = folder.file("w.safetensors");
  for (const at::ScalarType type : {at::kDouble, at::kHalf, at::kBFloat16, at::kChar, at::kComplexFloat, at::kLong}) {
    std::vector<NamedTensor> weights = llama_weights();
    for (NamedTensor& t : weights) {
      if (t.name == "lm_head.weight") t.tensor = t.tensor.to(type);
    }
    save_safetensors(path, weights);
    const std::string text = said(path, llama(kLlama));
    if (at::isFloatingType(type)) {
      EXPECT_EQ(text, "");
    } else {
      expect_part(text, path + ": 'lm_head.weight' is " + c10::toString(type) + " there");
      expect_part(text, "dequantize it");
    }
  }
}

/// torchvision counts batches, GPT-2 keeps masks.
TEST(LoadWeights, PassesOverWhatCanBeComputed) {
  const TempFolder folder;
  const std::string path = folder.file("w.safetensors");
  const auto with = [&](Model model, const char* name) {
    Trainer trainer = trainer_of(std::move(model));
    std::vector<NamedTensor> weights = weights_of(trainer);
    weights.push_back({name, at::zeros({1, 1, 8, 8})});
    save_safetensors(path, weights);
    return trainer.load_weights(path).unused;
  };
  const GptOptions small = {.layers = 1, .heads = 2, .width = 8, .context = 8, .vocabulary = 13};
  EXPECT_EQ(with(gpt(small), "h.0.attn.bias"), (std::vector<std::string>{"h.0.attn.bias"}));
  EXPECT_EQ(with(resnet({.depth = 8}), "bn1.num_batches_tracked"), (std::vector<std::string>{"bn1.num_batches_tracked"}));
}

TEST(LoadWeights, ComparesTiedEmbeddings) {
  const TempFolder folder;
  LlamaOptions tied = kLlama;
  tied.tied_embeddings = true;
  const std::string path = folder.file("w.safetensors");
  std::vector<NamedTensor> weights = llama_weights();
  save_safetensors(path, weights);
  expect_part(said(path, llama(tied)), "its 'lm_head.weight' differs from its 'model.embed_tokens.weight'");
  const at::Tensor tokens = named(weights, "model.embed_tokens.weight");
  for (NamedTensor& t : weights) {
    if (t.name == "lm_head.weight") t.tensor = tokens;
  }
  save_safetensors(path, weights);
  EXPECT_EQ(said(path, llama(tied)), "");
  std::erase_if(weights, [](const NamedTensor& t) { return t.name == "lm_head.weight"; });
  save_safetensors(path, weights);
  expect_part(said(path, llama(kLlama)),
              "it has no 'lm_head.weight'; if the embeddings are tied, set "
              "model.tied_embeddings = true");
}

/// Hugging Face's GPT-2 stores matrices transposed; under its own names, or mapped ones.
TEST(LoadWeights, SaysWhyMatricesOfGpt2DoNotFit) {
  const TempFolder folder;
  const Model model = gpt({.layers = 1, .heads = 2, .width = 8, .context = 8, .vocabulary = 13, .tied_embeddings = true});
  Trainer trainer = trainer_of(model);
  std::vector<NamedTensor> weights = weights_of(trainer);
  for (NamedTensor& t : weights) {
    if (t.name.find("attn.c_") != std::string::npos || t.name.find("mlp.c_") != std::string::npos) t.tensor = t.tensor.t();
    t.name = "transformer." + t.name;
  }
  const std::string path = folder.file("w.safetensors");
  save_safetensors(path, weights);
  const std::string names = folder.write("n.json", R"({"transformer.*": "*"})");
  const auto small = [] {
    return gpt({.layers = 1, .heads = 2, .width = 8, .context = 8, .vocabulary = 13, .tied_embeddings = true});
  };
  for (const WeightsOptions& options : {WeightsOptions{}, WeightsOptions{.names = WeightNames::from_file(names)}}) {
    expect_part(said(path, small(), options),
                "'transformer.h.0.attn.c_attn.weight' is [8, 24]: Hugging Face's GPT-2 stores "
                "matrices as [in, out], weft as [out, in]; transpose");
  }
  Trainer right = trainer_of(small());
  weights = weights_of(right);
  for (NamedTensor& t : weights) t.name = "transformer." + t.name;
  save_safetensors(path, weights);
  expect_part(said(path, small()),
              "but 'transformer.h.0.attn.c_attn.bias'; map it with a JSON model.weight_names file: "
              "{\"transformer.*\": \"*\"}");
}

TEST(LoadWeights, PassesOverWrappersInNames) {
  const TempFolder folder;
  const std::vector<NamedTensor> weights = llama_weights();
  std::vector<NamedTensor> wrapped = weights;
  for (NamedTensor& t : wrapped) t.name = "module._orig_mod." + t.name;
  save_safetensors(folder.file("w.safetensors"), wrapped);
  Model other = llama(kLlama);
  Trainer trainer(Mesh(World(), {{"shard", 1}}), std::move(other), Sgd{}, {.global_batch = 4, .micro_batch = 1, .seed = 4});
  const WeightsReport report = trainer.load_weights(folder.file("w.safetensors"));
  ASSERT_EQ(report.notes.size(), 1u);
  expect_part(report.notes.front(), "parts that PyTorch wrappers add are ignored in 21 names, first in 'module._orig_mod.");
  EXPECT_TRUE(at::equal(named(weights_of(trainer), "lm_head.weight"), named(weights, "lm_head.weight")));
}

/// A rank of a sharded or split model reads its part, from files and from checkpoints.
TEST(LoadWeights, ReadsNoMoreThanTheRankOwns) {
  const TempFolder folder;
  const std::vector<NamedTensor> weights = llama_weights();
  save_safetensors(folder.file("w.safetensors"), weights);
  trainer_of(llama(kLlama)).save(folder.file("checkpoint"));
  int64_t whole = 0;
  for (const NamedTensor& t : weights) whole += static_cast<int64_t>(t.tensor.nbytes());
  for (const std::string& path : {folder.file("w.safetensors"), folder.file("checkpoint")}) {
    std::atomic<int64_t> read = 0;
    test::run_ranks(2, [&](World world) {
      LayoutOptions layout;
      layout.shard_level = ShardLevel::parameters;
      Trainer trainer(Mesh(world, {{"shard", 2}}), llama(kLlama), Sgd{},
                      {.global_batch = 4, .micro_batch = 1, .seed = 5, .layout = layout});
      const int64_t bytes = trainer.load_weights(path).bytes_read;
      EXPECT_LT(bytes, whole * 7 / 10);
      read += bytes;
      for (const auto& [name, value] : weights_of(trainer)) EXPECT_TRUE(at::equal(value, named(weights, name))) << name;
    });
    EXPECT_EQ(read, whole);
  }
}

TEST(LoadWeights, AreTheSameOnAllRanks) {
  const TempFolder folder;
  std::vector<NamedTensor> weights = llama_weights();
  save_safetensors(folder.file("0.safetensors"), weights);
  weights.back().tensor = weights.back().tensor + 1.0;
  save_safetensors(folder.file("1.safetensors"), weights);
  test::run_ranks(2, [&](World world) {
    Trainer trainer = trainer_of(llama(kLlama), world);
    const std::string own = folder.file(std::to_string(world.rank()) + ".safetensors");
    expect_part(refusal([&] { trainer.load_weights(own); }), "rank 1 reads other weights there than rank 0");
    trainer.load_weights(folder.file("0.safetensors"));
  });
}

/// Also on several ranks, which compare what they read.
TEST(LoadWeights, UnusedTensorsMayHaveAnyType) {
  const TempFolder folder;
  std::vector<NamedTensor> weights = llama_weights();
  weights.push_back({"extra", at::ones({16}, at::TensorOptions(at::kShort))});
  save_safetensors(folder.file("shorts.safetensors"), weights);
  std::string bytes = test::read_file(folder.file("shorts.safetensors"));
  bytes.replace(bytes.find("\"I16\""), 5, "\"U16\"");
  const std::string path = folder.write("w.safetensors", bytes);
  test::run_ranks(2, [&](World world) {
    Trainer trainer = trainer_of(llama(kLlama), world);
    EXPECT_EQ(trainer.load_weights(path).unused, std::vector<std::string>{"extra"});
  });
}

/// Fine-tuning on other classes, on one rank and on two.
TEST(LoadWeights, SkipsParametersThatKeepRandomValues) {
  const TempFolder folder;
  const auto net = [](int64_t classes) { return resnet({.depth = 8, .classes = classes, .width = 4}); };
  Trainer ten = trainer_of(net(10));
  std::vector<NamedTensor> weights = weights_of(ten);
  for (NamedTensor& t : weights) t.tensor = t.tensor.add(1.0);
  const std::string path = folder.file("w.safetensors");
  save_safetensors(path, weights, weights_metadata(ten.model().model().options));
  Trainer five = trainer_of(net(5));
  const std::vector<NamedTensor> drawn = weights_of(five);
  for (const int ranks : {1, 2}) {
    test::run_ranks(ranks, [&](World world) {
      Trainer trainer = trainer_of(net(5), world);
      const WeightsReport report = trainer.load_weights(path, {.skip = {"fc.*"}});
      EXPECT_EQ(report.skipped, (std::vector<std::string>{"fc.bias", "fc.weight"}));
      EXPECT_TRUE(report.unused.empty());
      for (const auto& [name, value] : weights_of(trainer)) {
        EXPECT_TRUE(at::equal(value, named(name.starts_with("fc.") ? drawn : weights, name))) << name;
      }
    });
  }
  expect_part(said(path, net(5)),
              "model.classes is 10 there, 5 here: these are the weights of another model; set its options; "
              "with other classes or another vocabulary, model.weights_skip keeps");
  save_safetensors(path, weights);
  expect_part(said(path, net(5)),
              "'fc.bias' is [10] there, [5] in the model; 'fc.weight' is [10, 16] there, [5, 16] in the model; "
              "with other classes or another vocabulary, model.weights_skip keeps");
  expect_part(said(path, net(5), {.skip = {"fc.*", "head.*"}}), "model.weights_skip: 'head.*' matches no parameter");
}

}  // namespace
}  // namespace weft::load_weights_test
