#include "weft/train/measure/operator_samples.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/add.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "weft/nn/attention/attention.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/graph.h"
#include "weft/nn/images/channel_passes.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/random.h"
#include "weft/train/measure/operator_clock.h"

namespace weft {
namespace {

using TimedCall = std::function<void()>;

// [rows, columns, inner] of a linear layer's forward: tokens, outputs, inputs.
constexpr std::array<std::array<int64_t, 3>, 15> kProducts = {{{64, 64, 64},
                                                               {128, 192, 192},
                                                               {128, 768, 192},
                                                               {256, 256, 1024},
                                                               {512, 64, 512},
                                                               {512, 1536, 384},
                                                               {1024, 192, 192},
                                                               {1024, 384, 64},
                                                               {1024, 32, 1024},
                                                               {2048, 576, 192},
                                                               {2048, 192, 768},
                                                               {4096, 256, 192},
                                                               {4096, 64, 128},
                                                               {32, 1024, 512},
                                                               {256, 2048, 96}}};

struct ConvolutionShape {
  int64_t samples, channels, filters, size, kernel, stride;
};
constexpr std::array<ConvolutionShape, 24> kConvolutions = {
    {{64, 3, 16, 32, 3, 1},   {128, 3, 16, 32, 3, 1}, {128, 1, 32, 28, 3, 1},  {64, 16, 16, 32, 3, 1},  {64, 32, 64, 14, 3, 1},
     {128, 16, 32, 32, 3, 2}, {64, 64, 64, 8, 3, 1},  {128, 16, 32, 32, 1, 2}, {64, 1, 32, 28, 3, 1},   {16, 16, 16, 32, 3, 1},
     {32, 32, 64, 14, 3, 1},  {8, 64, 64, 16, 3, 1},  {16, 32, 32, 16, 3, 1},  {32, 16, 32, 32, 3, 2},  {16, 64, 128, 16, 3, 2},
     {8, 128, 128, 8, 3, 1},  {4, 256, 256, 7, 3, 1}, {32, 64, 64, 8, 3, 1},   {16, 64, 256, 14, 1, 1}, {16, 256, 64, 14, 1, 1},
     {32, 16, 32, 32, 1, 2},  {32, 32, 64, 16, 1, 2}, {8, 128, 512, 7, 1, 1},  {8, 512, 128, 7, 1, 1}}};

struct AttentionShape {
  int64_t samples, tokens, heads, width;
};
constexpr std::array<AttentionShape, 7> kAttentions = {
    {{8, 128, 6, 32}, {4, 256, 6, 64}, {1, 1024, 4, 64}, {2, 512, 8, 32}, {4, 64, 4, 16}, {16, 64, 4, 32}, {1, 512, 4, 128}}};

struct PoolShape {
  int64_t samples, channels, size, window;  // of stride 2
};
constexpr std::array<PoolShape, 6> kPools = {
    {{1, 16, 28, 2}, {8, 16, 28, 2}, {16, 64, 14, 2}, {32, 32, 28, 2}, {4, 64, 32, 3}, {16, 32, 32, 3}}};

// [rows, width] of activations.
constexpr std::array<std::array<int64_t, 2>, 7> kRows = {
    {{1, 64}, {64, 192}, {512, 192}, {2048, 192}, {2048, 768}, {4096, 768}, {8192, 1024}}};

constexpr double kLeastShare = 0.1;  ///< of two times, as a share of the longer one

class OperatorSampler {
 public:
  OperatorSampler(at::Device device, int turns, const TimedCall& before)
      : device_(device), before_(before), clock_(device, turns) {}

