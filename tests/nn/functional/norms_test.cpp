// Layer norm and RMS norm with additions before them and to their gradient: as exact as LibTorch's, with the same bits on any
// processor and when recomputed.
#include "weft/nn/functional/norms.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>

namespace weft::norms_test {
namespace {

struct Inputs {
  at::Tensor x, added, dy, residual;
  Norm norm;
};

enum class Kind { layer, rms };
enum class Stream { alone, joined };  ///< whether something is added before the norm and to its gradient

constexpr Kind kKinds[] = {Kind::layer, Kind::rms};
constexpr Stream kStreams[] = {Stream::alone, Stream::joined};

Inputs make(std::vector<int64_t> sizes, Kind kind, Stream stream, at::ScalarType type = at::kFloat, double offset = 0.7) {
  uint64_t seed = 0;
  const auto numbers = [&](at::IntArrayRef of) {
    return at::randn(of, at::detail::createCPUGenerator(++seed), at::kFloat).mul(1.5).to(type);
  };
  const int64_t width = sizes.back();
  Inputs in{numbers(sizes).add_(offset), {}, numbers(sizes), {}, {.weight = numbers({width})}};
  if (kind == Kind::layer) in.norm.bias = numbers({width});
  if (stream == Stream::joined) {
    in.added = numbers(sizes);
    in.residual = numbers(sizes);
  }
  return in;
}

at::Tensor to(const at::Tensor& x, at::ScalarType type) { return x.defined() ? x.detach().to(type) : x; }

Inputs to(const Inputs& in, at::ScalarType type) {
  return {to(in.x, type),
          to(in.added, type),
          to(in.dy, type),
          to(in.residual, type),
          {to(in.norm.weight, type), to(in.norm.bias, type), in.norm.eps}};
}

struct Result {
  at::Tensor sum, y, dx, of_weight, of_bias;
};

const std::vector<std::pair<const char*, at::Tensor Result::*>> kParts = {{"sum", &Result::sum},
                                                                          {"y", &Result::y},
                                                                          {"gradient of x", &Result::dx},
                                                                          {"gradient of weight", &Result::of_weight},
                                                                          {"gradient of bias", &Result::of_bias}};

Result run(const Inputs& in) {
  const Normalised n = normalise_sum(in.x, in.added, in.norm);
  EXPECT_TRUE(normalise_again({n.sum, {}, n.mean, n.scale}, in.norm).equal(n.y)) << "made again, of " << in.x.sizes();
  const NormGradients gradients = norm_gradients(in.dy, in.residual, n, in.norm);
  return {n.sum, n.y, gradients.x, gradients.weight, gradients.bias};
}

/// By LibTorch's operators and autograd, for a given sum.
Result by_autograd(const Inputs& in, const at::Tensor& sum) {
  const at::Tensor x = sum.detach().to(in.x.scalar_type()).requires_grad_(), weight = in.norm.weight.clone().requires_grad_();
  const at::Tensor bias = in.norm.centres() ? in.norm.bias.clone().requires_grad_() : at::Tensor();
  const at::Tensor y = in.norm.centres() ? at::layer_norm(x, {x.size(-1)}, weight, bias, in.norm.eps)
                                         : x.div(x.square().mean(-1, true).add(in.norm.eps).sqrt()).mul(weight);
  y.backward(in.dy);
  return {x.detach(), y.detach(), in.residual.defined() ? x.grad().add(in.residual) : x.grad(), weight.grad(),
          bias.defined() ? bias.grad() : bias};
}

/// Error relative to the largest value; absolute if that is zero.
double error_of(const at::Tensor& x, const at::Tensor& exact) {
  const double largest = exact.abs().max().item().toDouble();
  return x.to(at::kDouble).sub(exact).abs().max().item().toDouble() / (largest > 0.0 ? largest : 1.0);
}

void expect_equal(const Result& actual, const Result& expected, const std::string& what) {
  for (const auto& [name, part] : kParts) {
    ASSERT_EQ((actual.*part).defined(), (expected.*part).defined()) << name << ", " << what;
    if ((actual.*part).defined()) {
      EXPECT_TRUE((actual.*part).equal(expected.*part)) << name << ", " << what;
    }
  }
}

// Rows with and without whole vectors; more rows than one thread's sums of weight gradients cover.
const std::vector<std::vector<int64_t>> kSizes = {{1, 1},     {5, 1},    {3, 3},       {2, 3, 17}, {65, 100},
                                                  {129, 384}, {3, 1031}, {5, 20, 404}, {5000, 17}, {2, 4096}};

TEST(Norms, AreAsExactAsLibTorchs) {
  for (const auto& sizes : kSizes) {
    for (const Kind kind : kKinds) {
      for (const Stream stream : kStreams) {
        for (const double offset : {0.7, 40.0}) {           // for large means, squares about 0 give no variance
          if (offset > 1.0 && sizes.back() < 17) continue;  // with few columns, the rounding of the mean dominates the error
          const Inputs in = make(sizes, kind, stream, at::kFloat, offset);
          const Result ours = run(in), exact = by_autograd(to(in, at::kDouble), ours.sum), theirs = by_autograd(in, ours.sum);
          EXPECT_TRUE(ours.sum.equal(stream == Stream::joined ? in.x + in.added : in.x));
          for (const auto& [name, part] : kParts) {
            if (!(ours.*part).defined()) continue;
            EXPECT_LE(error_of(ours.*part, exact.*part), 2 * error_of(theirs.*part, exact.*part) + 2e-7)
                << name << (kind == Kind::layer ? " of layer norm" : " of RMS norm") << ", "
                << (stream == Stream::joined ? "joined " : "alone ") << at::IntArrayRef(sizes) << ", offset " << offset;
          }
        }
      }
    }
  }
}

/// Results are those of float32, rounded once. RMS norm's y is also rounded on the way (formulas_test.cpp), and the gradient of
/// x before the addition.
TEST(Norms, RoundBfloat16OnlyAtTheEnd) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 1}, {65, 100}, {3, 5, 404}}) {
    for (const Kind kind : kKinds) {
      for (const Stream stream : kStreams) {
        const Inputs in = make(sizes, kind, stream, at::kBFloat16);
        const Result ours = run(in);
        Inputs wide = to(in, at::kFloat);
        wide.x = ours.sum.to(at::kFloat);
        wide.added = wide.residual = at::Tensor();
        Result expected = run(wide);
        for (const auto& [name, part] : kParts) expected.*part = to(expected.*part, at::kBFloat16);
        if (kind == Kind::rms) {
          EXPECT_LE(error_of(ours.y, expected.y.to(at::kDouble)), 0.008);
          expected.y = ours.y;
        }
        if (stream == Stream::joined) {
          expected.sum = in.x + in.added;
          expected.dx = expected.dx + in.residual;
        }
        expect_equal(ours, expected, "bfloat16");
      }
    }
  }
}

