#include "tests/train/compare/broken_splits.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "weft/nn/attention/attention.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/random.h"
#include "weft/nn/sequence/token_ranges.h"
#include "weft/nn/sequence/zigzag.h"
#include "weft/nn/tensor_parallel/collectives.h"

namespace weft {

namespace {

constexpr int64_t kWidth = 16, kHeads = 4, kInner = 32;
constexpr double kDropout = 0.1, kStddev = 0.2;

/// A split layer as if it were whole.
at::Tensor alone(Linear& layer, const at::Tensor& x) {
  return linear(x, layer.weight, layer.bias.value.defined() ? &layer.bias : nullptr);
}

class SplitEmbedding : public Block {
 public:
  explicit SplitEmbedding(Fault fault)
      : fault_(fault), tokens_(kSplitVocabulary, kWidth, kStddev), positions_(kSplitTokens, kWidth, kStddev) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor& ids = inputs.front();
    std::vector<ShardRange> ranges = sequence_ranges(context, ids.size(1));
    if (fault_ == Fault::local_positions) ranges = {{0, ids.size(1)}};
    Context alone = context;
    alone.tp = recorded_group("tp", context.tp.size(), std::make_shared<RecordedCalls>());  // moves nothing
    const at::Tensor rows = tokens_(ids, fault_ == Fault::tokens_not_summed ? alone : context);
    return {rows.add(positions_(shard_positions(ranges, ids.device()), context))};
  }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    tokens_.describe(specs, "tokens");
    positions_.describe(specs, "positions");
    return specs;
  }

 private:
  Fault fault_;
  Embedding tokens_, positions_;
};

class SplitLayer : public Block {
 public:
  SplitLayer(Fault fault, std::string name, int tp)
      : fault_(fault),
        name_(std::move(name)),
        norm1_(kWidth),
        qkv_(kWidth, 3 * kWidth),
        out_(kWidth, kWidth),
        norm2_(kWidth),
        up_(kWidth, kInner),
        down_(kInner, kWidth) {
    for (Linear* layer : {&qkv_, &out_, &up_, &down_}) layer->normal(kStddev);
    down_.bias_init = {Init::Kind::normal, 0.0, kStddev};  // no constant, which a norm takes away
    if (fault == Fault::parts_alike) give_parts(tp);
    if (fault == Fault::counted_on_every_rank)
      norm1_.weight.split = Split{.segments = {kWidth}, .layer = name_ + ".norm1"};  // into one part
  }

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor& x = inputs.front();
    const at::Tensor qkv = qkv_(norm1_(x, context), context);
    const int64_t heads = qkv.size(2) / (3 * kWidth / kHeads);
    const at::Tensor attended = fault_ == Fault::local_keys ? attention(qkv, heads) : attention(qkv, heads, context, name_);
    const at::Tensor y = x.add(drop(out_(attended, context), context));
    const at::Tensor normed = fault_ == Fault::norm_not_summed ? norm2_(y) : norm2_(y, context);
    return {y.add(down(at::gelu(up(normed, context), "tanh"), context))};
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm1_.describe(specs, "norm1");
    qkv_.describe(specs, "qkv");
    out_.describe(specs, "out");
    norm2_.describe(specs, "norm2");
    up_.describe(specs, "up");
    down_.describe(specs, "down");
    return specs;
  }

 private:
  /// Given values, of which every rank has the first part.
  void give_parts(int tp) {
    const at::Generator generator = at::detail::createCPUGenerator(5);
    const at::Tensor first = at::randn({kInner, kWidth}, generator, at::kFloat).mul(kStddev).narrow(0, 0, kInner / tp);
    up_.weight.value = at::cat(std::vector<at::Tensor>(static_cast<size_t>(tp), first));
    up_.weight_init = {};
  }

  at::Tensor up(const at::Tensor& x, const Context& context) {
    switch (fault_) {
      case Fault::columns_not_summed:
        return alone(up_, x);
      case Fault::columns_summed_twice:
        return up_(copy_to(x, context.tp, "once more"), context);
      case Fault::gathered_as_if_alike:
        return context.layout.sequence_parallel ? alone(up_, join_over(x, 1, context.tp, "tokens")) : up_(x, context);
      default:
        return up_(x, context);
    }
  }

  at::Tensor down(const at::Tensor& x, const Context& context) {
    if (fault_ == Fault::rows_not_summed) return alone(down_, x);
    if (fault_ == Fault::bias_in_every_part) return sum_over(alone(down_, x), context.tp, "output");
    return down_(x, context);
  }

  at::Tensor drop(const at::Tensor& x, const Context& context) const {
    const bool by_rank = fault_ == Fault::dropped_by_rank;
    const int64_t ranks = context.cp.size() * (context.layout.sequence_parallel ? context.tp.size() : 1);
    std::vector<ElementRun> runs;
    for (int64_t sample = 0; sample < x.size(0); ++sample) {
      const int64_t first = (context.first_sample + sample) * x.size(1) * ranks;
      for (const ShardRange& range : by_rank ? std::vector<ShardRange>{{0, x.size(1)}} : own_ranges(context, x.size(1)))
        runs.push_back({(first + range.begin) * kWidth, (range.end - range.begin) * kWidth});
    }
    return dropout(x, kDropout, random_key(context.seed, name_, context.step), runs);
  }

  Fault fault_;
  std::string name_;
  LayerNorm norm1_;
  Linear qkv_, out_;
  LayerNorm norm2_;
  Linear up_, down_;
};

