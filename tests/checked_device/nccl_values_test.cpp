// Collectives and messages under NCCL's rules, kept: the values are right, and nothing is said.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/checked_device/nccl_ranks.h"

namespace weft::checked_device {
namespace {

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, HaveTheRightValues) {
  const std::string said = run(GetParam(), [](const Rank& r) {
    const Engine engine = r.group("dp");
    const int64_t n = r.size;
    const double sum = static_cast<double>(n * (n + 1)) / 2;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::TensorOptions options = r.on().dtype(dtype);
      Tensors t{at::full({1000}, r.rank + 1, options)};
      engine->allreduce(t)->wait();
      expect_equal(t[0], at::full({1000}, sum, at::dtype(dtype)));
      t[0].fill_(r.rank);
      c10d::BroadcastOptions from;
      from.rootRank = n - 1;
      engine->broadcast(t, from)->wait();
      expect_equal(t[0], at::full({1000}, n - 1, at::dtype(dtype)));
      at::Tensor part = at::full({3}, r.rank, options), all = at::empty({3 * n}, options);
      engine->_allgather_base(all, part)->wait();
      expect_equal(all, at::arange(n, at::dtype(dtype)).repeat_interleave(3));
      engine->_reduce_scatter_base(part, all)->wait();
      expect_equal(part, at::full({3}, r.rank * n, at::dtype(dtype)));
      at::Tensor to = at::arange(n, options) + 10 * r.rank, from_all = at::empty({n}, options);
      std::vector<int64_t> counts(static_cast<size_t>(n), 1);
      engine->alltoall_base(from_all, to, counts, counts)->wait();
      expect_equal(from_all, at::arange(n, at::dtype(dtype)) * 10 + r.rank);
    }
    engine->barrier()->wait();
    settle(r);
    engine->shutdown();
  });
  EXPECT_EQ(said + violations(), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 4));

TEST(Messages, ReachTheirPeers) {
  const std::string said = run(4, [](const Rank& r) {
    const Engine engine = r.group("pp");
    for (int round = 0; round < 3; ++round) {
      Tensors in{at::zeros({100}, r.on())}, out{at::full({100}, 10. * round + r.rank, r.on())};
      if (r.rank > 0) {
        engine->recv(in, r.rank - 1, 0)->wait();
        expect_equal(in[0], at::full({100}, 10. * round + r.rank - 1));
      }
      if (r.rank < 3) engine->send(out, r.rank + 1, 0)->wait();
    }
    // Both ways at once, as one launch of the group.
    Tensors in{at::zeros({100}, r.on())}, out{at::full({100}, 1. * r.rank, r.on())};
    engine->startCoalescing();
    engine->send(out, r.rank ^ 1, 0);
    engine->recv(in, r.rank ^ 1, 0);
    engine->endCoalescing()->wait();
    expect_equal(in[0], at::full({100}, r.rank ^ 1, at::kFloat));
    settle(r);
    engine->shutdown();
  });
  EXPECT_EQ(said + violations(), "");
}

}  // namespace
}  // namespace weft::checked_device
