// Models for the table of torch::nn's module kinds: a Linear that makes the kind's input, the kind, and another Linear.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "weft/comm/world.h"
#include "weft/nn/model.h"

namespace weft::module_kinds {

/// A torch module and its function of the preceding tensors.
struct Part {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensors(const Tensors&)> forward;
};

using PlainLoss = std::function<LossValue(const Tensors&, const at::Tensor&)>;

/// The sum of squares against the target.
LossValue squares(const Tensors& outputs, const at::Tensor& target);

/// A row: a kind with certain options.
struct Kind {
  std::string name;                         ///< in torch::nn
  std::string with = {};                    ///< which options; empty: the kind's own
  std::vector<std::vector<int64_t>> takes;  ///< the sample's shape in each tensor that it takes; after them ids [batch, 4]
  std::function<Part()> make;
  PlainLoss loss = squares;   ///< of outputs [batch, 4]
  bool random = false;        ///< draws from LibTorch's generator: its ranks are processes
  bool draws_always = false;  ///< in evaluations too, whose loss is another each time then
  std::string refused = {};   ///< part of the error in place of a training, in any type; empty: it trains
  std::string refused_in_bf16 = {};
};

/// "Conv2d_groups"
inline std::string row_name(const Kind& kind) { return kind.name + (kind.with.empty() ? "" : "_" + kind.with); }
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << row_name(kind); }

/// A holder's forward, of the first tensor.
template <class Holder>
Part of_one(Holder module) {
  return {module.ptr(), [module](const Tensors& inputs) mutable -> Tensors { return {module->forward(inputs[0])}; }};
}

/// A row of a module that takes one tensor and needs only `options` to be made.
template <class Holder, class... Options>
Kind kind(std::string name, std::vector<int64_t> takes, Options... options) {
  return {.name = std::move(name), .takes = {std::move(takes)}, .make = [options...] { return of_one(Holder(options...)); }};
}

/// The row with other options.
inline Kind with(std::string options, Kind kind) {
  kind.with = std::move(options);
  return kind;
}
inline Kind random(Kind kind) {
  kind.random = true;
  return kind;
}
inline Kind draws_always(Kind kind) {
  kind.draws_always = true;
  return random(std::move(kind));
}
inline Kind refused(std::string text, Kind kind) {
  kind.refused = std::move(text);
  return kind;
}
inline Kind refused_in_bf16(std::string text, Kind kind) {
  kind.refused_in_bf16 = std::move(text);
  return kind;
}

// By header of torch/nn/modules.
std::vector<Kind> activation_kinds();
std::vector<Kind> container_kinds();    ///< also linear.h, distance.h, fold.h, pixelshuffle.h, upsampling.h
std::vector<Kind> convolution_kinds();  ///< also padding.h
std::vector<Kind> pooling_kinds();
std::vector<Kind> norm_kinds();      ///< also dropout.h
std::vector<Kind> sequence_kinds();  ///< recurrent, attention, embedding
std::vector<Kind> loss_kinds();      ///< also adaptive.h
std::vector<Kind> all_kinds();

/// Result of a training.
struct Outcome {
  std::vector<double> losses = {};
  double evaluation = 0.0;                                      ///< loss after two steps
  std::vector<std::pair<std::string, at::Tensor>> values = {};  ///< by name: weights and statistics at the end
  std::string error = {};                                       ///< in place of all that
};

/// How weft trains a kind.
struct Layout {
  const char* name;
  int ranks = 1;
  int pp = 1;
  int cut = 1;  ///< with pp: the second stage's first block
  bool shard = false;
  bool recompute = false;
  bool bf16 = false;
  std::string save = {};  ///< a checkpoint that is saved after the first step
  std::string load = {};  ///< one that is loaded in place of the first step
};

/// The generators' states from which a kind's forwards drew while it trained, in the order of micro-batches.
using Draws = std::vector<at::Tensor>;

/// LibTorch only: a loop with autograd and torch::optim::SGD. `draws` are those recorded in weft's training.
Outcome train_plainly(const Kind& kind, bool bf16, const Draws& draws);
/// weft, on one rank.
Outcome train_rank(const Kind& kind, const Layout& layout, const World& world, Draws* draws = nullptr);
/// weft, on ranks that are threads.
Outcome train_threads(const Kind& kind, const Layout& layout, Draws* draws = nullptr);

/// Describes the difference; empty: none. `tolerance` is relative to the largest value of each tensor; 0: bitwise.
std::string difference(const Outcome& actual, const Outcome& expected, double tolerance);

}  // namespace weft::module_kinds
