#include "weft/models/llama.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/nn/shards.h"
#include "tests/support/refusal.h"

namespace weft::llama_test {
namespace {

LlamaOptions small(bool tied = false) {
  return {
      .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .ffn = 24, .context = 8, .vocabulary = 11, .tied_embeddings = tied};
}

std::string names_and_shapes(const LlamaOptions& options) {
  std::string text;
  const FlatModel flat(llama(options), {});
  for (const NamedBlock& named : flat.model().blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      text += fmt::format("{}{}{} [{}]\n", named.prefix, named.prefix.empty() ? "" : ".", spec.name,
                          fmt::join(spec.parameter->value.sizes(), ", "));
    }
  }
  return text;
}

// Names as in transformers' LlamaForCausalLM.named_parameters().
TEST(Llama, ParametersAreHuggingFaces) {
  const std::string layer = R"(model.layers.N.input_layernorm.weight [16]
model.layers.N.self_attn.q_proj.weight [16, 16]
model.layers.N.self_attn.k_proj.weight [8, 16]
model.layers.N.self_attn.v_proj.weight [8, 16]
model.layers.N.self_attn.o_proj.weight [16, 16]
model.layers.N.post_attention_layernorm.weight [16]
model.layers.N.mlp.gate_proj.weight [24, 16]
model.layers.N.mlp.up_proj.weight [24, 16]
model.layers.N.mlp.down_proj.weight [16, 24]
)";
  std::string expected = "model.embed_tokens.weight [11, 16]\n";
  for (const char number : {'0', '1'}) {
    for (const char c : layer) expected += c == 'N' ? number : c;
  }
  expected += "model.norm.weight [16]\n";
  EXPECT_EQ(names_and_shapes(small(/*tied=*/true)), expected);
  EXPECT_EQ(names_and_shapes(small()), expected + "lm_head.weight [11, 16]\n");
}

TEST(Llama, FirstValuesAreNarrowNormalsAndNormsOfOne) {
  FlatModel flat(llama({.layers = 1, .heads = 2, .width = 64, .vocabulary = 64}), {});
  initialise(flat, 3);
  for (const Param& param : flat.params()) {
    const at::Tensor value = param.parameter->value.detach();
    if (param.shape.size() == 1) {
      EXPECT_TRUE(value.eq(1.0).all().item<bool>()) << param.name;
      continue;
    }
    EXPECT_NEAR(value.std().item<double>(), 0.02, 0.001) << param.name;
    EXPECT_NEAR(value.mean().item<double>(), 0.0, 0.001) << param.name;
  }
}

TEST(Llama, FeedForwardWidthIsThePapers) {
  for (const auto& [width, ffn] : std::vector<std::pair<int64_t, int64_t>>{
           {4096, 11008}, {5120, 13824}, {6656, 17920}, {8192, 22016}, {192, 512}, {1, 256}}) {
    EXPECT_EQ(llama_ffn(width), ffn) << width;
  }
}

at::Tensor logits_of(FlatModel& flat, const at::Tensor& ids) {
  Tensors x = {ids};
  for (int b = 0; b < flat.num_blocks(); ++b) x = flat.block(b).forward(x, {});
  return x[0].detach();
}

TEST(Llama, ATokenSeesWhatIsBeforeItAndWhere) {
  FlatModel flat(llama(small()), {});
  initialise(flat, 3);
  for (const Param& param : flat.params()) {
    if (param.shape.size() > 1) param.parameter->value.detach().mul_(20.0);  // makes differences visible
  }
  const at::Tensor ids = at::randint(5, {1, 8}, at::detail::createCPUGenerator(1), at::kLong), logits = logits_of(flat, ids);
  at::Tensor later = ids.clone(), earlier = ids.clone();
  later.select(1, 5).fill_(10);
  earlier.select(1, 0).fill_(7);
  earlier.select(1, 1).fill_(9);
  at::Tensor swapped = ids.clone();
  swapped.select(1, 0).fill_(9);
  swapped.select(1, 1).fill_(7);
  EXPECT_TRUE(at::equal(logits_of(flat, later).narrow(1, 0, 5), logits.narrow(1, 0, 5)));
  const auto last = [&](const at::Tensor& x) { return logits_of(flat, x).select(1, 7); };
  EXPECT_FALSE(at::allclose(last(later), logits.select(1, 7), 1e-3, 1e-3));
  EXPECT_FALSE(at::allclose(last(earlier), last(swapped), 1e-3, 1e-3)) << "positions count";
}

/// The projections of a layer, cut to half of its heads; the feed-forward half adds nothing.
at::Tensor half_of_the_heads(const at::Tensor& x, int part, int parts) {
  FlatModel flat(llama(small()), {});
  initialise(flat, 3);
  for (const ParamSpec& spec : flat.block(1).parameters()) {
    at::Tensor& value = spec.parameter->value;
    const int64_t dim = spec.name.find("o_proj") != std::string::npos ? 1 : 0;
    value = value.detach();
    if (spec.name.find("self_attn") != std::string::npos) {
      value = value.narrow(dim, value.size(dim) / parts * part, value.size(dim) / parts).clone();
    }
    if (spec.name.find("down_proj") != std::string::npos) value = value.mul(0.0);
    spec.parameter->gradient.reset();
  }
  return flat.block(1).forward({x}, {})[0].sub(x);
}

TEST(Llama, ALayerRunsWithSomeOfItsHeads) {
  const at::Tensor x = at::randn({2, 8, 16});
  const at::Tensor whole = half_of_the_heads(x, 0, 1), first = half_of_the_heads(x, 0, 2), second = half_of_the_heads(x, 1, 2);
  EXPECT_TRUE(at::allclose(first.add(second), whole, 1e-4, 1e-7));
  EXPECT_FALSE(at::allclose(first, whole, 1e-4, 1e-7));
}

TEST(Llama, RefusesSizesThatDoNotFit) {
  const auto with = [](auto change) {
    LlamaOptions options = small();
    change(options);
    return test::refusal([&] { llama(options); });
  };
  const std::string sizes =
      "model llama: layers, heads, width, context and vocabulary must all be at least 1, kv_heads and ffn 0 or more";
  EXPECT_EQ(with([](LlamaOptions& o) { o.layers = 0; }), sizes);
  EXPECT_EQ(with([](LlamaOptions& o) { o.kv_heads = -1; }), sizes);
  EXPECT_EQ(with([](LlamaOptions& o) { o.ffn = -1; }), sizes);
  EXPECT_EQ(with([](LlamaOptions& o) { o.rope_theta = 0.0; }),
            "model llama: rope_theta = 0 must be above 0, and norm_eps = 1e-05 at least 0");
  EXPECT_EQ(with([](LlamaOptions& o) { o.width = 12; }),
            "model llama: width 12 over 4 heads does not give heads an even width, which rotary positions need; the width must "
            "be a multiple of 8");
  EXPECT_EQ(with([](LlamaOptions& o) { o.kv_heads = 3; }),
            "model llama: 3 kv_heads do not divide 4 heads; heads must be a multiple");
  FlatModel flat(llama(small()), {});
  EXPECT_EQ(test::refusal([&] {
              flat.block(0).forward({at::randint(11, {1, 9}, at::kLong)}, {});
            }),
            "model llama: a sample of 9 tokens is longer than the context of 8");
}

}  // namespace
}  // namespace weft::llama_test
