#include "weft/models/resnet.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mean.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include "weft/base/error.h"
#include "weft/nn/block.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/loss/cross_entropy.h"

namespace weft {

namespace {

/// Blocks per stage, and their form, for a depth.
struct Depth {
  int64_t depth;
  bool small;
  bool bottlenecks;
  std::vector<int> blocks;
};

const std::vector<Depth>& depths() {
  static const std::vector<Depth> all = {
      {8, true, false, {1, 1, 1}},       {20, true, false, {3, 3, 3}},      {32, true, false, {5, 5, 5}},
      {44, true, false, {7, 7, 7}},      {56, true, false, {9, 9, 9}},      {110, true, false, {18, 18, 18}},
      {18, false, false, {2, 2, 2, 2}},  {34, false, false, {3, 4, 6, 3}},  {50, false, true, {3, 4, 6, 3}},
      {101, false, true, {3, 4, 23, 3}}, {152, false, true, {3, 8, 36, 3}},
  };
  return all;
}

const Depth& depth_of(int64_t depth) {
  for (const Depth& entry : depths()) {
    if (entry.depth == depth) return entry;
  }
  throw InputError(fmt::format(
      "model resnet: depth {}; it must be one of 8, 20, 32, 44, 56, 110 (small images), 18, 34, 50, 101, 152", depth));
}

/// The norm of `channels` channels.
class Norm {
 public:
  Norm(ResnetNorm kind, int64_t channels) {
    if (kind == ResnetNorm::batch) {
      norm_.emplace<BatchNorm2d>(channels);
    } else {
      constexpr int64_t kGroups = 32;
      norm_.emplace<GroupNorm>(channels, channels % kGroups == 0 ? kGroups : std::max<int64_t>(1, channels / 4));
    }
  }

  at::Tensor operator()(const at::Tensor& x, const Context& context) {
    if (auto* batch = std::get_if<BatchNorm2d>(&norm_)) return (*batch)(x, context);
    return std::get<GroupNorm>(norm_)(x);
  }

  /// relu(normalised x + shortcut), if `shortcut` is defined.
  at::Tensor relu(const at::Tensor& x, const Context& context, const at::Tensor& shortcut) {
    if (auto* batch = std::get_if<BatchNorm2d>(&norm_)) return batch->relu(x, context, shortcut);
    const at::Tensor y = std::get<GroupNorm>(norm_)(x);
    return (shortcut.defined() ? y.add_(shortcut) : y).relu_();
  }

  void describe(std::vector<ParamSpec>& specs, const std::string& name, bool zero = false) {
    const size_t first = specs.size();
    if (auto* batch = std::get_if<BatchNorm2d>(&norm_)) {
      batch->describe(specs, name);
    } else {
      std::get<GroupNorm>(norm_).describe(specs, name);
    }
    if (zero) specs[first].init.a = 0.0;
  }

 private:
  std::variant<std::monostate, BatchNorm2d, GroupNorm> norm_;
};

/// A convolution and its norm.
struct NormedConv {
  NormedConv(int64_t in, int64_t out, int64_t kernel, int64_t stride, ResnetNorm kind)
      : conv(in, out, kernel, /*with_bias=*/false, stride), norm(kind, out) {
    conv.kaiming_normal();
  }

  at::Tensor operator()(const at::Tensor& x, const Context& context) { return norm(conv(x, context), context); }
  at::Tensor relu(const at::Tensor& x, const Context& context, const at::Tensor& shortcut = {}) {
    return norm.relu(conv(x, context), context, shortcut);
  }

  Conv2d conv;
  Norm norm;
};

class Stem : public Block {
 public:
  Stem(int64_t in, int64_t width, bool small, ResnetNorm norm)
      : layer_(in, width, small ? 3 : 7, small ? 1 : 2, norm), small_(small) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor y = layer_.relu(inputs.front(), context);
    return {small_ ? y : at::max_pool2d(y, 3, 2, 1)};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    layer_.conv.describe(specs, "conv1");
    layer_.norm.describe(specs, "bn1");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }
  bool can_join_batches() const override { return true; }

 private:
  NormedConv layer_;
  bool small_;
};

struct ResidualOptions {
  int64_t in = 0, width = 0, stride = 1;
  bool bottleneck = false;
  bool bare_shortcut = false;  ///< without weights
  ResnetNorm norm = ResnetNorm::batch;
  bool zero_init = false;

