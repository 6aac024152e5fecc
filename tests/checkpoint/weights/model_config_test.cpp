// Hugging Face's config.json against a model's options: errors, accepted keys and notes.
#include "weft/checkpoint/weights/model_config.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"

namespace weft::model_config_test {
namespace {

const std::vector<ModelOption> kLlama = {{"name", "llama"},
                                         {"layers", "2"},
                                         {"heads", "4"},
                                         {"kv_heads", "2"},
                                         {"width", "64"},
                                         {"ffn", "128"},
                                         {"context", "128"},
                                         {"vocabulary", "256"},
                                         {"rope_theta", "10000"},
                                         {"norm_eps", "1e-05"},
                                         {"tied_embeddings", "false"}};
const std::vector<ModelOption> kGpt = {{"name", "gpt"},
                                       {"layers", "2"},
                                       {"heads", "4"},
                                       {"width", "64"},
                                       {"context", "128"},
                                       {"vocabulary", "256"},
                                       {"tied_embeddings", "true"}};

/// A Llama's config as transformers 5 writes it.
constexpr const char* kLlamaConfig = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
  "dtype": "float32", "eos_token_id": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.2,
  "intermediate_size": 128, "max_position_embeddings": 128, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": null, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "tie_word_embeddings": false,
  "transformers_version": "5.24.0", "use_cache": true, "vocab_size": 256})";
constexpr const char* kGptConfig = R"({
  "activation_function": "gelu_new", "add_cross_attention": false, "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "embd_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_inner": null,
  "n_layer": 2, "n_positions": 128, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true,
  "summary_type": "cls_index", "vocab_size": 256})";

/// Compares a config after `change`, a JSON object whose nulls remove keys: "differences | notes".
std::string compared(const char* config, const std::vector<ModelOption>& model, const char* change) {
  const test::TempFolder folder;
  nlohmann::json json = nlohmann::json::parse(config);
  json.merge_patch(nlohmann::json::parse(change));
  const std::string path = folder.write("config.json", json.dump());
  const ConfigComparison found = compare_config(path, model);
  std::string text = fmt::format("{} | {}", fmt::join(found.differences, "; "), fmt::join(found.notes, "; "));
  if (const size_t at = text.find(path); at != std::string::npos) text.replace(at, path.size(), "config.json");
  return text;
}

