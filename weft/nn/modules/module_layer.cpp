#include "weft/nn/modules/module_layer.h"

#include <ATen/ops/conv2d.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <optional>
#include <typeinfo>
#include <variant>

#include "weft/nn/images/convolution.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/layers/linear.h"

namespace weft {

namespace {

class TorchLinear : public TorchLayer {
 public:
  at::Tensor forward(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) const override {
    return linear(x, weight, bias, context);
  }
  std::string split_refusal(const Split&) const override { return {}; }
  ActivationForm::Kind parts() const override { return ActivationForm::Kind::rows; }
};

class TorchConv2d : public TorchLayer {
 public:
  using Options = decltype(torch::nn::Conv2dImpl::options);

  explicit TorchConv2d(const Options& options) : options_(options) {}

  at::Tensor forward(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) const override {
    return split_convolution(x, weight, bias, context, [this, &weight](const at::Tensor& in, Parameter* added) {
      return convolve(in, weight.value, added ? std::optional(added->value) : std::nullopt);
    });
  }
  std::string split_refusal(const Split&) const override {
    if (options_.groups() != 1) return "a grouped convolution cannot be split";
    if (!std::holds_alternative<torch::enumtype::kZeros>(options_.padding_mode()))
      return "only convolutions with zero padding can be split";
    return {};
  }
  ActivationForm::Kind parts() const override { return ActivationForm::Kind::channels; }

 private:
  at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) const {
    const Options& o = options_;
    if (const auto* pixels = std::get_if<torch::ExpandingArray<2>>(&o.padding()))
      return at::conv2d(x, weight, bias, o.stride(), *pixels, o.dilation(), o.groups());
    const bool same = std::holds_alternative<torch::enumtype::kSame>(o.padding());
    return at::conv2d(x, weight, bias, o.stride(), same ? "same" : "valid", o.dilation(), o.groups());
  }

  Options options_;
};

class TorchEmbedding : public TorchLayer {
 public:
  explicit TorchEmbedding(const torch::nn::EmbeddingOptions& options) : options_(options) {}

  at::Tensor forward(const at::Tensor& ids, Parameter& weight, Parameter* /*bias*/, const Context& context) const override {
    return embedding(ids, weight, context);
  }
  std::string split_refusal(const Split& split) const override {
    if (split.dim != 0 || split.segments.size() > 1) return "an embedding can be split only by its vocabulary, as one segment";
    if (options_.padding_idx() || options_.max_norm() || options_.scale_grad_by_freq() || options_.sparse())
      return "an embedding with padding_idx, max_norm, scale_grad_by_freq or sparse cannot be split";
    return {};
  }
  ActivationForm::Kind parts() const override { return ActivationForm::Kind::whole; }

 private:
  torch::nn::EmbeddingOptions options_;
};

/// The module if it is of exactly this class, not a derived one.
template <class Module>
const Module* exactly(const torch::nn::Module& module) {
  return typeid(module) == typeid(Module) ? dynamic_cast<const Module*>(&module) : nullptr;
}

}  // namespace

std::unique_ptr<TorchLayer> torch_layer(const std::shared_ptr<torch::nn::Module>& module) {
  if (exactly<torch::nn::LinearImpl>(*module)) return std::make_unique<TorchLinear>();
  if (const auto* convolution = exactly<torch::nn::Conv2dImpl>(*module))
    return std::make_unique<TorchConv2d>(convolution->options);
  if (const auto* embedding = exactly<torch::nn::EmbeddingImpl>(*module))
    return std::make_unique<TorchEmbedding>(embedding->options);
  return nullptr;
}

}  // namespace weft