  int64_t out() const { return bottleneck ? 4 * width : width; }
};

/// relu(shortcut(x) + layers(x)).
class Residual : public Block, public HasKind {
 public:
  explicit Residual(const ResidualOptions& o) : options_(o) {
    if (o.bottleneck) {
      layers_.emplace_back(o.in, o.width, 1, 1, o.norm);
      layers_.emplace_back(o.width, o.width, 3, o.stride, o.norm);
      layers_.emplace_back(o.width, o.out(), 1, 1, o.norm);
    } else {
      layers_.emplace_back(o.in, o.width, 3, o.stride, o.norm);
      layers_.emplace_back(o.width, o.width, 3, 1, o.norm);
    }
    if (changes_shape() && !o.bare_shortcut) downsample_.emplace(o.in, o.out(), 1, o.stride, o.norm);
  }

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor x = channels_last(inputs.front());  // once for layers and shortcut
    at::Tensor y = x;
    for (size_t i = 0; i + 1 < layers_.size(); ++i) y = layers_[i].relu(y, context);
    return {layers_.back().relu(y, context, shortcut(x, context))};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].conv.describe(specs, fmt::format("conv{}", i + 1));
      layers_[i].norm.describe(specs, fmt::format("bn{}", i + 1), options_.zero_init && i + 1 == layers_.size());
    }
    if (downsample_) {
      downsample_->conv.describe(specs, "downsample.0");
      downsample_->norm.describe(specs, "downsample.1");
    }
    return specs;
  }

  std::string kind() const override {
    return fmt::format("residual block{}{}{}, {}", options_.bottleneck ? " with bottleneck" : "",
                       options_.stride > 1 ? ", every second pixel" : "", downsample_ ? ", projected shortcut" : "",
                       kResnetNorms.of(options_.norm));
  }
  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }
  bool can_join_batches() const override { return true; }

 private:
  bool changes_shape() const { return options_.stride != 1 || options_.in != options_.out(); }

  at::Tensor shortcut(const at::Tensor& x, const Context& context) {
    if (downsample_) return (*downsample_)(x, context);
    if (!changes_shape()) return x;
    const int64_t added = options_.out() - options_.in;
    const at::Tensor every_second = x.slice(2, 0, std::nullopt, options_.stride).slice(3, 0, std::nullopt, options_.stride);
    return at::constant_pad_nd(every_second, {0, 0, 0, 0, added / 2, added - added / 2});
  }

  ResidualOptions options_;
  std::vector<NormedConv> layers_;
  std::optional<NormedConv> downsample_;
};

/// Mean over all pixels, then a linear layer.
class Head : public Block {
 public:
  Head(int64_t in, int64_t classes) : linear_(in, classes) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {linear_(at::mean(channels_last(inputs.front()), {2, 3}), context)};  // an earlier stage may pass plain tensors
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    linear_.describe(specs, "fc");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }
  bool can_join_batches() const override { return true; }

 private:
  Linear linear_;
};

/// Norms need whole activations, so channels are gathered after every convolution.
SplitTable resnet_splits() {
  const auto channels = [](const char* layer) {
    return SplitRule{.layer = layer, .kind = SplitKind::columns, .unit_name = "channels", .joined = true};
  };
  return {channels("conv1"),   channels("*.conv1"),        channels("*.conv2"),
          channels("*.conv3"), channels("*.downsample.0"), {.layer = "fc", .kind = SplitKind::vocabulary, .joined = true}};
}

}  // namespace

bool is_small_resnet(int64_t depth) { return depth_of(depth).small; }

Model resnet(const ResnetOptions& o) {
  const Depth& depth = depth_of(o.depth);
  if (o.channels < 1 || o.classes < 1 || o.width < 0) {
    throw InputError("model resnet: channels and classes must be at least 1, width not negative");
  }
  int64_t width = o.width > 0 ? o.width : depth.small ? 16 : 64;
  Model model{.name = fmt::format("resnet{}", o.depth),
              .blocks = {},
              .loss = cross_entropy,
              .hits = count_hits,
              .top5 = top5_of(o.classes),
              .splits = resnet_splits(),
              .options = {model_option("name", "resnet"), model_option("depth", o.depth), model_option("channels", o.channels),
                          model_option("classes", o.classes), model_option("width", width),
                          model_option("norm", kResnetNorms.of(o.norm))}};
  model.blocks.push_back({"stem", "", std::make_shared<Stem>(o.channels, width, depth.small, o.norm)});
  int64_t in = width;
  for (size_t stage = 0; stage < depth.blocks.size(); ++stage) {
    for (int i = 0; i < depth.blocks[stage]; ++i) {
      const ResidualOptions block{.in = in,
                                  .width = width,
                                  .stride = stage > 0 && i == 0 ? 2 : 1,
                                  .bottleneck = depth.bottlenecks,
                                  .bare_shortcut = depth.small,
                                  .norm = o.norm,
                                  .zero_init = o.zero_init_residual};
      const std::string name = fmt::format("layer{}.{}", stage + 1, i);
      model.blocks.push_back({name, name, std::make_shared<Residual>(block)});
      in = block.out();
    }
    width *= 2;
  }
  model.blocks.push_back({"head", "", std::make_shared<Head>(in, o.classes)});
  return model;
}

}  // namespace weft
