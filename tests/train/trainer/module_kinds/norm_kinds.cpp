// The kinds of torch/nn/modules/batchnorm.h, instancenorm.h, normalization.h and dropout.h.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

namespace {

constexpr const char* kNarrow = "is a running statistic of a torch module, which cannot stay float32 with narrower weights";
constexpr const char* kCumulative = "without momentum, whose statistics are means over all forwards so far";

nn::InstanceNormOptions statistics(int64_t channels) {
  return nn::InstanceNormOptions(channels).affine(true).track_running_stats(true);
}

}  // namespace

std::vector<Kind> norm_kinds() {
  return {
      refused_in_bf16(kNarrow, kind<nn::BatchNorm1d>("BatchNorm1d", {3}, 3)),
      with("tokens", refused_in_bf16(kNarrow, kind<nn::BatchNorm1d>("BatchNorm1d", {3, 4}, 3))),
      with("no_statistics", kind<nn::BatchNorm1d>("BatchNorm1d", {3, 4}, nn::BatchNorm1dOptions(3).track_running_stats(false))),
      with("not_affine",
           refused_in_bf16(kNarrow, kind<nn::BatchNorm1d>("BatchNorm1d", {3, 4}, nn::BatchNorm1dOptions(3).affine(false)))),
      with("no_momentum", refused(kCumulative, kind<nn::BatchNorm1d>("BatchNorm1d", {3, 4},
                                                                     nn::BatchNorm1dOptions(3).momentum(std::nullopt)))),
      refused_in_bf16(kNarrow, kind<nn::BatchNorm2d>("BatchNorm2d", {3, 2, 2}, 3)),
      refused_in_bf16(kNarrow, kind<nn::BatchNorm3d>("BatchNorm3d", {2, 2, 2, 2}, 2)),
      kind<nn::InstanceNorm1d>("InstanceNorm1d", {3, 4}, 3),
      with("statistics", refused_in_bf16(kNarrow, kind<nn::InstanceNorm1d>("InstanceNorm1d", {3, 4}, statistics(3)))),
      kind<nn::InstanceNorm2d>("InstanceNorm2d", {3, 2, 2}, 3),
      with("statistics", refused_in_bf16(kNarrow, kind<nn::InstanceNorm2d>("InstanceNorm2d", {3, 2, 2}, statistics(3)))),
      kind<nn::InstanceNorm3d>("InstanceNorm3d", {2, 2, 2, 2}, 2),
      with("statistics", refused_in_bf16(kNarrow, kind<nn::InstanceNorm3d>("InstanceNorm3d", {2, 2, 2, 2}, statistics(2)))),
      kind<nn::LayerNorm>("LayerNorm", {6}, nn::LayerNormOptions({6})),
      with("not_affine", kind<nn::LayerNorm>("LayerNorm", {6}, nn::LayerNormOptions({6}).elementwise_affine(false))),
      kind<nn::LocalResponseNorm>("LocalResponseNorm", {4, 3}, nn::LocalResponseNormOptions(2)),
      kind<nn::CrossMapLRN2d>("CrossMapLRN2d", {4, 2, 2}, nn::CrossMapLRN2dOptions(3)),
      kind<nn::GroupNorm>("GroupNorm", {4, 3}, nn::GroupNormOptions(2, 4)),
      random(kind<nn::Dropout>("Dropout", {6})),
      with("p_0", kind<nn::Dropout>("Dropout", {6}, 0.0)),
      random(kind<nn::Dropout2d>("Dropout2d", {3, 2, 2})),
      random(kind<nn::Dropout3d>("Dropout3d", {2, 2, 2, 2})),
      random(kind<nn::AlphaDropout>("AlphaDropout", {6})),
      random(kind<nn::FeatureAlphaDropout>("FeatureAlphaDropout", {3, 2, 2})),
  };
}

}  // namespace weft::module_kinds
