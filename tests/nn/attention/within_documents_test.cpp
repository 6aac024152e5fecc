// Attention within packed documents: the results equal those of each document alone.
#include "weft/nn/attention/within_documents.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "tests/nn/relative_error.h"
#include "tests/support/refusal.h"
#include "tests/support/run_ranks.h"
#include "tests/support/seeds.h"
#include "weft/comm/mesh.h"
#include "weft/nn/attention/attention.h"

namespace weft::within_documents_test {
namespace {

/// Places for documents of these lengths, which fill a sample.
at::Tensor places_of(const std::vector<std::vector<int64_t>>& samples) {
  std::vector<at::Tensor> rows;
  for (const std::vector<int64_t>& lengths : samples) {
    std::vector<at::Tensor> documents;
    for (const int64_t length : lengths) documents.push_back(at::arange(length, at::kLong));
    rows.push_back(at::cat(documents).unsqueeze(0));
  }
  return at::cat(rows);
}

DocumentRuns runs_of(const std::vector<std::vector<int64_t>>& samples) {
  return Documents({at::Tensor(), places_of(samples)}, {}, "test").runs();
}

const std::vector<std::vector<int64_t>> kSamples = {{5, 3, 40, 2}, {50}, {50}, {1, 1, 47, 1}};

at::Tensor random(at::IntArrayRef sizes, uint64_t seed, at::ScalarType dtype = at::kFloat) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat).to(dtype);
}

/// The output and gradients of `attend` for these inputs and the given gradient of the output.
template <class Attend>
Tensors results(const Tensors& inputs, const at::Tensor& dout, const Attend& attend) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_(true));
  const at::Tensor out = attend(leaves);
  out.backward(dout);
  Tensors all = {out.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

/// Concatenates results of single documents; tokens are dim `dim` of inputs and gradients, dim 1 of the output.
template <class Attend>
Tensors one_by_one(const Tensors& inputs, const at::Tensor& dout, const DocumentRuns& runs, int64_t dim, const Attend& attend) {
  Tensors all = {at::zeros_like(dout)};
  for (const at::Tensor& input : inputs) all.push_back(at::zeros_like(input));
  const auto part = [](const at::Tensor& x, int64_t tokens_dim, const DocumentRun& run, int64_t sample) {
    return x.narrow(0, sample, 1).narrow(tokens_dim, run.begin, run.tokens);
  };
  for (const DocumentRun& run : runs) {
    for (int64_t sample = run.sample; sample < run.sample + run.samples; ++sample) {
      Tensors own;
      for (const at::Tensor& input : inputs) own.push_back(part(input, dim, run, sample).contiguous());
      const Tensors one = results(own, part(dout, 1, run, sample).contiguous(), attend);
      part(all[0], 1, run, sample).copy_(one[0]);
      for (size_t i = 1; i < all.size(); ++i) part(all[i], dim, run, sample).copy_(one[i]);
    }
  }
  return all;
}

void expect_same(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i], expected[i]))
        << i << ": " << actual[i].sub(expected[i]).abs().max().item<double>() << " apart";
  }
}

TEST(DocumentAttention, IsThatOfEachDocumentAlone) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor qkv = random({4, 50, 3 * 32}, 1, dtype), dout = random({4, 50, 32}, 2, dtype);
    const DocumentRuns runs = runs_of(kSamples);
    const Tensors packed = results({qkv}, dout, [&](const Tensors& x) { return document_attention(x[0], 4, runs); });
    expect_same(packed, one_by_one({qkv}, dout, runs, 1, [](const Tensors& x) { return attention(x[0], 4); }));
  }
}

TEST(DocumentAttention, GroupedQueriesToo) {
  const auto heads = [](int64_t number, uint64_t seed) { return random({4, 50, number, 8}, seed).transpose(1, 2); };
  const Tensors inputs = {heads(4, 1), heads(2, 2), heads(2, 3)};
  const at::Tensor dout = random({4, 50, 32}, 4);
  const DocumentRuns runs = runs_of(kSamples);
  const Tensors packed = results(inputs, dout, [&](const Tensors& x) { return document_attention(x[0], x[1], x[2], runs); });
  expect_same(packed, one_by_one(inputs, dout, runs, 2, [](const Tensors& x) { return attention(x[0], x[1], x[2]); }));
}

