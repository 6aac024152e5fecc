#include "weft/models/gpt.h"

#include <fmt/core.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/block.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/layers/dropout.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/layers/normed_linear.h"
#include "weft/nn/loss/language_head.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/sequence/documents.h"
#include "weft/nn/sequence/token_ranges.h"

namespace weft {

namespace {

constexpr double kStddev = 0.02;

class EmbeddingBlock : public Block {
 public:
  explicit EmbeddingBlock(const GptOptions& o)
      : dropout_(o.dropout), tokens_(o.vocabulary, o.width, kStddev), positions_(o.context, o.width, kStddev) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor& ids = inputs.front();
    const Documents documents(inputs, context, "model gpt");
    documents.check_beside(ids);
    const at::Tensor tokens = tokens_(ids, context);
    const at::Tensor positions = documents.is_packed()
                                     ? positions_(documents.places(), context)
                                     : embedding(sequence_ranges(context, ids.size(1)), positions_.weight, context);
    return documents.outputs_with_places(dropout(tokens.add(positions), dropout_, context, "embedding.dropout"));
  }

  Parameter& token_weights() { return tokens_.weight; }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    tokens_.describe(specs, "wte");
    positions_.describe(specs, "wpe");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  double dropout_;
  Embedding tokens_, positions_;
};

class LayerBlock : public Block, public HasKind {
 public:
  /// Projections back into the residual stream start smaller by sqrt(2 x layers), so that its variance does not grow with
  /// depth.
  LayerBlock(const GptOptions& o, std::string name)
      : name_(std::move(name)),
        head_width_(o.width / o.heads),
        dropout_(o.dropout),
        norm1_(o.width),
        qkv_(o.width, 3 * o.width),
        out_(o.width, o.width),
        norm2_(o.width),
        up_(o.width, 4 * o.width),
        down_(4 * o.width, o.width) {
    const double residual = kStddev / std::sqrt(2.0 * static_cast<double>(o.layers));
    qkv_.normal(kStddev);
    out_.normal(residual);
    up_.normal(kStddev);
    down_.normal(residual);
  }

  Tensors forward(const Tensors& inputs, const Context& context) override {
    at::Tensor x = inputs.front();
    const Documents documents(inputs, context, name_);
    // The branch output that is added to the stream; backward may recompute it.
    const auto attend = [this, context, runs = documents.runs()](const at::Tensor& qkv) {
      return out_(attention(qkv, qkv.size(2) / (3 * head_width_), context, name_, runs), context);
    };
    at::Tensor attended;
    if (context.layout.recompute_parts) {
      const auto all = [this, context, attend](const at::Tensor& in) { return attend(project(in, context).outputs.front()); };
      attended = recompute(all, x, PartDraws::keys);
    } else {
      const Branch projected = project(x, context);
      x = projected.stream;
      attended = attend(projected.outputs.front());
    }
    attended = dropout(attended, dropout_, context, name_ + ".attn.dropout");
    const Branch up = normed_linear(x, attended, norm2_.parameters(), {up_.parameters()}, context);
    const at::Tensor mlp = down_(LayerInput::overwritable(up.outputs, kGelu), context);
    return documents.outputs_with_places(up.stream.add(dropout(mlp, dropout_, context, name_ + ".mlp.dropout")));
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm1_.describe(specs, "ln_1");
    qkv_.describe(specs, "attn.c_attn");
    out_.describe(specs, "attn.c_proj");
    norm2_.describe(specs, "ln_2");
    up_.describe(specs, "mlp.c_fc");
    down_.describe(specs, "mlp.c_proj");
    return specs;
  }

  std::string kind() const override { return fmt::format("layer with heads of {}, dropout {}", head_width_, dropout_); }
  bool can_recompute_parts() const override { return true; }
  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  /// Projects to queries, keys and values.
  Branch project(const at::Tensor& x, const Context& context) {
    return normed_linear(x, {}, norm1_.parameters(), {qkv_.parameters()}, context);
  }

  std::string name_;
  int64_t head_width_;
  double dropout_;
  LayerNorm norm1_;
  Linear qkv_, out_;
  LayerNorm norm2_;
  Linear up_, down_;
};

class HeadBlock : public Block {
 public:
  /// With tied weights the logits are products with the token embeddings, which the embedding block owns.
  HeadBlock(const GptOptions& o, std::shared_ptr<EmbeddingBlock> tied)
      : vocabulary_(o.vocabulary),
        norm_(o.width),
        logits_(tied ? Linear(1, 1, false) : Linear(o.width, o.vocabulary, false)),
        tied_(std::move(tied)) {
    logits_.normal(kStddev);
  }

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const LinearParameters layer = tied_ ? LinearParameters{&tied_->token_weights(), nullptr} : logits_.parameters();
    return language_head(inputs.front(), norm_.parameters(), layer, vocabulary_, context);
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm_.describe(specs, "ln_f");
    if (!tied_) logits_.describe(specs, "lm_head");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool can_chunk_loss() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  int64_t vocabulary_;
  LayerNorm norm_;
  Linear logits_;
  std::shared_ptr<EmbeddingBlock> tied_;
};

/// Attention splits by heads, the MLP by its inner width, each with one sum at the end (Shoeybi et al. 2019); the embedding and
/// head split by parts of the vocabulary.
SplitTable gpt_splits(const GptOptions& o) {
  SplitTable table = {
      {.layer = "wte", .kind = SplitKind::vocabulary},
      {.layer = "h.*.attn.c_attn",
       .kind = SplitKind::columns,
       .segments = {o.width, o.width, o.width},
       .unit = o.width / o.heads,
       .unit_name = "heads"},
      {.layer = "h.*.attn.c_proj", .kind = SplitKind::rows, .unit = o.width / o.heads, .unit_name = "heads"},
      {.layer = "h.*.mlp.c_fc", .kind = SplitKind::columns},
      {.layer = "h.*.mlp.c_proj", .kind = SplitKind::rows},
  };
  if (!o.tied_embeddings) table.push_back({.layer = "lm_head", .kind = SplitKind::vocabulary});
  return table;
}

}  // namespace

Model gpt(const GptOptions& o) {
  if (o.layers < 1 || o.heads < 1 || o.width < 1 || o.context < 1 || o.vocabulary < 1) {
    throw InputError("model gpt: layers, heads, width, context and vocabulary must all be at least 1");
  }
  if (o.width % o.heads != 0) {
    throw InputError(fmt::format("model gpt: {} heads do not divide width {}; the width must be a multiple", o.heads, o.width));
  }
  Model model{.name = "gpt",
              .blocks = {},
              .loss = vocabulary_cross_entropy(o.vocabulary),
              .hits = vocabulary_hits(o.vocabulary),
              .splits = gpt_splits(o),
              .splits_sequences = true,
              .options = {model_option("name", "gpt"), model_option("layers", o.layers), model_option("heads", o.heads),
                          model_option("width", o.width), model_option("context", o.context),
                          model_option("vocabulary", o.vocabulary), model_option("tied_embeddings", o.tied_embeddings)}};
  const auto embedding = std::make_shared<EmbeddingBlock>(o);
  model.blocks.push_back({"embedding", "", embedding});
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    const std::string name = fmt::format("h.{}", layer);
    model.blocks.push_back({name, name, std::make_shared<LayerBlock>(o, name)});
  }
  NamedBlock head{"head", "", std::make_shared<HeadBlock>(o, o.tied_embeddings ? embedding : nullptr)};
  if (o.tied_embeddings) head.uses = {0};
  model.blocks.push_back(std::move(head));
  return model;
}

}  // namespace weft