  void measure(at::ScalarType type) {
    options_ = at::TensorOptions(type).device(device_);
    element_bytes_ = static_cast<int>(c10::elementSize(type));
    for (const auto& shape : kProducts) products(shape[0], shape[1], shape[2]);
    for (const ConvolutionShape& shape : kConvolutions) convolutions(shape);
    for (const PoolShape& shape : kPools) pools(shape);
    for (const auto& shape : kRows) {
      if (type == at::kFloat) updates(shape[0] * shape[1]);
    }
    for (const AttentionShape& shape : kAttentions) attentions(shape);
    for (const auto& shape : kRows) {
      norms(shape[0], shape[1]);
      channels(shape[0], shape[1]);
      activations(shape[0], shape[1]);
      losses(shape[0], shape[1]);
      tables(shape[0], shape[1]);
      others(shape[0], shape[1]);
    }
  }

  std::vector<OperatorSample> take() { return std::move(samples_); }

 private:
  double seconds(const TimedCall& call) const {
    before_();
    return clock_.seconds(call);
  }
  void add(OperatorClass of, const OperatorLoad& load, double seconds) {
    samples_.push_back({of, element_bytes_, load, seconds});
  }
  void add(const OperatorWork& work, const TimedCall& call) { add(class_of(work), load_of(work), seconds(call)); }

  /// What a call takes longer than another; 0 if most of the difference may be noise.
  void add_difference(const OperatorWork& work, double longer, double shorter) {
    const double difference = longer - shorter;
    add(class_of(work), load_of(work), difference >= kLeastShare * longer ? difference : 0.0);
  }

  /// An operator that reads or writes all of these tensors.
  void add(MemoryClass of, bool is_backward, std::initializer_list<at::Tensor> tensors, const TimedCall& call) {
    add(memory_work(of, is_backward, tensors), call);
  }
  OperatorWork memory_work(MemoryClass of, bool is_backward, std::initializer_list<at::Tensor> tensors) const {
    OperatorWork work{.of = of, .is_backward = is_backward, .element_bytes = element_bytes_};
    for (const at::Tensor& x : tensors) {
      work.bytes += static_cast<int64_t>(x.nbytes());
      work.elements = std::max(work.elements, x.numel());
    }
    return work;
  }

  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, options_); }
  at::Tensor room(at::IntArrayRef sizes) const { return at::empty(sizes, options_); }

  void products(int64_t rows, int64_t columns, int64_t inner) {
    const at::Tensor x = random({rows, inner}), weight = random({columns, inner}), bias = random({columns});
    const at::Tensor dy = random({rows, columns}), dx = room({rows, inner}), gradient = room({columns, inner});
    OperatorWork work{
        .kind = OperatorKind::product, .element_bytes = element_bytes_, .rows = rows, .columns = columns, .inner = inner};
    add(work, [&] { multiply_with_bias(x, weight, bias); });
    work.columns = inner, work.inner = columns;
    add(work, [&] { multiply(dx, dy, weight); });
    work.form = ProductForm::turned;
    work.rows = columns, work.columns = inner, work.inner = rows;
    add(work, [&] { multiply(gradient, dy.t(), x); });
    work.adds = true;
    add(work, [&] { multiply_add(gradient, dy.t(), x); });
  }

  void convolutions(const ConvolutionShape& s) {
    const at::Tensor x = channels_last(random({s.samples, s.channels, s.size, s.size}));
    const at::Tensor weight = random({s.filters, s.channels, s.kernel, s.kernel});
    const int64_t padding = s.kernel / 2;
    const auto forward = [&] { return at::conv2d(x, weight, {}, s.stride, padding); };
    const at::Tensor dy = channels_last(at::empty_like(forward()).fill_(0.5));
    const int64_t pixels = s.samples * dy.size(2) * dy.size(3), window = s.kernel * s.kernel;
    OperatorWork work{.kind = OperatorKind::product,
                      .element_bytes = element_bytes_,
                      .form = ProductForm::convolution,
                      .window = static_cast<int>(window),
                      .rows = pixels,
                      .columns = s.filters,
                      .inner = s.channels * window};
    add(work, forward);
    const auto backward = [&](std::array<bool, 3> wanted) {
      at::convolution_backward(dy, x, weight, c10::nullopt, {s.stride, s.stride}, {padding, padding}, {1, 1}, false, {0, 0}, 1,
                               wanted);
    };
    const auto [rows, columns, inner] = std::tuple(work.rows, work.columns, work.inner);
    work.form = ProductForm::filters;
    work.rows = columns, work.columns = inner, work.inner = rows;
    add(work, [&] { backward({false, true, false}); });
    if (s.channels <= 3) return;  // images have no gradients
    work.form = ProductForm::image;
    work.rows = rows, work.columns = inner, work.inner = columns;
    add(work, [&] { backward({true, false, false}); });
  }

