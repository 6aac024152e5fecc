// llama_sample FOLDER: for several small Llamas, one file each with weights, token ids, logits, and the gradients of a loss.
// The model's options are the file's metadata.
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/write_samples.h"
#include "weft/models/llama.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/nn/random.h"

namespace {

struct Case {
  const char* name;
  weft::LlamaOptions options;
};

std::vector<Case> cases() {
  weft::LlamaOptions grouped{.layers = 2, .heads = 4, .kv_heads = 2, .width = 32, .ffn = 48, .context = 24, .vocabulary = 61};
  weft::LlamaOptions whole = grouped, one = grouped, tied = grouped, other = grouped;
  whole.kv_heads = 0;
  one.kv_heads = 1;
  tied.tied_embeddings = true;
  other.rope_theta = 500.0;
  other.norm_eps = 0.1;
  return {{"grouped", grouped}, {"whole", whole}, {"one_key", one}, {"tied", tied}, {"theta_and_eps", other}};
}

/// Draws wider values than for training, norms included, so that every part of the model affects the logits.
void draw(weft::FlatModel& flat) {
  for (const weft::Param& param : flat.params()) {
    const bool is_norm = param.shape.size() == 1;
    weft::fill_normal(param.parameter->value.detach(), weft::random_key(1, param.name), 0, is_norm ? 1.0 : 0.0, 0.2);
  }
}

std::vector<weft::NamedTensor> sample(const weft::LlamaOptions& options) {
  weft::FlatModel flat(weft::llama(options), {});
  draw(flat);
  for (int b = 0; b < flat.num_blocks(); ++b) flat.clear_gradients(b);
  auto generator = at::detail::createCPUGenerator(7);
  const at::Tensor ids = at::randint(options.vocabulary, {3, options.context}, generator, at::kLong);
  const at::Tensor target = at::randint(options.vocabulary, {3, options.context}, generator, at::kLong);
  weft::Tensors x = {ids};
  for (int b = 0; b < flat.num_blocks(); ++b) x = flat.block(b).forward(x, {});
  flat.model().loss(x, target).sum.backward();
  std::vector<weft::NamedTensor> tensors = {{"ids", ids}, {"target", target}, {"logits", x[0].detach()}};
  for (const weft::Param& param : flat.params()) {
    tensors.push_back({"weight." + param.name, param.parameter->value.detach()});
    tensors.push_back({"gradient." + param.name, param.parameter->value.grad()});
  }
  return tensors;
}

std::map<std::string, std::string> metadata(const weft::LlamaOptions& o) {
  return {{"num_hidden_layers", fmt::to_string(o.layers)},
          {"num_attention_heads", fmt::to_string(o.heads)},
          {"num_key_value_heads", fmt::to_string(o.kv_heads == 0 ? o.heads : o.kv_heads)},
          {"hidden_size", fmt::to_string(o.width)},
          {"intermediate_size", fmt::to_string(o.ffn)},
          {"max_position_embeddings", fmt::to_string(o.context)},
          {"vocab_size", fmt::to_string(o.vocabulary)},
          {"rope_theta", fmt::to_string(o.rope_theta)},
          {"rms_norm_eps", fmt::to_string(o.norm_eps)},
          {"tie_word_embeddings", o.tied_embeddings ? "True" : "False"}};
}

}  // namespace

int main(int argc, char** argv) {
  return weft::test::write_samples(
      argc, argv, "llama_sample", cases(), [](const Case& c) { return sample(c.options); },
      [](const Case& c) { return metadata(c.options); });
}
