// The kinds of torch/nn/modules/pooling.h.
#include <torch/nn/modules/pooling.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

namespace {

constexpr const char* kNoBf16 = "the forward of block 'kind': \"avg_pool3d_out_frame\" not implemented for 'BFloat16'";

/// A pooling whose places the unpooling goes back to.
template <class Pool, class Unpool>
Kind unpooling(std::string name, std::vector<int64_t> takes) {
  return {.name = std::move(name), .takes = {std::move(takes)}, .make = [] {
            Unpool unpool(2);
            return Part{unpool.ptr(), [unpool, pool = Pool(2)](const Tensors& inputs) mutable -> Tensors {
                          const auto [values, places] = pool->forward_with_indices(inputs[0]);
                          return {unpool->forward(values, places)};
                        }};
          }};
}

/// Also outputs the positions of the maxima.
template <class Pool, class... Options>
Kind with_places(std::string name, std::vector<int64_t> takes, Options... options) {
  return {.name = std::move(name), .with = "indices", .takes = {std::move(takes)}, .make = [options...] {
            Pool pool(options...);
            return Part{pool.ptr(), [pool](const Tensors& inputs) mutable -> Tensors {
                          const auto [values, places] = pool->forward_with_indices(inputs[0]);
                          return {values, places};
                        }};
          }};
}

}  // namespace

std::vector<Kind> pooling_kinds() {
  return {
      kind<nn::AvgPool1d>("AvgPool1d", {2, 4}, 2),
      kind<nn::AvgPool2d>("AvgPool2d", {2, 4, 4}, 2),
      refused_in_bf16(kNoBf16, kind<nn::AvgPool3d>("AvgPool3d", {1, 4, 4, 4}, 2)),
      kind<nn::MaxPool1d>("MaxPool1d", {2, 4}, 2),
      kind<nn::MaxPool2d>("MaxPool2d", {2, 4, 4}, 2),
      kind<nn::MaxPool3d>("MaxPool3d", {1, 4, 4, 4}, 2),
      with_places<nn::MaxPool2d>("MaxPool2d", {2, 4, 4}, 2),
      kind<nn::AdaptiveMaxPool1d>("AdaptiveMaxPool1d", {2, 5}, 2),
      kind<nn::AdaptiveMaxPool2d>("AdaptiveMaxPool2d", {2, 5, 4}, 2),
      kind<nn::AdaptiveMaxPool3d>("AdaptiveMaxPool3d", {1, 3, 4, 4}, 2),
      with_places<nn::AdaptiveMaxPool1d>("AdaptiveMaxPool1d", {2, 5}, 2),
      kind<nn::AdaptiveAvgPool1d>("AdaptiveAvgPool1d", {2, 5}, 2),
      kind<nn::AdaptiveAvgPool2d>("AdaptiveAvgPool2d", {2, 5, 4}, 2),
      kind<nn::AdaptiveAvgPool3d>("AdaptiveAvgPool3d", {1, 3, 4, 4}, 2),
      unpooling<nn::MaxPool1d, nn::MaxUnpool1d>("MaxUnpool1d", {2, 4}),
      unpooling<nn::MaxPool2d, nn::MaxUnpool2d>("MaxUnpool2d", {2, 4, 4}),
      unpooling<nn::MaxPool3d, nn::MaxUnpool3d>("MaxUnpool3d", {1, 4, 4, 4}),
      draws_always(
          kind<nn::FractionalMaxPool2d>("FractionalMaxPool2d", {2, 5, 5}, nn::FractionalMaxPool2dOptions(2).output_size(3))),
      draws_always(
          kind<nn::FractionalMaxPool3d>("FractionalMaxPool3d", {1, 4, 4, 4}, nn::FractionalMaxPool3dOptions(2).output_size(2))),
      kind<nn::LPPool1d>("LPPool1d", {2, 4}, nn::LPPool1dOptions(2.0, 2)),
      kind<nn::LPPool2d>("LPPool2d", {2, 4, 4}, nn::LPPool2dOptions(2.0, 2)),
      refused_in_bf16(kNoBf16, kind<nn::LPPool3d>("LPPool3d", {1, 4, 4, 4}, nn::LPPool3dOptions(2.0, 2))),
  };
}

}  // namespace weft::module_kinds
