// The kinds of torch/nn/modules/container, linear.h, distance.h, fold.h, pixelshuffle.h and upsampling.h.
#include <ATen/ops/ones.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/parameterdict.h>
#include <torch/nn/modules/container/parameterlist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/distance.h>
#include <torch/nn/modules/fold.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pixelshuffle.h>
#include <torch/nn/modules/upsampling.h>

#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

namespace nn = torch::nn;

namespace {

/// A module of two tensors.
template <class Holder, class... Options>
Kind of_two(std::string name, std::vector<int64_t> takes, Options... options) {
  return {.name = std::move(name), .takes = {takes, takes}, .make = [options...] {
            Holder module(options...);
            return Part{module.ptr(),
                        [module](const Tensors& inputs) mutable -> Tensors { return {module->forward(inputs[0], inputs[1])}; }};
          }};
}

Part list() {
  nn::ModuleList list(nn::Linear(6, 4), nn::Tanh(), nn::Linear(4, 3));
  return {list.ptr(), [list](const Tensors& inputs) mutable -> Tensors {
            const at::Tensor x = list[1]->as<nn::Tanh>()->forward(list[0]->as<nn::Linear>()->forward(inputs[0]));
            return {list[2]->as<nn::Linear>()->forward(x)};
          }};
}

Part dictionary() {
  const std::vector<std::pair<std::string, nn::AnyModule>> entries = {{"in", nn::AnyModule(nn::Linear(6, 4))},
                                                                      {"out", nn::AnyModule(nn::Linear(4, 3))}};
  nn::ModuleDict modules(std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>{{"in", entries[0].second.ptr()},
                                                                                          {"out", entries[1].second.ptr()}});
  return {modules.ptr(), [modules](const Tensors& inputs) mutable -> Tensors {
            return {modules["out"]->as<nn::Linear>()->forward(modules["in"]->as<nn::Linear>()->forward(inputs[0]).tanh())};
          }};
}

Part parameters() {
  nn::ParameterList list(at::ones({6}), at::ones({6}));
  return {list.ptr(), [list](const Tensors& inputs) mutable -> Tensors { return {inputs[0] * list[0] + list[1]}; }};
}

Part named_parameters() {
  nn::ParameterDict dictionary;
  dictionary->insert("scale", at::ones({6}, at::requires_grad()));
  dictionary->insert("shift", at::ones({6}, at::requires_grad()));
  return {dictionary.ptr(), [dictionary](const Tensors& inputs) mutable -> Tensors {
            return {inputs[0] * dictionary["scale"] + dictionary["shift"]};
          }};
}

at::Tensor cube(const at::Tensor& x) { return x.pow(3); }

template <class Mode>
nn::UpsampleOptions doubled(const Mode& mode, size_t dimensions) {
  return nn::UpsampleOptions().scale_factor(std::vector<double>(dimensions, 2.0)).mode(mode);
}

}  // namespace

std::vector<Kind> container_kinds() {
  return {
      kind<nn::Identity>("Identity", {6}),
      kind<nn::Linear>("Linear", {6}, 6, 5),
      with("no_bias", kind<nn::Linear>("Linear", {3, 6}, nn::LinearOptions(6, 5).bias(false))),
      kind<nn::Flatten>("Flatten", {2, 3}),
      kind<nn::Unflatten>("Unflatten", {6}, nn::UnflattenOptions(1, {2, 3})),
      of_two<nn::Bilinear>("Bilinear", {3}, 3, 3, 2),
      of_two<nn::CosineSimilarity>("CosineSimilarity", {6}),
      of_two<nn::PairwiseDistance>("PairwiseDistance", {6}),
      kind<nn::Fold>("Fold", {8, 4}, nn::FoldOptions({3, 3}, {2, 2})),
      kind<nn::Unfold>("Unfold", {2, 3, 3}, nn::UnfoldOptions({2, 2})),
      kind<nn::PixelShuffle>("PixelShuffle", {4, 2, 2}, 2),
      kind<nn::PixelUnshuffle>("PixelUnshuffle", {1, 4, 4}, 2),
      kind<nn::Upsample>("Upsample", {2, 2, 2}, doubled(torch::kNearest, 2)),
      with("linear", kind<nn::Upsample>("Upsample", {2, 3}, doubled(torch::kLinear, 1))),
      with("bilinear", kind<nn::Upsample>("Upsample", {2, 2, 2}, doubled(torch::kBilinear, 2))),
      with("bicubic", kind<nn::Upsample>("Upsample", {2, 2, 2}, doubled(torch::kBicubic, 2))),
      with("trilinear", kind<nn::Upsample>("Upsample", {1, 2, 2, 2}, doubled(torch::kTrilinear, 3))),
      {.name = "Sequential", .takes = {{6}}, .make = [] { return of_one(nn::Sequential(nn::Linear(6, 4), nn::Tanh())); }},
      {.name = "ModuleList", .takes = {{6}}, .make = list},
      {.name = "ModuleDict", .takes = {{6}}, .make = dictionary},
      {.name = "ParameterList", .takes = {{6}}, .make = parameters},
      {.name = "ParameterDict", .takes = {{6}}, .make = named_parameters},
      {.name = "Functional", .takes = {{6}}, .make = [] { return of_one(nn::Functional(cube)); }},
  };
}

}  // namespace weft::module_kinds