TEST(Norms, HaveTheSameBitsWhateverComputes) {
  const int threads = at::get_num_threads();
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{7, 1}, {70, 17}, {65, 31}, {200, 45}, {300, 100}, {4200, 12}, {2, 1031}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const Kind kind : kKinds) {
        const Inputs in = make(sizes, kind, Stream::joined, type);
        const Result expected = run(in);
        for (const int number : {1, 2, 3}) {
          at::set_num_threads(number);
          expect_equal(run(in), expected, std::to_string(number) + " threads");
        }
        at::set_num_threads(threads);
        for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
          if ((target & (HWY_AVX3 | HWY_AVX2 | HWY_NEON)) == 0) continue;  // without fused multiply-adds
          hwy::SetSupportedTargetsForTest(target);
          expect_equal(run(in), expected, hwy::TargetName(target));
          hwy::SetSupportedTargetsForTest(0);
        }
      }
    }
  }
}

// Without fused multiply-adds bits may differ, but not the accuracy.
TEST(Norms, AreExactOnAnyProcessor) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    for (const Kind kind : kKinds) {
      const Inputs in = make({9, 100}, kind, Stream::joined);
      hwy::SetSupportedTargetsForTest(target);
      const Result ours = run(in);
      hwy::SetSupportedTargetsForTest(0);
      const Result exact = by_autograd(to(in, at::kDouble), ours.sum);
      for (const auto& [name, part] : kParts) {
        if ((ours.*part).defined()) {
          EXPECT_LE(error_of(ours.*part, exact.*part), 1e-6) << name << hwy::TargetName(target);
        }
      }
    }
  }
}

/// Types without a kernel use operators.
TEST(Norms, TakeOtherTypes) {
  for (const Kind kind : kKinds) {
    for (const Stream stream : kStreams) {
      for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14}, {at::kHalf, 2e-3}}) {
        const Inputs in = make({6, 5, 20}, kind, stream, type);
        const at::Tensor before = in.x.clone();
        const Result ours = run(in), exact = by_autograd(to(in, at::kDouble), ours.sum);
        EXPECT_TRUE(in.x.equal(before)) << "x has changed";
        for (const auto& [name, part] : kParts) {
          if (!(ours.*part).defined()) continue;
          EXPECT_EQ((ours.*part).scalar_type(), type) << name;
          EXPECT_LE(error_of(ours.*part, exact.*part), tolerance) << name << ", " << type;
        }
      }
    }
  }
}

