// The kinds of torch/nn/modules/loss.h and adaptive.h: losses, as Model::loss.
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/adaptive.h>
#include <torch/nn/modules/loss.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

namespace {

at::Tensor same(const at::Tensor& x) { return x; }
at::Tensor classes(const at::Tensor& target) { return target.argmax(1); }
at::Tensor shares(const at::Tensor& target) { return target.softmax(1); }
at::Tensor bits(const at::Tensor& target) { return target.gt(0.0).to(at::kFloat); }
at::Tensor signs(const at::Tensor& target) { return bits(target) * 2.0 - 1.0; }
/// Up to one label of each sample's four, ended by -1.
at::Tensor labels(const at::Tensor& target) {
  at::Tensor rows = at::full({target.size(0), 4}, -1, at::kLong);
  rows.select(1, 0).copy_(classes(target));
  return rows;
}
at::Tensor log_shares(const at::Tensor& x) { return x.log_softmax(1); }
at::Tensor chances(const at::Tensor& x) { return x.sigmoid(); }

using Change = at::Tensor (*)(const at::Tensor&);

Kind loss(std::string name, PlainLoss sum) {
  return {.name = std::move(name), .takes = {{6}}, .make = [] { return of_one(nn::Tanh()); }, .loss = std::move(sum)};
}

/// Its reduction is a sum. What counts are samples, so that the count is a power of two.
template <class Holder, class Options>
Kind of_one_output(std::string name, Options options, Change of_target, Change of_output = same) {
  return loss(std::move(name),
              [module = Holder(options.reduction(torch::kSum)), of_target, of_output](
                  const Tensors& outputs, const at::Tensor& target) mutable -> LossValue {
                return {module->forward(of_output(outputs[0]), of_target(target)), target.size(0)};
              });
}

/// Applied to the halves of an output, and a sign per sample.
template <class Holder, class Options>
Kind of_halves(std::string name, Options options, bool by_column) {
  return loss(std::move(name),
              [module = Holder(options.reduction(torch::kSum)), by_column](const Tensors& outputs,
                                                                           const at::Tensor& target) mutable -> LossValue {
                const at::Tensor a = outputs[0].narrow(1, 0, 2), b = outputs[0].narrow(1, 2, 2), sign = signs(target);
                return {module->forward(a, b, by_column ? sign.narrow(1, 0, 2) : sign.select(1, 0)), target.size(0)};
              });
}

template <class Holder, class Options>
Kind of_triplets(std::string name, Options options) {
  return loss(
      std::move(name),
      [module = Holder(options.reduction(torch::kSum))](const Tensors& outputs, const at::Tensor& target) mutable -> LossValue {
        return {module->forward(outputs[0].narrow(1, 0, 2), outputs[0].narrow(1, 2, 2), target.narrow(1, 0, 2)),
                target.size(0)};
      });
}

/// Four moments with two classes each, one output per moment.
LossValue alignment(const Tensors& outputs, const at::Tensor& target) {
  nn::CTCLoss module(nn::CTCLossOptions().reduction(torch::kSum));
  const int64_t n = target.size(0);
  const at::Tensor scores = at::stack({outputs[0], -outputs[0]}, 2).log_softmax(2).transpose(0, 1);
  const at::Tensor moments = at::full({n}, 4, at::kLong), lengths = at::full({n}, 2, at::kLong);
  return {module->forward(scores, at::full({n, 2}, 1, at::kLong), moments, lengths), n};
}

/// Has weights, and takes the classes as an input: a block.
Part adaptive() {
  nn::AdaptiveLogSoftmaxWithLoss module(nn::AdaptiveLogSoftmaxWithLossOptions(6, 8, {3, 5}).div_value(2.0));
  return {module.ptr(), [module](const Tensors& inputs) mutable -> Tensors {
            return {module->forward(inputs[0], inputs.back().select(1, 0)).output};
          }};
}

}  // namespace

std::vector<Kind> loss_kinds() {
  return {
      of_one_output<nn::L1Loss>("L1Loss", nn::L1LossOptions(), same),
      of_one_output<nn::KLDivLoss>("KLDivLoss", nn::KLDivLossOptions(), shares, log_shares),
      of_one_output<nn::MSELoss>("MSELoss", nn::MSELossOptions(), same),
      of_one_output<nn::BCELoss>("BCELoss", nn::BCELossOptions(), bits, chances),
      of_one_output<nn::HingeEmbeddingLoss>("HingeEmbeddingLoss", nn::HingeEmbeddingLossOptions(), signs),
      of_one_output<nn::MultiMarginLoss>("MultiMarginLoss", nn::MultiMarginLossOptions(), classes),
      of_halves<nn::CosineEmbeddingLoss>("CosineEmbeddingLoss", nn::CosineEmbeddingLossOptions(), false),
      of_one_output<nn::SmoothL1Loss>("SmoothL1Loss", nn::SmoothL1LossOptions(), same),
      of_one_output<nn::HuberLoss>("HuberLoss", nn::HuberLossOptions(), same),
      of_one_output<nn::MultiLabelMarginLoss>("MultiLabelMarginLoss", nn::MultiLabelMarginLossOptions(), labels),
      of_one_output<nn::SoftMarginLoss>("SoftMarginLoss", nn::SoftMarginLossOptions(), signs),
      of_one_output<nn::MultiLabelSoftMarginLoss>("MultiLabelSoftMarginLoss", nn::MultiLabelSoftMarginLossOptions(), bits),
      of_triplets<nn::TripletMarginLoss>("TripletMarginLoss", nn::TripletMarginLossOptions()),
      of_triplets<nn::TripletMarginWithDistanceLoss>("TripletMarginWithDistanceLoss",
                                                     nn::TripletMarginWithDistanceLossOptions()),
      loss("CTCLoss", alignment),
      of_one_output<nn::PoissonNLLLoss>("PoissonNLLLoss", nn::PoissonNLLLossOptions(), bits),
      of_halves<nn::MarginRankingLoss>("MarginRankingLoss", nn::MarginRankingLossOptions(), true),
      of_one_output<nn::NLLLoss>("NLLLoss", nn::NLLLossOptions(), classes, log_shares),
      of_one_output<nn::CrossEntropyLoss>("CrossEntropyLoss", nn::CrossEntropyLossOptions(), classes),
      with("smoothing",
           of_one_output<nn::CrossEntropyLoss>("CrossEntropyLoss", nn::CrossEntropyLossOptions().label_smoothing(0.1), shares)),
      of_one_output<nn::BCEWithLogitsLoss>("BCEWithLogitsLoss", nn::BCEWithLogitsLossOptions(), bits),
      {.name = "AdaptiveLogSoftmaxWithLoss", .takes = {{6}}, .make = adaptive},
  };
}

}  // namespace weft::module_kinds