/// The GPU path, on the CPU: other kernels, so within rounding.
TEST(DocumentAttention, OfLibTorchsOperationsIsTheSame) {
  const auto heads = [](int64_t number, uint64_t seed) { return random({4, 50, number, 8}, seed).transpose(1, 2); };
  const Tensors inputs = {heads(4, 1), heads(2, 2), heads(2, 3)};
  const at::Tensor dout = random({4, 50, 32}, 4);
  const DocumentRuns runs = runs_of(kSamples);
  const Tensors expected = results(inputs, dout, [&](const Tensors& x) { return document_attention(x[0], x[1], x[2], runs); });
  const Tensors by_graph =
      results(inputs, dout, [&](const Tensors& x) { return document_attention_by_graph(x[0], x[1], x[2], runs); });
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_LT(test::relative_error(by_graph[i], expected[i]), 2e-6) << i;
}

TEST(DocumentAttention, RunsCoverEachTokenOnce) {
  for (const unsigned seed : test::seeds(test::cases(50))) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    const int64_t tokens = 1 + random.below(12);
    std::vector<std::vector<int64_t>> samples(static_cast<size_t>(1 + random.below(5)));
    bool several = false;
    for (auto& lengths : samples) {
      int64_t left = tokens;
      while (left > 0) {
        lengths.push_back(random.one_in(3) ? left : 1 + random.below(static_cast<int>(left)));
        left -= lengths.back();
      }
      several = several || lengths.size() > 1;
    }
    const Documents documents({at::Tensor(), places_of(samples)}, {}, "test");
    EXPECT_EQ(documents.is_packed(), several);
    EXPECT_EQ(documents.runs().empty(), !several) << "one document a sample is the usual case";
    std::vector<std::vector<int64_t>> found(samples.size());
    for (const DocumentRun& run : documents.runs()) {
      EXPECT_TRUE(run.samples == 1 || run.tokens == tokens);
      for (int64_t i = 0; i < run.samples; ++i) found[static_cast<size_t>(run.sample + i)].push_back(run.tokens);
    }
    if (several) {
      EXPECT_EQ(found, samples);
    }
  }
}

TEST(Documents, AreHandedOnWhereThereAreAny) {
  const at::Tensor x = random({1, 4, 2}, 1), places = places_of({{3, 1}});
  const Tensors with = Documents({x, places}, {}, "test").outputs_with_places(x),
                without = Documents({x}, {}, "test").outputs_with_places(x);
  ASSERT_EQ(with.size(), 2u);
  EXPECT_TRUE(with[1].is_same(places));
  EXPECT_EQ(without.size(), 1u);
}

TEST(Documents, PlacesThatAreNoneAreOneLine) {
  const auto refusal = [](const at::Tensor& places, const Context& context = {}) {
    return test::refusal([&] { Documents({places, places}, context, "h.0").check_beside(places_of({{2, 2}})); });
  };
  EXPECT_EQ(refusal(places_of({{2, 2}}).to(at::kFloat)),
            "h.0: input 1 (each token's position in its document) must be int64 [batch, tokens]; it is Float [1, 4]");
  EXPECT_NE(refusal(at::arange(4, at::kLong)).find("it is Long [4]"), std::string::npos);
  EXPECT_EQ(refusal(places_of({{2, 3}})),
            "h.0: input 1 (each token's position in its document) is Long [1, 5], but the token ids are Long [1, 4]");
  EXPECT_EQ(refusal(at::tensor({1, 2, 3, 4}, at::kLong).unsqueeze(0)),
            "h.0: input 1, sample 0, token 0: position 1 begins a sample; positions in a document are 0, 1, 2, ...");
  EXPECT_EQ(refusal(at::tensor({0, 1, 3, 4}, at::kLong).unsqueeze(0)),
            "h.0: input 1, sample 0, token 2: position 3 after 1; positions in a document are 0, 1, 2, ...");
  EXPECT_EQ(refusal(at::tensor({0, 1, 0, -1}, at::kLong).unsqueeze(0)),
            "h.0: input 1, sample 0, token 3: position -1 after 0; positions in a document are 0, 1, 2, ...");
}

TEST(Documents, DoNotGoWithSequencesThatRanksShare) {
  test::run_ranks(2, [](World world) {
    const Mesh mesh(world, {{"cp", 2}});
    const Context context{.cp = mesh.group(mesh.axis("cp"))};
    const at::Tensor places = places_of({{2, 2}}), qkv = random({1, 4, 12}, 1);
    EXPECT_NE(test::refusal([&] {
                Documents({places, places}, context, "model gpt");
              }).find("(layout.cp = 2); use cp = 1"),
              std::string::npos);
    EXPECT_NE(test::refusal([&] {
                attention(qkv, 2, context, "h.0", runs_of({{2, 2}}));
              }).find("cannot be combined with sequences"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace weft::within_documents_test