  void pools(const PoolShape& s) {
    const at::Tensor x = channels_last(random({s.samples, s.channels, s.size, s.size}));
    const int64_t padding = (s.window - 1) / 2;
    const auto forward = [&] { return at::max_pool2d_with_indices(x, s.window, 2, padding); };
    const auto [y, indices] = forward();
    add(MemoryClass::pool, false, {x, y, indices}, forward);
    const at::Tensor dy = at::empty_like(y).fill_(0.5);
    add(MemoryClass::pool, true, {dy, x, indices, x},
        [&, &indices = indices] { at::max_pool2d_with_indices_backward(dy, x, s.window, 2, padding, 1, false, indices); });
  }

  void attentions(const AttentionShape& s) {
    const at::Tensor qkv = random({s.samples, s.tokens, 3 * s.heads * s.width}),
                     gradient = random({s.samples, s.tokens, s.heads * s.width});
    OperatorWork work{.kind = OperatorKind::attention,
                      .is_causal = true,
                      .element_bytes = element_bytes_,
                      .batch = s.samples,
                      .rows = s.tokens,
                      .columns = s.tokens,
                      .inner = s.width,
                      .heads = s.heads,
                      .kv_heads = s.heads};
    const double forward = seconds([&] { attention(qkv, s.heads); });
    add(class_of(work), load_of(work), forward);
    const double both = seconds([&] {
      const at::AutoGradMode with_graph(true);
      const at::Tensor leaf = qkv.detach().requires_grad_();
      run_backward(Tensors{attention(leaf, s.heads)}, {gradient});
    });
    work.is_backward = true;
    add_difference(work, both, forward);
  }

  void norms(int64_t rows, int64_t width) {
    const at::Tensor x = random({rows, width}), added = random({rows, width}), dy = random({rows, width});
    for (const bool centres : {true, false}) {
      const Norm norm{random({width}), centres ? random({width}) : at::Tensor()};
      add(MemoryClass::norm, false, {x, dy}, [&] { normalise_sum(x, {}, norm); });
      add(MemoryClass::norm, false, {x, added, dy, dy}, [&] { normalise_sum(x, added, norm); });
      const Normalised kept = normalise_sum(x, {}, norm);
      add(MemoryClass::norm, true, {x, dy, added, dy}, [&] { norm_gradients(dy, added, kept, norm); });
    }
  }

  /// The passes of batch norm on CPUs.
  void channels(int64_t rows, int64_t width) {
    if (!has_weft_kernel(ModelOperation::batch_norm, device_)) return;
    const int64_t channels = std::min<int64_t>(width, 64);
    const auto image = [&] { return channels_last(random({rows * width / channels, channels, 1, 1})); };
    const at::Tensor x = image(), dy = image(), y = image(), dx = at::empty_like(x);
    const at::Tensor scale = at::ones({channels});
    add(MemoryClass::channels, false, {x}, [&] { channel_sums(x); });
    add(MemoryClass::channels, false, {x, y}, [&] { scale_channels(x, scale, scale, {}, true); });
    add(MemoryClass::channels, false, {x, dy, y}, [&] { scale_channels(x, scale, scale, dy, true); });
    add(MemoryClass::channels, true, {x, dy, y}, [&] { gradient_sums({dy, y, x, scale}, {}); });
    add(MemoryClass::channels, true, {x, dy, y, dx}, [&] { gradient_of_x(dx, {dy, y, x, scale}, scale, scale, scale); });
  }