// By kernels and by operators.
TEST(Norms, GiveWhatIsLikeTheirInput) {
  for (const Kind kind : kKinds) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      Inputs in = make({6, 20}, kind, Stream::alone, type);
      in.norm = to(in, at::kFloat).norm;
      if (kind == Kind::layer && type == at::kHalf) continue;  // LibTorch refuses that on the CPU
      EXPECT_EQ(normalise_sum(in.x, {}, in.norm).y.scalar_type(), type);
    }
  }
}

TEST(Norms, TakeAnyOrderInMemory) {
  const auto turned = [](const at::Tensor& x) { return x.transpose(0, 1).contiguous().transpose(0, 1); };
  for (const Kind kind : kKinds) {
    for (const at::ScalarType other : {at::kFloat, at::kBFloat16}) {  // type of the added tensor
      Inputs in = make({4, 7, 20}, kind, Stream::joined);
      in.added = in.added.to(other);
      const Inputs strided{turned(in.x), turned(in.added), turned(in.dy), turned(in.residual), in.norm};
      ASSERT_FALSE(strided.x.is_contiguous());
      expect_equal(run(strided), run(in), "strided");
    }
  }
}

TEST(Norms, TakeNoRows) {
  for (const Kind kind : kKinds) {
    const Inputs in = make({3, 0, 20}, kind, Stream::joined);
    const Result none = run(in);
    for (const at::Tensor& x : {none.sum, none.y, none.dx}) EXPECT_EQ(x.sizes(), in.x.sizes());
    for (const at::Tensor& x : {none.of_weight, none.of_bias}) {
      if (x.defined()) {
        EXPECT_TRUE(x.equal(in.norm.weight.mul(0.0)));
      }
    }
  }
}

TEST(Norms, HaveShapesWithoutData) {
  const auto empty = [](const at::Tensor& x) { return x.defined() ? x.to(at::kMeta) : x; };
  for (const Kind kind : kKinds) {
    const Inputs in = make({3, 50, 20}, kind, Stream::joined, at::kBFloat16);
    const Norm norm{empty(in.norm.weight), empty(in.norm.bias)};
    const Normalised kept = normalise_sum(in.x, in.added, in.norm), n = normalise_sum(empty(in.x), empty(in.added), norm);
    const NormGradients expected = norm_gradients(in.dy, in.residual, kept, in.norm),
                        gradients = norm_gradients(empty(in.dy), empty(in.residual), n, norm);
    const std::vector<std::pair<at::Tensor, at::Tensor>> pairs = {{n.sum, kept.sum},
                                                                  {n.y, kept.y},
                                                                  {n.mean, kept.mean},
                                                                  {n.scale, kept.scale},
                                                                  {gradients.x, expected.x},
                                                                  {normalise_again(n, norm), kept.y},
                                                                  {gradients.weight, expected.weight},
                                                                  {gradients.bias, expected.bias}};
    for (const auto& [meta, real] : pairs) {
      ASSERT_EQ(meta.defined(), real.defined());
      if (!real.defined()) continue;
      EXPECT_TRUE(meta.is_meta());
      EXPECT_EQ(meta.sizes(), real.sizes());
      EXPECT_EQ(meta.scalar_type(), real.scalar_type());
    }
  }
}

TEST(Norms, GiveAutogradItsGradients) {
  for (const Kind kind : kKinds) {
    for (const bool trained : {true, false}) {
      const Inputs in = make({3, 50, 20}, kind, Stream::alone);
      const Result expected = run(in);
      const at::Tensor x = in.x.clone().requires_grad_();
      Norm norm{in.norm.weight.clone().requires_grad_(trained), in.norm.bias};
      if (norm.centres()) norm.bias = norm.bias.clone().requires_grad_(trained);
      const at::Tensor y = normalise(x, norm);
      y.backward(in.dy);
      EXPECT_TRUE(y.equal(expected.y));
      EXPECT_TRUE(x.grad().equal(expected.dx));
      EXPECT_EQ(norm.weight.grad().defined(), trained);
      if (!trained) continue;
      EXPECT_TRUE(norm.weight.grad().equal(expected.of_weight));
      if (norm.centres()) {
        EXPECT_TRUE(norm.bias.grad().equal(expected.of_bias));
      }
    }
  }
}

}  // namespace
}  // namespace weft::norms_test