TEST(ModelConfig, ComparesEveryKeyOfLlama) {
  const std::pair<const char*, const char*> rows[] = {
      {"{}", " | "},
      {R"({"num_attention_heads": 8})", "num_attention_heads = 8, model.heads is 4 (set model.heads = 8) | "},
      {R"({"num_key_value_heads": 4})", "num_key_value_heads = 4, model.kv_heads is 2 (set model.kv_heads = 4) | "},
      {R"({"num_hidden_layers": 1, "vocab_size": 255})",
       "num_hidden_layers = 1, model.layers is 2 (set model.layers = 1); vocab_size = 255, model.vocabulary is 256 (set "
       "model.vocabulary = 255) | "},
      {R"({"rms_norm_eps": null})", "rms_norm_eps = 1e-06, model.norm_eps is 1e-05 (set model.norm_eps = 1e-06) | "},
      {R"({"tie_word_embeddings": true})",
       "tie_word_embeddings = true, model.tied_embeddings is false (set model.tied_embeddings = true) | "},
      {R"({"head_dim": 32})", "head_dim = 32, model.width / model.heads is 16 | "},
      {R"({"hidden_act": "gelu"})", "hidden_act = \"gelu\", which model \"llama\" does not compute | "},
      {R"({"attention_bias": true})", "attention_bias = true, which model \"llama\" does not compute | "},
      {R"({"rope_parameters": {"rope_theta": 500000.0}})",
       "rope_theta = 500000, model.rope_theta is 10000 (set model.rope_theta = 500000) | "},
      {R"({"rope_parameters": null, "rope_theta": 10000})", " | "},
      {R"({"rope_parameters": null})", " | "},
      {R"({"rope_parameters": null, "rope_theta": 1e6})",
       "rope_theta = 1000000, model.rope_theta is 10000 (set model.rope_theta = 1000000) | "},
      {R"({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}})",
       "rope_parameters = {\"factor\":8.0,\"rope_theta\":10000.0,\"rope_type\":\"llama3\"}, which model \"llama\" does not "
       "compute | "},
      {R"({"rope_parameters": null, "rope_scaling": {"type": "linear", "factor": 4.0}})",
       "rope_scaling = {\"factor\":4.0,\"type\":\"linear\"}, which model \"llama\" does not compute | "},
      {R"({"sliding_window": 64})",
       "sliding_window = 64, which model \"llama\" does not compute (model.context <= 64 is the same) | "},
      {R"({"model_type": "mistral", "sliding_window": 4096})", " | "},
      {R"({"layer_types": ["full_attention", "linear_attention"]})",
       "layer_types = [\"full_attention\",\"linear_attention\"], which model \"llama\" does not compute | "},
      {R"({"quantization_config": {"bits": 4}})",
       "quantization_config = {\"bits\":4}, which model \"llama\" does not compute | "},
      {R"({"embedding_multiplier": 12.0})", "embedding_multiplier = 12.0, which model \"llama\" does not compute | "},
      {R"({"residual_multiplier": 1})", " | "},
      {R"({"model_type": "qwen2"})",
       "model_type = \"qwen2\", which model \"llama\" does not compute (supported: llama, mistral) | "},
      {R"({"max_position_embeddings": 64})", " | max_position_embeddings = 64, less than model.context = 128"},
      {R"({"some_new_scale": 3, "other": null})", " | not compared, unknown to weft: some_new_scale = 3"},
      {R"({"model_type": null})", " | config.json is not compared: it has no \"model_type\""},
  };
  for (const auto& [change, said] : rows) EXPECT_EQ(compared(kLlamaConfig, kLlama, change), said) << change;
}

TEST(ModelConfig, ComparesEveryKeyOfGpt) {
  const std::pair<const char*, const char*> rows[] = {
      {"{}", " | "},
      {R"({"n_head": 2})", "n_head = 2, model.heads is 4 (set model.heads = 2) | "},
      {R"({"n_inner": 256})", " | "},
      {R"({"n_inner": 512})", "n_inner = 512, which model \"gpt\" does not compute | "},
      {R"({"activation_function": "gelu"})", "activation_function = \"gelu\", which model \"gpt\" does not compute | "},
      {R"({"layer_norm_epsilon": 1e-6})", "layer_norm_epsilon = 1e-06, which model \"gpt\" does not compute | "},
      {R"({"scale_attn_by_inverse_layer_idx": true})",
       "scale_attn_by_inverse_layer_idx = true, which model \"gpt\" does not compute | "},
      {R"({"tie_word_embeddings": false})",
       "tie_word_embeddings = false, model.tied_embeddings is true (set model.tied_embeddings = false) | "},
      {R"({"model_type": "gpt_neox"})", "model_type = \"gpt_neox\", which model \"gpt\" does not compute (supported: gpt2) | "},
  };
  for (const auto& [change, said] : rows) EXPECT_EQ(compared(kGptConfig, kGpt, change), said) << change;
}

TEST(ModelConfig, NotesWhenNothingIsCompared) {
  const std::vector<ModelOption> resnet = {{"name", "resnet"}, {"depth", "18"}};
  EXPECT_EQ(compared("{}", resnet, R"({"model_type": "resnet"})"),
            " | config.json is not compared: weft reads it for gpt and llama only");
  EXPECT_EQ(compared("{}", {}, "{}"), " | config.json is not compared: weft reads it for gpt and llama only");
  const test::TempFolder folder;
  EXPECT_NE(test::refusal([&] { compare_config(folder.write("config.json", "[]"), kLlama); }).find("not a JSON object"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::model_config_test