  void activations(int64_t rows, int64_t width) {
    const at::Tensor x = random({rows, width}), dy = random({rows, width}), up = random({rows, width});
    const at::Tensor y = at::empty_like(x), dx = at::empty_like(x), d_up = at::empty_like(x);
    add(MemoryClass::activation, false, {x, y}, [&] { gelu_value(x); });
    add(MemoryClass::activation, true, {x, dy, dx, y}, [&] { gelu_gradient_and_value(dx, y, dy, x); });
    add(MemoryClass::activation, false, {x, up, y}, [&] { swiglu_value(x, up); });
    add(MemoryClass::activation, true, {x, up, dy, dx, d_up, y}, [&] { swiglu_gradients({dx, d_up, y}, dy, x, up); });
    const int64_t tokens = std::min<int64_t>(rows, 128), head = 32;  // rows is a multiple of tokens
    const at::Tensor heads = random({rows / tokens, width / head, tokens, head});
    const Rotation rotation = rotation_at(at::ones({tokens}, at::TensorOptions(at::kLong).device(device_)), head, 1e4,
                                          options_.dtype().toScalarType());
    add(MemoryClass::rotary, false, {heads, heads}, [&] { rotate(heads, rotation); });
    const RandomKey key = random_key(1, "calibrate");
    const double whole = seconds([&] { dropout(x, 0.1, key, 0); });
    const at::Tensor mask = at::zeros(x.sizes(), options_.dtype(at::kBool));
    const double without = seconds([&] { at::mul(x, 1.1).masked_fill_(mask, 0); });
    add_difference(memory_work(MemoryClass::dropout, false, {mask}), whole, without);
  }

  void losses(int64_t rows, int64_t width) {
    const at::Tensor logits = random({rows, width}), classes = at::randint(width, {rows}, options_.dtype(at::kLong));
    const at::AutoGradMode with_graph(true);
    const at::Tensor leaf = logits.to(at::kFloat).requires_grad_();
    if (element_bytes_ == 4) add(MemoryClass::loss, false, {logits, logits}, [&] { cross_entropy_of_ids(leaf, classes); });
  }

  void tables(int64_t rows, int64_t width) {
    const at::Tensor table = random({512, width}), ids = at::randint(512, {rows}, options_.dtype(at::kLong)),
                     dy = random({rows, width});
    add(MemoryClass::embedding, false, {ids, dy, dy}, [&] { at::embedding(table, ids); });
    add(MemoryClass::embedding, true, {ids, dy, table}, [&] { at::embedding_dense_backward(dy, ids, 512, -1, false); });
  }

  void others(int64_t rows, int64_t width) {
    const at::Tensor x = random({rows, width}), y = random({rows, width}), sum = random({rows, width});
    add(MemoryClass::other, false, {x, y, sum}, [&] { at::add(x, y); });
    add(MemoryClass::other, false, {x, y}, [&] { y.copy_(x); });
    add(MemoryClass::other, false, {x}, [&] { x.zero_(); });
    add(MemoryClass::other, false, {x, x}, [&] { x.mul_(0.5); });
  }

  /// AdamW: reads the gradient, reads and writes weights and two states.
  void updates(int64_t numel) {
    const std::vector<at::Tensor> weights{random({numel})}, gradients{random({numel})}, first{random({numel})},
        second{at::zeros({numel}, options_)};
    const std::vector<at::Tensor> steps{at::ones({}, options_)};
    const double time = seconds(
        [&] { at::_fused_adamw_(weights, gradients, first, second, {}, steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false); });
    add(OperatorClass::update, {.bytes = 28.0 * static_cast<double>(numel)}, time);
  }

  at::Device device_;
  const TimedCall& before_;
  OperatorClock clock_;
  at::TensorOptions options_;
  int element_bytes_ = 4;
  std::vector<OperatorSample> samples_;
};

}  // namespace

std::vector<OperatorSample> measure_operators(at::Device device, int turns, const std::function<void()>& before) {
  const at::NoGradGuard no_graph;
  OperatorSampler samples(device, turns, before);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) samples.measure(type);
  return samples.take();
}

}  // namespace weft
