// Layers by the operators and device kernels that other devices use, on tensors of the CPU, against weft's kernels: the same
// bits where both compute in one order, otherwise within a stated distance.
#include "weft/nn/operators_path.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/nn/relative_error.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/functional/column_sums.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft::operators_path_test {
namespace {

/// Names of the operators that this thread calls during its lifetime.
class CalledOperators {
 public:
  CalledOperators() : before_(std::exchange(names, &own_)) {
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& call) {
                                           names->insert(call.name());
                                           return std::unique_ptr<at::ObserverContext>();
                                         }).scopes({at::RecordScope::FUNCTION}));
  }
  ~CalledOperators() {
    at::removeCallback(handle_);
    names = before_;
  }
  const std::set<std::string>& get() const { return own_; }

 private:
  static thread_local std::set<std::string>* names;
  std::set<std::string> own_;
  std::set<std::string>* before_;
  at::CallbackHandle handle_;
};
thread_local std::set<std::string>* CalledOperators::names = nullptr;

at::Tensor random(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat).to(type);
}

/// Results of one computation: outputs and gradients.
struct Results {
  Tensors all;
  /// Adds y, and the gradients of the leaves for a random gradient of y.
  void add(const at::Tensor& y, const Tensors& leaves) {
    torch::autograd::backward({y}, {y.dim() > 0 ? random(y.sizes(), 99, y.scalar_type()) : at::ones({}, y.options())});
    all.push_back(y.detach());
    for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  }
};

at::Tensor leaf(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type) {
  return random(sizes, seed, type).requires_grad_();
}

void rotated(at::ScalarType type, Results& results) {
  for (const int64_t width : {2, 6, 40, 64, 128}) {
    const Rotation table = rotation_at(at::arange(9, at::kLong), width, 1e4, type);
    const at::Tensor places = at::randint(9, {3, 9}, at::detail::createCPUGenerator(5), at::kLong);
    for (const Rotation& by : {table, rotation_of_samples(table, places)}) {
      const at::Tensor x = leaf({3, 9, 10, width}, width, type);
      results.add(rotate(x.transpose(1, 2).narrow(1, 2, 5), by), {x});  // heads between other data
    }
  }
}

void gelus(at::ScalarType type, Results& results) {
  const at::Tensor x = leaf({7, 33}, 1, type);
  results.add(weft::gelu(x), {x});
}

void swiglus(at::ScalarType type, Results& results) {
  const at::Tensor gate = leaf({7, 33}, 1, type), up = leaf({7, 33}, 2, type);
  results.add(swiglu(gate, up), {gate, up});
}

void layer_norms(at::ScalarType type, Results& results) {
  const at::Tensor x = leaf({70, 33}, 1, type), weight = leaf({33}, 2, type), bias = leaf({33}, 3, type);
  results.add(normalise(x, {weight, bias}), {x, weight, bias});
}

void rms_norms(at::ScalarType type, Results& results) {
  const at::Tensor x = leaf({70, 33}, 1, type), weight = leaf({33}, 2, type);
  results.add(normalise(x, {weight}), {x, weight});
}

void sums_of_columns(at::ScalarType type, Results& results) {
  results.all.push_back(column_sums(random({300, 17}, 1, type), type));
}

void losses(at::ScalarType type, Results& results) {
  const at::Tensor logits = leaf({40, 17}, 1, at::kFloat);
  const at::Tensor target = at::randint(17, {40}, at::detail::createCPUGenerator(2), at::kLong);
  results.add(cross_entropy({logits}, target).sum, {logits});
}

void attentions(at::ScalarType type, Results& results) {
  const at::Tensor qkv = leaf({2, 40, 3 * 64}, 1, type);
  results.add(attention(qkv, 4), {qkv});
  const at::Tensor q = leaf({2, 4, 40, 16}, 2, type), k = leaf({2, 2, 40, 16}, 3, type), v = leaf({2, 2, 40, 16}, 4, type);
  results.add(attention(q, k, v), {q, k, v});
}

void packed_attentions(at::ScalarType type, Results& results) {
  const DocumentRuns runs = {{.sample = 0, .begin = 0, .tokens = 13},
                             {.sample = 0, .begin = 13, .tokens = 27},
                             {.sample = 1, .begin = 0, .tokens = 40}};
  const at::Tensor qkv = leaf({2, 40, 3 * 64}, 1, type);
  results.add(attention(qkv, 4, {}, "test", runs), {qkv});
}

void batch_norms(at::ScalarType type, Results& results) {
  const at::Tensor x = random({4, 6, 5, 7}, 1, type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const BatchNormState state{.weight = leaf({6}, 2, at::kFloat),
                             .bias = leaf({6}, 3, at::kFloat),
                             .running_mean = at::zeros({6}),
                             .running_var = at::ones({6})};
  results.add(batch_norm_relu(x, state, {}, {}), {x, state.weight, state.bias});
  results.all.insert(results.all.end(), {state.running_mean, state.running_var});
}

struct Row {
  const char* what;
  void (*run)(at::ScalarType, Results&);
  double of_float, of_bfloat16;  ///< largest difference allowed, relative to the largest value; 0: the same bits
  const char* why = "";          ///< why bits differ
};

constexpr Row kRows[] = {
    {"rotary embedding", rotated, 0.0, 0.0},
    {"gelu", gelus, 1e-6, 4e-3, "multiply-adds, which device kernels do not fuse"},
    {"swiglu", swiglus, 1e-6, 4e-3, "the same"},
    {"layer norm", layer_norms, 1e-6, 8e-3, "order of the sums over a row and over rows"},
    {"RMS norm", rms_norms, 1e-6, 8e-3, "order of the sums over a row and over rows"},
    {"column sums", sums_of_columns, 1e-6, 8e-3, "order of the sum: a tree over chunks of rows"},
    {"cross entropy", losses, 1e-6, 1e-6, "order of the sums over classes and rows; the kernel adds rows in float64"},
    {"attention", attentions, 2e-6, 2e-2, "order of the sums over keys; bfloat16 operators round the weights"},
    {"attention within documents", packed_attentions, 2e-6, 2e-2, "as attention"},
    {"batch norm with ReLU", batch_norms, 2e-6, 2e-2, "the kernel sums in float64; bfloat16 operators round before the ReLU"},
};

TEST(OperatorsPath, ComputesAsTheKernels) {
  for (const Row& row : kRows) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(fmt::format("{} in {}{}{}", row.what, c10::toString(type), *row.why ? "; bits differ by " : "", row.why));
      const auto run = [&](Results& results) {
        const CalledOperators called;
        row.run(type, results);
        return called.get();
      };
      Results by_kernel, by_operators;
      const std::set<std::string> of_kernel = run(by_kernel);
      const ForcedOperators forced;
      EXPECT_NE(run(by_operators), of_kernel) << "the kernel computed both";
      ASSERT_EQ(by_operators.all.size(), by_kernel.all.size());
      const double allowed = type == at::kFloat ? row.of_float : row.of_bfloat16;
      for (size_t i = 0; i < by_kernel.all.size(); ++i) {
        const at::Tensor &ours = by_kernel.all[i], &theirs = by_operators.all[i];
        ASSERT_EQ(theirs.scalar_type(), ours.scalar_type()) << i;
        if (allowed == 0.0) {
          EXPECT_TRUE(theirs.equal(ours)) << "result " << i << " differs by " << test::relative_error(theirs, ours);
        } else {
          EXPECT_LE(test::relative_error(theirs, ours), allowed) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::operators_path_test
