// Collectives inside a block: their outputs and gradients.
#include "weft/nn/tensor_parallel/collectives.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"

namespace weft::collectives_test {
namespace {

using Operation = std::function<at::Tensor(const at::Tensor&, const Group&)>;
using Ranks = std::vector<at::Tensor>;

/// A rank's value, [2, 4, 3]: different numbers on every rank.
at::Tensor value_of(int rank, double factor = 1.0) {
  return at::arange(24, at::kFloat).view({2, 4, 3}).add(100.0 * rank).mul(factor);
}

at::Tensor sum_of(const Ranks& all) {
  at::Tensor sum = all[0].clone();
  for (size_t i = 1; i < all.size(); ++i) sum.add_(all[i]);
  return sum;
}

at::Tensor part(const at::Tensor& whole, int ranks, int rank) {
  return whole.narrow(1, whole.size(1) / ranks * rank, whole.size(1) / ranks);
}

struct Case {
  const char* name;
  Operation run;
  std::function<at::Tensor(const Ranks& x, int rank)> forward;    ///< from all ranks' inputs
  std::function<at::Tensor(const Ranks& dy, int rank)> backward;  ///< from all ranks' gradients
  double calls;  ///< all-reduces (2) and halves of them (1) of the whole's bytes
};

int size(const Ranks& all) { return static_cast<int>(all.size()); }

const Case kCases[] = {
    {"copy_to", [](const at::Tensor& x, const Group& g) { return copy_to(x, g, "x"); },
     [](const Ranks& x, int rank) { return x[rank]; }, [](const Ranks& dy, int) { return sum_of(dy); }, 2},
    {"sum_over", [](const at::Tensor& x, const Group& g) { return sum_over(x.mul(1), g, "x"); },
     [](const Ranks& x, int) { return sum_of(x); }, [](const Ranks& dy, int rank) { return dy[rank]; }, 2},
    {"gather_over", [](const at::Tensor& x, const Group& g) { return gather_over(x, 1, g, "x"); },
     [](const Ranks& x, int) { return at::cat(x, 1); },
     [](const Ranks& dy, int rank) { return part(sum_of(dy), size(dy), rank); }, 2},
    {"sum_scatter", [](const at::Tensor& x, const Group& g) { return sum_scatter(x, 1, g, "x"); },
     [](const Ranks& x, int rank) { return part(sum_of(x), size(x), rank); },
     [](const Ranks& dy, int) { return at::cat(dy, 1); }, 2},
    {"own_part", [](const at::Tensor& x, const Group& g) { return own_part(x, 1, g, "x"); },
     [](const Ranks& x, int rank) { return part(x[rank], size(x), rank); }, [](const Ranks& dy, int) { return at::cat(dy, 1); },
     1},
    {"join_over", [](const at::Tensor& x, const Group& g) { return join_over(x, 1, g, "x"); },
     [](const Ranks& x, int) { return at::cat(x, 1); },
     [](const Ranks& dy, int rank) { return part(dy[rank], size(dy), rank); }, 1},
};

TEST(BlockCollectives, ForwardAndBackward) {
  for (const Case& c : kCases) {
    for (const int ranks : {1, 2, 4}) {
      Ranks inputs, gradients;
      for (int rank = 0; rank < ranks; ++rank) inputs.push_back(value_of(rank));
      for (int rank = 0; rank < ranks; ++rank) gradients.push_back(c.forward(inputs, rank).mul(0.5).add(rank));
      test::run_ranks(ranks, [&](const World& world) {
        const Mesh mesh(world, {{"tp", ranks}});
        const Group group = mesh.group(mesh.axis("tp"));
        const at::Tensor x = inputs[world.rank()].clone().requires_grad_();
        const at::Tensor y = c.run(x, group);
        EXPECT_TRUE(at::allclose(y, c.forward(inputs, world.rank()))) << c.name << " on " << ranks;
        y.backward(gradients[world.rank()]);
        EXPECT_TRUE(at::allclose(x.grad(), c.backward(gradients, world.rank()))) << c.name << " on " << ranks;
        if (ranks == 1) return;
        const auto whole = static_cast<double>(std::max(x.nbytes(), y.nbytes()));
        EXPECT_EQ(static_cast<double>(group.traffic().bytes), c.calls * whole * (ranks - 1) / ranks) << c.name;
      });
    }
  }
}

/// A branch's gradient may be shared with another branch.
TEST(BlockCollectives, AGradientThatOthersHaveIsNotSummedInPlace) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"tp", 2}});
    const Group group = mesh.group(mesh.axis("tp"));
    const at::Tensor x = value_of(0).requires_grad_(), other = value_of(1).requires_grad_();
    copy_to(x, group, "x").add(other).backward(at::full({2, 4, 3}, 1.0 + world.rank()));
    EXPECT_TRUE(at::allclose(x.grad(), at::full({2, 4, 3}, 3.0)));
    EXPECT_TRUE(at::allclose(other.grad(), at::full({2, 4, 3}, 1.0 + world.rank())));
  });
}

TEST(BlockCollectives, WhatDoesNotDivideIsNamed) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"tp", 2}});
    const Group group = mesh.group(mesh.axis("tp"));
    const at::Tensor odd = at::full({2, 3, 2}, 1.0);
    for (const Operation& run : {kCases[3].run, kCases[4].run}) {
      try {
        run(odd, group);
        ADD_FAILURE() << "ran";
      } catch (const InputError& error) {
        EXPECT_STREQ(error.what(),
                     "x: 3 positions along dim 1 do not divide over the 2 ranks of group \"tp\"; take a multiple");
      }
    }
  });
}

}  // namespace
}  // namespace weft::collectives_test
