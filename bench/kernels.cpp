// Compares weft's CPU kernels with LibTorch's operators: float32 and bfloat16, one thread, the sizes of bench/peers.
// Milliseconds as JSON.
//
// The two take turns within one run; each figure is the median of its turns. Freed memory is kept, as in `weft train`.
#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "weft/base/median.h"
#include "weft/base/stopwatch.h"
#include "weft/nn/attention/partial.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/loss/class_loss.h"
#include "weft/train/process/process_memory.h"

namespace {

constexpr int kTurns = 15;

/// Input sizes of a GPT of this width.
struct Sizes {
  int64_t batch, context, width, classes;
  at::ScalarType dtype;

  at::Tensor rows(int64_t columns) const { return at::randn({batch * context, columns}).to(dtype); }
  at::Tensor heads() const { return at::randn({batch, context, width / 64, 64}).to(dtype).transpose(1, 2); }
};

struct Kernel {
  std::string name;
  std::function<void()> libtorch, weft;
};

double milliseconds_of(const std::function<void()>& call) {
  const weft::Stopwatch watch;
  call();
  return 1e3 * watch.seconds();
}

std::string row_of(const Sizes& sizes, const Kernel& kernel) {
  std::vector<double> theirs, ours;
  for (int turn = 0; turn < kTurns; ++turn) {
    theirs.push_back(milliseconds_of(kernel.libtorch));
    ours.push_back(milliseconds_of(kernel.weft));
  }
  const double before = weft::median(theirs), after = weft::median(ours);
  return fmt::format(
      R"(  {{"kernel": "{}", "dtype": "{}", "tokens": "{} x {}", "width": {}, "libtorch": {:.3f}, "weft": {:.3f}, "ratio": {:.2f}}})",
      kernel.name, c10::toString(sizes.dtype), sizes.batch, sizes.context, sizes.width, before, after, before / after);
}

std::vector<Kernel> attention(const Sizes& sizes) {
  using weft::AttentionKernel, weft::AttentionMask;
  const at::Tensor q = sizes.heads(), k = sizes.heads(), v = sizes.heads(), dout = sizes.heads();
  const weft::AttentionPiece piece = weft::attend(q, k, v, AttentionMask::causal, AttentionKernel::flash);
  const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true);
  return {{"attention", [=] { at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true); },
           [=] { weft::attend(q, k, v, AttentionMask::causal, AttentionKernel::flash); }},
          {"attention, backward",
           [=, out = out, sums = sums] {
             at::_scaled_dot_product_flash_attention_for_cpu_backward(dout, q, k, v, out, sums, 0.0, true);
           },
           [=] { weft::attend_backward(dout, q, k, v, piece, AttentionMask::causal, AttentionKernel::flash); }}};
}

std::vector<Kernel> feed_forward(const Sizes& sizes) {
  const at::Tensor x = sizes.rows(4 * sizes.width), up = sizes.rows(4 * sizes.width), dy = sizes.rows(4 * sizes.width);
  const at::Tensor dx = at::empty_like(x), d_up = at::empty_like(x);
  return {{"GELU", [=] { at::gelu(x, "tanh"); }, [=] { weft::gelu_value(x); }},
          {"GELU, backward", [=] { at::gelu_backward(dy, x, "tanh"); }, [=] { weft::gelu_gradient(dx, dy, x); }},
          {"SwiGLU", [=] { at::silu(x).mul_(up); }, [=] { weft::swiglu_value(x, up); }},
          {"SwiGLU, backward",
           [=] {
             at::silu_backward(dy.mul(up), x);
             at::silu(x).mul_(dy);
           },
           [=] {
             weft::swiglu_gradients({dx, d_up, {}}, dy, x, up);
           }}};
}

std::vector<Kernel> positions(const Sizes& sizes) {
  const at::Tensor x = sizes.heads();
  const weft::Rotation by = weft::rotation_at(at::arange(sizes.context, at::kLong), 64, 1e4, sizes.dtype);
  const auto by_operators = [=] {
    const std::vector<at::Tensor> sides = x.chunk(2, -1);
    at::cat({at::addcmul(sides[0].mul(by.cos), sides[1], by.sin, -1), at::addcmul(sides[1].mul(by.cos), sides[0], by.sin)}, -1);
  };
  return {{"rotary embedding", by_operators, [=] { weft::rotate(x, by); }}};
}

std::vector<Kernel> norms(const Sizes& sizes) {
  const at::Tensor x = sizes.rows(sizes.width), added = sizes.rows(sizes.width), dy = sizes.rows(sizes.width);
  const weft::Norm norm{at::randn({sizes.width}).to(sizes.dtype), at::randn({sizes.width}).to(sizes.dtype), 1e-5};
  const weft::Normalised kept = weft::normalise_sum(x, added, norm);
  const auto [y, mean, scale] = at::native_layer_norm(kept.sum, {sizes.width}, norm.weight, norm.bias, norm.eps);
  return {{"sum and layer norm",
           [=] { at::native_layer_norm(at::add(x, added), {norm.weight.size(0)}, norm.weight, norm.bias, norm.eps); },
           [=] { weft::normalise_sum(x, added, norm); }},
          {"layer norm, backward, and sum",
           [=, mean = mean, scale = scale] {
             const auto [dx, dw, db] = at::native_layer_norm_backward(dy, kept.sum, {norm.weight.size(0)}, mean, scale,
                                                                      norm.weight, norm.bias, {true, true, true});
             at::add(dx, added);
           },
           [=] { weft::norm_gradients(dy, added, kept, norm); }}};
}

/// Logits are always float32.
std::vector<Kernel> losses(const Sizes& sizes) {
  if (sizes.dtype != at::kFloat) return {};
  const at::Tensor logits = at::randn({sizes.batch * sizes.context, sizes.classes}).requires_grad_(true);
  const at::Tensor target = at::randint(sizes.classes, {sizes.batch * sizes.context}, at::kLong);
  const auto backward = [logits](const at::Tensor& loss) {
    loss.backward();
    logits.mutable_grad().reset();
  };
  return {{fmt::format("loss of {} classes, and backward", sizes.classes),
           [=] { backward(at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum)); },
           [=] { backward(weft::class_loss(logits, target, -100)); }}};
}

}  // namespace

int main() {
  at::set_num_threads(1);
  weft::keep_and_reuse_memory();
  at::manual_seed(1);
  std::string rows;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Sizes& sizes :
         {Sizes{1, 64, 256, 256, dtype}, Sizes{8, 256, 384, 256, dtype}, Sizes{4, 512, 512, 8192, dtype}}) {
      for (const auto& kernels : {attention(sizes), positions(sizes), feed_forward(sizes), norms(sizes), losses(sizes)}) {
        for (const Kernel& kernel : kernels) rows += (rows.empty() ? "" : ",\n") + row_of(sizes, kernel);
      }
    }
  }
  fmt::print("[\n{}\n]\n", rows);
}
