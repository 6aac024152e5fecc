// weft's own kernels on several threads: LibTorch's threads take part, and the bits are the same for any number.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "weft/nn/attention/tiled.h"
#include "weft/nn/functional/column_sums.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/images/window_product.h"
#include "weft/nn/loss/class_loss.h"
#include "weft/nn/loss/mean_squares.h"
#include "weft/nn/random.h"

namespace weft::threads_test {
namespace {

struct Case {
  const char* name;
  std::function<Tensors()> run;
};

at::Tensor drawn(void (*fill)(const at::Tensor&, RandomKey, int64_t, double, double)) {
  at::Tensor x = at::empty({(1 << 19) + 5});
  fill(x, random_key(3, "w"), 7, 0.0, 1.0);
  return x;
}

/// One sample and one key-value head: only its tiles can be shared.
Case one_head(const char* name, int64_t heads, AttentionMask mask) {
  const at::Tensor q = at::randn({1, heads, 700, 64}), k = at::randn({1, 1, 700, 64}), v = at::randn({1, 1, 700, 64});
  return {name, [=] {
            const AttentionPiece whole = attend_in_tiles(q, k, v, mask);
            const AttentionGradients gradients{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
            attend_backward_in_tiles(q, q, k, v, whole, mask, gradients);
            return Tensors{whole.out, whole.logsumexp, gradients.q, gradients.k, gradients.v};
          }};
}

std::vector<Case> cases() {
  at::manual_seed(4);
  const at::Tensor x = at::randn({1 << 20}), rows = at::randn({16384, 256}), ones = at::ones({256});
  const at::Tensor ids = at::randint(256, {16384}, at::kLong), heads = at::randn({4, 8, 1024, 64});
  const at::Tensor angles = at::rand({1024, 32}), image = at::randn({4, 8, 40, 40}), filter = at::randn({8, 8, 3, 3});
  return {{"fill_normal", [] { return Tensors{drawn(fill_normal)}; }},
          {"fill_uniform", [] { return Tensors{drawn(fill_uniform)}; }},
          {"dropout", [x] { return Tensors{dropout(x, 0.3, random_key(3, "d"), 11)}; }},
          {"gelu", [x] { return Tensors{gelu_value(x)}; }},
          {"swiglu", [x] { return Tensors{swiglu_value(x, x)}; }},
          {"norm",
           [rows, ones] {
             return Tensors{normalise(rows, {ones, ones, 1e-5})};
           }},
          {"column_sums", [rows] { return Tensors{column_sums(rows, at::kFloat)}; }},
          {"class_loss", [rows, ids] { return Tensors{class_loss(rows, ids, -100)}; }},
          {"mean_squares", [x, other = x.sin()] { return Tensors{mean_squares({x}, other).sum}; }},
          {"rotary",
           [heads, angles] {
             return Tensors{rotate(heads, {angles.cos(), angles.sin()})};
           }},
          {"windows", [image, filter] { return Tensors{window_product(image, filter, {}, 1)}; }},
          one_head("attention", 1, AttentionMask::causal),
          one_head("attention_of_groups", 3, AttentionMask::none)};
}

double processor_s(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of a call: of this thread, and of the others. Over several calls, the maximum of the others' and the minimum
/// of this thread's.
struct CallTime {
  double own_s = std::numeric_limits<double>::max(), others_s = 0;
};
CallTime time_of(const Case& c, int threads) {
  at::set_num_threads(threads);
  CallTime time;
  for (int i = 0; i < 5; ++i) {
    const double own = processor_s(CLOCK_THREAD_CPUTIME_ID), all = processor_s(CLOCK_PROCESS_CPUTIME_ID);
    c.run();
    const double own_s = processor_s(CLOCK_THREAD_CPUTIME_ID) - own;
    time.own_s = std::min(time.own_s, own_s);
    time.others_s = std::max(time.others_s, processor_s(CLOCK_PROCESS_CPUTIME_ID) - all - own_s);
  }
  return time;
}

class Threads : public ::testing::Test {
 protected:
  ~Threads() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(Threads, ChangeNoBit) {
  for (const Case& c : cases()) {
    at::set_num_threads(1);
    const Tensors expected = c.run();
    for (const int threads : {2, 3, 7}) {
      at::set_num_threads(threads);
      const Tensors results = c.run();
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(results[i].equal(expected[i])) << c.name << " on " << threads << " threads, result " << i;
      }
    }
  }
}

/// Three of four threads are not the caller's. A busy machine cannot shorten their work, but may lengthen the caller's.
TEST_F(Threads, TakePart) {
  for (const Case& c : cases()) EXPECT_GT(time_of(c, 4).others_s, 0.4 * time_of(c, 1).own_s) << c.name;
}

}  // namespace
}  // namespace weft::threads_test
