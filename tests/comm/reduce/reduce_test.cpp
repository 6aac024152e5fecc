// The kernels of every instruction set of this processor: the same bits as the reference, which combines elements one by one,
// and as each other. Collectives run only the best of them.
#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/comm/reference.h"
#include "weft/comm/call/call.h"
#include "weft/comm/reduce/kernels.h"

namespace weft {
namespace {

using test::make_input;
using test::reduce_all;
using test::same_bits;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kBFloat16, at::kHalf};
constexpr ReduceOp kOperations[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};

class EveryInstructionSet : public testing::Test {
 protected:
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  static TreeKernel kernel_of(int64_t target, TreeReduction kind) {
    hwy::SetSupportedTargetsForTest(target);
    const TreeKernel kernel = tree_kernel(kind);
    hwy::SetSupportedTargetsForTest(0);
    return kernel;
  }

  // Returns the kernel's result for `sources`, in each of `num_outputs` outputs.
  static std::vector<at::Tensor> run(TreeKernel kernel, const std::vector<at::Tensor>& sources, int num_outputs) {
    std::vector<at::Tensor> outputs;
    std::vector<void*> out;
    std::vector<const void*> in;
    for (int i = 0; i < num_outputs; ++i) {
      outputs.push_back(at::empty({sources[0].numel()}, sources[0].options()));
      out.push_back(outputs.back().data_ptr());
    }
    for (const at::Tensor& source : sources) in.push_back(source.const_data_ptr());
    kernel(out.data(), num_outputs, in.data(), static_cast<int>(in.size()), sources[0].numel());
    return outputs;
  }
};

// Every bit pattern of 16-bit elements, and the interesting values of wider ones. No two sources have a NaN in the same place:
// which of the two a sum keeps is unspecified.
at::Tensor special_values(int source, int num_sources, at::ScalarType dtype) {
  const double special[] = {0.0,  -0.0,  INFINITY, -INFINITY, NAN,
                            -NAN, 1e-40, -1e-40,   3e38,      std::numeric_limits<double>::denorm_min()};
  const bool narrow = c10::elementSize(dtype) == 2;
  at::Tensor values = make_input(source, narrow ? 65536 : 1000, at::isFloatingType(dtype) ? at::kDouble : dtype);
  if (at::isFloatingType(dtype) && !narrow) {
    for (int64_t k = 0; k < values.numel(); ++k) {
      if ((k / 16) % num_sources == source) values.data_ptr<double>()[k] = special[k % std::size(special)];
    }
  }
  values = values.to(dtype);
  for (int64_t k = source; narrow && k < values.numel(); k += num_sources) {
    static_cast<uint16_t*>(values.data_ptr())[k] = static_cast<uint16_t>(k);
  }
  return values;
}

// All NaNs count as equal: LibTorch's conversions keep fewer of their bits than the processor's.
bool same_bits_except_nan_payloads(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_floating_point()) return same_bits(a, b);
  return same_bits(at::isnan(a), at::isnan(b)) && same_bits(a.masked_fill(at::isnan(a), 0), b.masked_fill(at::isnan(b), 0));
}

TEST_F(EveryInstructionSet, HasItsOwnKernels) {
  const std::vector<int64_t> targets = tree_kernel_targets();
  std::set<TreeKernel> kernels;
  for (int64_t target : targets) kernels.insert(kernel_of(target, {at::kFloat, ReduceOp::sum}));
  EXPECT_EQ(kernels.size(), targets.size());
#if defined(__x86_64__)
  EXPECT_GE(targets.size(), 2u + (__builtin_cpu_supports("avx2") ? 1 : 0) + (__builtin_cpu_supports("avx512bw") ? 1 : 0));
#endif
  EXPECT_EQ(tree_kernel({at::kBool, ReduceOp::sum}), nullptr);
}

TEST_F(EveryInstructionSet, GivesTheBitsOfTheReference) {
  for (at::ScalarType dtype : kTypes) {
    for (ReduceOp op : kOperations) {
      for (int num_sources : {1, 2, 3, 4, 5, 8, 13}) {
        for (int64_t numel : {1, 63, 1000}) {
          std::vector<at::Tensor> sources;
          // Offset by one element, so that no buffer is aligned to a vector.
          for (int i = 0; i < num_sources; ++i) sources.push_back(make_input(i, numel + 1, dtype).narrow(0, 1, numel));
          const at::Tensor expected = reduce_all(sources, op);
          for (int64_t target : tree_kernel_targets()) {
            for (int num_outputs : {1, 2, 3}) {
              for (const at::Tensor& output : run(kernel_of(target, {dtype, op}), sources, num_outputs)) {
                ASSERT_TRUE(same_bits(output, expected))
                    << fmt::format("{} {}, operation {}, {} sources of {}", hwy::TargetName(target), dtype_name(dtype), int(op),
                                   num_sources, numel);
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(EveryInstructionSet, GivesTheSameBitsForInfinitiesSubnormalsAndNan) {
  for (at::ScalarType dtype : kTypes) {
    for (ReduceOp op : kOperations) {
      for (int num_sources : {1, 2, 3}) {
        std::vector<at::Tensor> sources;
        for (int i = 0; i < num_sources; ++i) sources.push_back(special_values(i, num_sources, dtype));
        const at::Tensor best = run(tree_kernel({dtype, op}), sources, 1)[0];
        EXPECT_TRUE(same_bits_except_nan_payloads(best, reduce_all(sources, op)))
            << dtype_name(dtype) << ", operation " << int(op) << ", " << num_sources << " sources";
        for (int64_t target : tree_kernel_targets()) {
          EXPECT_TRUE(same_bits(run(kernel_of(target, {dtype, op}), sources, 1)[0], best))
              << hwy::TargetName(target) << ' ' << dtype_name(dtype) << ", operation " << int(op) << ", " << num_sources
              << " sources";
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