class SplitHead : public Block {
 public:
  SplitHead() : norm_(kWidth), logits_(kWidth, kSplitVocabulary, false) { logits_.normal(kStddev); }
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return {logits_(norm_(inputs.front(), context), context)};
  }
  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm_.describe(specs, "norm");
    logits_.describe(specs, "logits");
    return specs;
  }

 private:
  LayerNorm norm_;
  Linear logits_;
};

/// Treats this rank's classes as the only ones, for targets among them.
LossValue loss_of_own_classes(const Tensors& outputs, const at::Tensor& target, const Context& context) {
  if (context.tp.size() == 1) return cross_entropy(outputs, target);
  const at::Tensor logits = outputs.front().reshape({-1, outputs.front().size(-1)}), flat = target.reshape({-1});
  const int64_t classes = logits.size(1), first = classes * context.tp.rank();
  const at::Tensor mine = flat.ge(first).bitwise_and_(flat.lt(first + classes));
  const at::Tensor index = flat.sub(first).masked_fill_(mine.bitwise_not(), 0);
  const at::Tensor each = at::logsumexp(logits, {1}).sub(logits.gather(1, index.unsqueeze(1)).squeeze(1));
  return {each.masked_fill(mine.bitwise_not(), 0).sum(), flat.ge(0).sum().item<int64_t>()};
}

LossValue mean_of_local_means(const Tensors& outputs, const at::Tensor& target, const Context& context) {
  LossValue value = vocabulary_cross_entropy(kSplitVocabulary)(outputs, target, context);
  const int64_t all = kSplitTargets * target.size(0);
  value.sum = value.sum.mul(static_cast<double>(all) / context.cp.size() / static_cast<double>(value.count));
  return value;
}

LossValue padding_in_the_loss(const Tensors& outputs, const at::Tensor& target, const Context& context) {
  const int64_t padded = outputs.front().size(-1) * context.tp.size();
  return vocabulary_cross_entropy(padded)(outputs, target, context);
}

Loss loss_with(Fault fault) {
  switch (fault) {
    case Fault::loss_of_own_classes:
      return loss_of_own_classes;
    case Fault::mean_of_local_means:
      return mean_of_local_means;
    case Fault::padding_in_the_loss:
      return padding_in_the_loss;
    default:
      return vocabulary_cross_entropy(kSplitVocabulary);
  }
}

}  // namespace

Model split_model(Fault fault, int tp) {
  const int64_t head = kWidth / kHeads;
  Model model{.name = "split",
              .loss = loss_with(fault),
              .splits = {{.layer = "embedding.tokens", .kind = SplitKind::vocabulary},
                         {.layer = "layer.*.qkv", .segments = {kWidth, kWidth, kWidth}, .unit = head, .unit_name = "heads"},
                         {.layer = "layer.*.out", .kind = SplitKind::rows, .unit = head, .unit_name = "heads"},
                         {.layer = "layer.*.up"},
                         {.layer = "layer.*.down", .kind = SplitKind::rows},
                         {.layer = "head.logits", .kind = SplitKind::vocabulary}},
              .splits_sequences = true};
  model.blocks.push_back({"embedding", "embedding", std::make_shared<SplitEmbedding>(fault)});
  for (int i = 0; i < 2; ++i) {
    const std::string name = fmt::format("layer.{}", i);
    // The second layer has the mistake: the first still shows where a gradient is wrong from there on.
    const auto layer = std::make_shared<SplitLayer>(i == 1 ? fault : Fault::none, name, tp);
    model.blocks.push_back({name, name, layer});
  }
  model.blocks.push_back({"head", "head", std::make_shared<SplitHead>()});
  return model;
}

}  // namespace weft
