#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"
using namespace weft;
TEST(Smoke, Shm) {
  for (BackendKind kind : {BackendKind::shm, BackendKind::gloo})
    for (int n : {1, 2, 3, 4, 8}) {
      test::run_ranks(n, [n, kind](World world) {
        Mesh mesh(world, {{"dp", n}});
        Group g = mesh.group(mesh.axis("dp"), {.backend = kind});
        for (int64_t numel : {0, 1, 7, 1000, 100003, 1000000}) {
          for (bool reg : {false, true}) {
            at::Tensor t = reg ? g.allocate(numel, at::kFloat, "buf") : at::full({numel}, 0.0f);
            t.fill_(world.rank() + 1);
            g.all_reduce(t, ReduceOp::sum, "t").wait();
            ASSERT_TRUE(at::equal(t, at::full({numel}, n * (n + 1) / 2.0f))) << n << " " << numel << reg;
            t.fill_(world.rank());
            g.broadcast(t, n - 1, "b").wait();
            ASSERT_TRUE(at::equal(t, at::full({numel}, n - 1.0f)));
            g.barrier("bar").wait();
          }
        }
      });
    }
}
