// The kinds of torch/nn/modules/conv.h and padding.h.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/padding.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

namespace {

template <class Pad, class Options>
Kind padding(std::string name, std::vector<int64_t> takes) {
  return kind<Pad>(std::move(name), std::move(takes), Options(1));
}

template <class Pad, class Options>
Kind constant(std::string name, std::vector<int64_t> takes) {
  return kind<Pad>(std::move(name), std::move(takes), Options(1, 0.5));
}

}  // namespace

std::vector<Kind> convolution_kinds() {
  return {
      kind<nn::Conv1d>("Conv1d", {4, 6}, nn::Conv1dOptions(4, 4, 3)),
      with("groups", kind<nn::Conv1d>("Conv1d", {4, 6}, nn::Conv1dOptions(4, 4, 3).groups(2).bias(false))),
      kind<nn::Conv2d>("Conv2d", {2, 4, 4}, nn::Conv2dOptions(2, 3, 3)),
      with("groups", kind<nn::Conv2d>("Conv2d", {4, 4, 4}, nn::Conv2dOptions(4, 4, 2).groups(2).stride(2))),
      with("circular",
           kind<nn::Conv2d>("Conv2d", {2, 4, 4}, nn::Conv2dOptions(2, 3, 3).padding(1).padding_mode(torch::kCircular))),
      with("dilation", kind<nn::Conv2d>("Conv2d", {2, 4, 4}, nn::Conv2dOptions(2, 3, 2).dilation(2).padding(torch::kSame))),
      kind<nn::Conv3d>("Conv3d", {2, 3, 3, 3}, nn::Conv3dOptions(2, 2, 2)),
      kind<nn::ConvTranspose1d>("ConvTranspose1d", {3, 4}, nn::ConvTranspose1dOptions(3, 2, 3)),
      kind<nn::ConvTranspose2d>("ConvTranspose2d", {3, 2, 2}, nn::ConvTranspose2dOptions(3, 2, 3).stride(2).output_padding(1)),
      kind<nn::ConvTranspose3d>("ConvTranspose3d", {2, 2, 2, 2}, nn::ConvTranspose3dOptions(2, 2, 2)),
      padding<nn::ReflectionPad1d, nn::ReflectionPad1dOptions>("ReflectionPad1d", {2, 3}),
      padding<nn::ReflectionPad2d, nn::ReflectionPad2dOptions>("ReflectionPad2d", {2, 3, 3}),
      padding<nn::ReflectionPad3d, nn::ReflectionPad3dOptions>("ReflectionPad3d", {1, 3, 3, 3}),
      padding<nn::ReplicationPad1d, nn::ReplicationPad1dOptions>("ReplicationPad1d", {2, 3}),
      padding<nn::ReplicationPad2d, nn::ReplicationPad2dOptions>("ReplicationPad2d", {2, 3, 3}),
      padding<nn::ReplicationPad3d, nn::ReplicationPad3dOptions>("ReplicationPad3d", {1, 3, 3, 3}),
      padding<nn::ZeroPad1d, nn::ZeroPad1dOptions>("ZeroPad1d", {2, 3}),
      padding<nn::ZeroPad2d, nn::ZeroPad2dOptions>("ZeroPad2d", {2, 3, 3}),
      padding<nn::ZeroPad3d, nn::ZeroPad3dOptions>("ZeroPad3d", {1, 3, 3, 3}),
      constant<nn::ConstantPad1d, nn::ConstantPad1dOptions>("ConstantPad1d", {2, 3}),
      constant<nn::ConstantPad2d, nn::ConstantPad2dOptions>("ConstantPad2d", {2, 3, 3}),
      constant<nn::ConstantPad3d, nn::ConstantPad3dOptions>("ConstantPad3d", {1, 3, 3, 3}),
  };
}

}  // namespace weft::module_kinds
