#include "weft/nn/layers/layers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/images/convolution.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/whole_value.h"

namespace weft {

namespace {
Init uniform(double bound) { return {Init::Kind::uniform, -bound, bound}; }
Init constant(double value) { return {Init::Kind::constant, value, 0.0}; }

/// A split layer without the ranks of its other parts would compute something else.
void refuse_split(const Parameter& weight) {
  if (!weight.split) return;
  throw InputError(
      fmt::format("layer {}: it is split over {} ranks, but its block calls it without a Context; call it "
                  "as layer(x, context)",
                  weight.split->layer, weight.split->parts));
}
}  // namespace

Parameter meta_parameter(const std::vector<int64_t>& shape) {
  return {at::empty(shape, at::TensorOptions(at::kFloat).device(at::kMeta)), {}};
}

Linear::Linear(int64_t in, int64_t out, bool with_bias)
    : weight(meta_parameter({out, in})), weight_init(uniform(1.0 / std::sqrt(static_cast<double>(in)))) {
  if (with_bias) bias = meta_parameter({out});
  bias_init = weight_init;
}

Linear& Linear::normal(double stddev) {
  weight_init = {Init::Kind::normal, 0.0, stddev};
  bias_init = constant(0.0);
  return *this;
}

at::Tensor Linear::operator()(const at::Tensor& x) {
  refuse_split(weight);
  return linear(x, weight, bias.value.defined() ? &bias : nullptr);
}

at::Tensor Linear::operator()(const LayerInput& x, const Context& context) {
  return linear(x, weight, bias.value.defined() ? &bias : nullptr, context);
}

void Linear::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back({name + ".weight", &weight, weight_init});
  if (bias.value.defined()) specs.push_back({name + ".bias", &bias, bias_init, /*decay=*/false});
}

LayerNorm::LayerNorm(int64_t width, double eps) : weight(meta_parameter({width})), bias(meta_parameter({width})), eps(eps) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) { return normalise(x, {weight.value, bias.value, eps}); }

at::Tensor LayerNorm::operator()(const at::Tensor& x, const Context& context) {
  return normalise(x, {whole_value(weight, context), whole_value(bias, context), eps});
}

void LayerNorm::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back({name + ".weight", &weight, constant(1.0), /*decay=*/false});
  specs.push_back({name + ".bias", &bias, constant(0.0), /*decay=*/false});
}

RmsNorm::RmsNorm(int64_t width, double eps) : weight(meta_parameter({width})), eps(eps) {}

at::Tensor RmsNorm::operator()(const at::Tensor& x, const Context& context) {
  return normalise(x, {.weight = whole_value(weight, context), .eps = eps});
}

at::Tensor RmsNorm::operator()(const at::Tensor& x) { return normalise(x, {.weight = weight.value, .eps = eps}); }

void RmsNorm::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back({name + ".weight", &weight, constant(1.0), /*decay=*/false});
}

Embedding::Embedding(int64_t entries, int64_t width, double stddev)
    : weight(meta_parameter({entries, width})), stddev(stddev) {}

at::Tensor Embedding::operator()(const at::Tensor& ids) {
  refuse_split(weight);
  return embedding(ids, weight, {});
}

at::Tensor Embedding::operator()(const at::Tensor& ids, const Context& context) { return embedding(ids, weight, context); }

void Embedding::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back(
      {.name = name + ".weight", .parameter = &weight, .init = {Init::Kind::normal, 0.0, stddev}, .embedding = true});
}

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, bool with_bias, int64_t stride)
    : weight(meta_parameter({out, in, kernel, kernel})),
      init(uniform(1.0 / std::sqrt(static_cast<double>(in * kernel * kernel)))),
      stride(stride) {
  if (with_bias) bias = meta_parameter({out});
}

at::Tensor Conv2d::operator()(const at::Tensor& x) {
  refuse_split(weight);
  return convolution(x, weight, bias.value.defined() ? &bias : nullptr, stride);
}

at::Tensor Conv2d::operator()(const at::Tensor& x, const Context& context) {
  return convolution(x, weight, bias.value.defined() ? &bias : nullptr, context, stride);
}

Conv2d& Conv2d::kaiming_normal() {
  const auto fan_out = static_cast<double>(weight.value.size(0) * weight.value.size(2) * weight.value.size(3));
  init = {Init::Kind::normal, 0.0, std::sqrt(2.0 / fan_out)};
  return *this;
}

void Conv2d::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back({name + ".weight", &weight, init});
  if (bias.value.defined()) specs.push_back({name + ".bias", &bias, init, /*decay=*/false});
}

BatchNorm2d::BatchNorm2d(int64_t channels, double momentum, double eps)
    : weight(meta_parameter({channels})),
      bias(meta_parameter({channels})),
      running_mean(meta_parameter({channels})),
      running_var(meta_parameter({channels})),
      momentum(momentum),
      eps(eps) {}

at::Tensor BatchNorm2d::operator()(const at::Tensor& x, const Context& context) {
  return batch_norm(x, {weight.value, bias.value, running_mean.value, running_var.value, momentum, eps}, context);
}

at::Tensor BatchNorm2d::relu(const at::Tensor& x, const Context& context, const at::Tensor& shortcut) {
  return batch_norm_relu(x, {weight.value, bias.value, running_mean.value, running_var.value, momentum, eps}, context,
                         shortcut);
}

void BatchNorm2d::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back({name + ".weight", &weight, constant(1.0), /*decay=*/false});
  specs.push_back({name + ".bias", &bias, constant(0.0), /*decay=*/false});
  specs.push_back({name + ".running_mean", &running_mean, constant(0.0), /*decay=*/false, /*statistic=*/true, /*wide=*/true});
  specs.push_back({name + ".running_var", &running_var, constant(1.0), /*decay=*/false, /*statistic=*/true, /*wide=*/true});
}

GroupNorm::GroupNorm(int64_t channels, int64_t groups, double eps)
    : weight(meta_parameter({channels})), bias(meta_parameter({channels})), groups(groups), eps(eps) {
  if (groups < 1 || channels % groups != 0) {
    throw InputError(fmt::format("group norm: {} groups do not divide {} channels", groups, channels));
  }
}

at::Tensor GroupNorm::operator()(const at::Tensor& x) {
  const TensorChecks check("group norm");
  check.floats("x", x, 2);
  check.floating("weight", weight.value, {x.size(1)}, x);
  check.floating("bias", bias.value, {x.size(1)}, x);
  // Contiguous, because LibTorch's kernels ignore strides.
  // LibTorch's backward crashes on channels-last images that take no gradient.
  const at::Tensor in = at::GradMode::is_enabled() && !x.requires_grad() ? x.contiguous() : x;
  return at::group_norm(in, groups, weight.value.contiguous(), bias.value.contiguous(), eps, /*cudnn_enabled=*/true);
}

void GroupNorm::describe(std::vector<ParamSpec>& specs, const std::string& name) {
  specs.push_back({name + ".weight", &weight, constant(1.0), /*decay=*/false});
  specs.push_back({name + ".bias", &bias, constant(0.0), /*decay=*/false});
}

}  // namespace weft
