// Packed documents: a model gives each the same logits and gradients as alone.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/nn/shards.h"
#include "tests/support/refusal.h"
#include "weft/models/llama.h"

namespace weft::packed_test {
namespace {

constexpr int64_t kContext = 24, kIgnored = -100;

struct Kind {
  const char* name;
  Model (*make)();
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"gpt", [] { return gpt({.layers = 2, .heads = 2, .width = 16, .context = kContext, .vocabulary = 11}); }},
      {"tied_gpt",
       [] {
         return gpt({.layers = 2, .heads = 2, .width = 16, .context = kContext, .vocabulary = 11, .tied_embeddings = true});
       }},
      {"llama", [] {
         return llama({.layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .ffn = 24, .context = kContext, .vocabulary = 11});
       }}};
  return all;
}

/// A model's output for one batch, and the gradients that it adds.
struct Result {
  at::Tensor logits;
  double loss = 0.0;
};

/// Values large enough that positions and neighbours matter.
std::unique_ptr<FlatModel> flat_model(const Kind& kind) {
  auto flat = std::make_unique<FlatModel>(kind.make(), FlatOptions{});
  initialise(*flat, 3);
  for (const Param& param : flat->params()) {
    if (param.shape.size() > 1) param.parameter->value.detach().mul_(10.0);
  }
  return flat;
}

Result run(FlatModel& flat, Tensors inputs, const at::Tensor& target, const Context& context = {}) {
  for (int b = 0; b < flat.num_blocks(); ++b) inputs = flat.block(b).forward(inputs, context);
  EXPECT_EQ(inputs.size(), 1u) << "logits alone";
  const LossValue loss = flat.model().loss(inputs, target);
  loss.sum.backward();
  return {inputs[0].detach(), loss.sum.item<double>()};
}

std::map<std::string, at::Tensor> gradients_of(FlatModel& flat) {
  for (int b = 0; b < flat.num_blocks(); ++b) flat.settle_gradients(b, {});
  std::map<std::string, at::Tensor> all;
  for (const Param& param : flat.params()) all[param.name] = param.parameter->gradient.clone();
  return all;
}

void clear(FlatModel& flat) {
  for (int b = 0; b < flat.num_blocks(); ++b) flat.clear_gradients(b);
}

struct Packed {
  at::Tensor ids, places, target;
};

/// Packed documents of these lengths, followed by padding.
Packed packed(const std::vector<std::vector<int64_t>>& samples) {
  const auto count = static_cast<int64_t>(samples.size());
  Packed all{at::randint(11, {count, kContext}, at::detail::createCPUGenerator(5), at::kLong), {}, {}};
  all.target = at::full({count, kContext}, kIgnored, at::kLong);
  all.places = at::full({count, kContext}, 0, at::kLong);
  for (int64_t s = 0; s < count; ++s) {
    int64_t begin = 0;
    for (const int64_t length : samples[static_cast<size_t>(s)]) {
      all.places[s].narrow(0, begin, length).copy_(at::arange(length, at::kLong));
      all.target[s].narrow(0, begin, length).copy_(at::randint(11, {length}, at::detail::createCPUGenerator(7), at::kLong));
      begin += length;
    }
    if (begin < kContext) all.places[s].narrow(0, begin, kContext - begin).copy_(at::arange(kContext - begin, at::kLong));
  }
  return all;
}

class PackedTest : public ::testing::TestWithParam<Kind> {};

TEST_P(PackedTest, DocumentsSideBySideAreEachAsAlone) {
  const std::vector<std::vector<int64_t>> samples = {{9, 5, 1, 9}, {24}, {3, 17}};
  const Packed all = packed(samples);
  for (const bool again : {false, true}) {
    const Context context{.layout = {.recompute_parts = again}};
    const auto flat = flat_model(GetParam());
    clear(*flat);
    const Result together = run(*flat, {all.ids, all.places}, all.target, context);
    const auto gradients = gradients_of(*flat);
    clear(*flat);
    double loss = 0.0;
    for (size_t s = 0; s < samples.size(); ++s) {
      int64_t begin = 0;
      const auto part = [&](const at::Tensor& x, int64_t length) {
        return x.narrow(0, static_cast<int64_t>(s), 1).narrow(1, begin, length);
      };
      for (const int64_t length : samples[s]) {
        const Result one = run(*flat, {part(all.ids, length).contiguous()}, part(all.target, length).contiguous(), context);
        loss += one.loss;
        EXPECT_TRUE(at::allclose(part(together.logits, length), one.logits, 1e-5, 1e-5)) << s << ", " << begin;
        begin += length;
      }
    }
    EXPECT_NEAR(together.loss, loss, 1e-5 * loss);
    for (const auto& [name, gradient] : gradients_of(*flat)) {
      const double largest = gradient.abs().max().item<double>();
      EXPECT_GT(largest, 0.0) << name;
      EXPECT_LE(gradients.at(name).sub(gradient).abs().max().item<double>(), 2e-6 * largest) << name;
    }
  }
}

/// Same bits as a batch without document positions.
TEST_P(PackedTest, OneDocumentASampleChangesNoBit) {
  const Packed all = packed({{24}, {24}, {24}});
  const auto flat = flat_model(GetParam());
  clear(*flat);
  const Result with = run(*flat, {all.ids, all.places}, all.target);
  const auto gradients = gradients_of(*flat);
  clear(*flat);
  const Result without = run(*flat, {all.ids}, all.target);
  EXPECT_TRUE(at::equal(with.logits, without.logits));
  EXPECT_EQ(with.loss, without.loss);
  for (const auto& [name, gradient] : gradients_of(*flat)) EXPECT_TRUE(at::equal(gradients.at(name), gradient)) << name;
}

/// For any padding tokens.
TEST_P(PackedTest, PaddingChangesNothing) {
  Packed all = packed({{9, 5}, {3}});
  const auto flat = flat_model(GetParam());
  clear(*flat);
  const Result before = run(*flat, {all.ids, all.places}, all.target);
  const auto gradients = gradients_of(*flat);
  all.ids = all.ids.clone();
  all.ids[0].narrow(0, 14, 10).fill_(7);
  all.ids[1].narrow(0, 3, 21).fill_(2);
  clear(*flat);
  const Result after = run(*flat, {all.ids, all.places}, all.target);
  EXPECT_EQ(before.loss, after.loss);
  for (const auto& [name, gradient] : gradients_of(*flat)) EXPECT_TRUE(at::equal(gradients.at(name), gradient)) << name;
}

TEST_P(PackedTest, PlacesThatDoNotFitAreOneLine) {
  const auto flat = flat_model(GetParam());
  const at::Tensor ids = packed({{24}}).ids;
  const std::string model = GetParam().name == std::string("llama") ? "model llama" : "model gpt";
  const auto refusal = [&](const at::Tensor& places) {
    return test::refusal([&] { flat->block(0).forward({ids, places}, {}); });
  };
  EXPECT_EQ(refusal(at::arange(12, at::kLong).view({1, 12})),
            model + ": input 1 (each token's position in its document) is Long [1, 12], but the token ids are Long [1, 24]");
  EXPECT_NE(refusal(at::arange(24, at::kInt).view({1, 24})).find("must be int64 [batch, tokens]; it is Int [1, 24]"),
            std::string::npos);
  EXPECT_NE(refusal(at::arange(1, 25, at::kLong).view({1, 24})).find("position 1 begins a sample"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, PackedTest, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft::packed_test
