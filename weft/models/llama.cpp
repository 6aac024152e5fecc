#include "weft/models/llama.h"

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/nn/attention/attention.h"
#include "weft/nn/block.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/layers/normed_linear.h"
#include "weft/nn/layers/shared_rotation.h"
#include "weft/nn/loss/language_head.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/sequence/documents.h"
#include "weft/nn/sequence/token_ranges.h"

namespace weft {

namespace {

constexpr double kLlamaStddev = 0.02;

Linear projection(int64_t in, int64_t out) {
  Linear made(in, out, /*with_bias=*/false);
  made.normal(kLlamaStddev);
  return made;
}

class LlamaEmbedding : public Block {
 public:
  explicit LlamaEmbedding(const LlamaOptions& o) : context_(o.context), tokens_(o.vocabulary, o.width, kLlamaStddev) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const at::Tensor& ids = inputs.front();
    const int64_t tokens = ids.size(1) * context.cp.size();
    if (tokens > context_) {
      throw InputError(fmt::format("model llama: a sample of {} tokens is longer than the context of {}", tokens, context_));
    }
    const Documents documents(inputs, context, "model llama");
    documents.check_beside(ids);
    return documents.outputs_with_places(tokens_(ids, context));
  }

  Parameter& token_weights() { return tokens_.weight; }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    tokens_.describe(specs, "embed_tokens");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  int64_t context_;
  Embedding tokens_;
};

/// The number of heads on this rank follows from the projections' output: it may be part of the layer's heads.
class LlamaLayer : public Block, public HasKind {
 public:
  LlamaLayer(const LlamaOptions& o, std::string name, std::shared_ptr<SharedRotation> rotation)
      : name_(std::move(name)),
        head_width_(o.width / o.heads),
        rotation_(std::move(rotation)),
        norm1_(o.width, o.norm_eps),
        q_(projection(o.width, o.width)),
        k_(projection(o.width, o.kv_heads * head_width_)),
        v_(projection(o.width, o.kv_heads * head_width_)),
        out_(projection(o.width, o.width)),
        norm2_(o.width, o.norm_eps),
        gate_(projection(o.width, o.ffn)),
        up_(projection(o.width, o.ffn)),
        down_(projection(o.ffn, o.width)) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    at::Tensor x = inputs.front();
    const Documents documents(inputs, context, name_);
    // The branch output that is added to the stream; backward may recompute it.
    const auto attend = [this, context, documents](const Tensors& qkv) {
      return out_(attention_of(qkv, context, documents), context);
    };
    at::Tensor attended;
    if (context.layout.recompute_parts) {
      const auto all = [this, context, attend](const at::Tensor& in) { return attend(project(in, context).outputs); };
      attended = recompute(all, x, PartDraws::keys);
    } else {
      const Branch projected = project(x, context);
      x = projected.stream;
      attended = attend(projected.outputs);
    }
    const Branch wide = normed_linear(x, attended, norm2_.parameters(), {gate_.parameters(), up_.parameters()}, context);
    return documents.outputs_with_places(wide.stream.add(down_(LayerInput::overwritable(wide.outputs, kSwiglu), context)));
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm1_.describe(specs, "input_layernorm");
    q_.describe(specs, "self_attn.q_proj");
    k_.describe(specs, "self_attn.k_proj");
    v_.describe(specs, "self_attn.v_proj");
    out_.describe(specs, "self_attn.o_proj");
    norm2_.describe(specs, "post_attention_layernorm");
    gate_.describe(specs, "mlp.gate_proj");
    up_.describe(specs, "mlp.up_proj");
    down_.describe(specs, "mlp.down_proj");
    return specs;
  }

  std::string kind() const override { return fmt::format("layer with heads of {}", head_width_); }
  bool can_recompute_parts() const override { return true; }
  bool can_split_backward() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  /// Projects to queries, keys and values.
  Branch project(const at::Tensor& x, const Context& context) {
    return normed_linear(x, {}, norm1_.parameters(), {q_.parameters(), k_.parameters(), v_.parameters()}, context);
  }

  /// Takes [batch, tokens, heads x head width] each; returns [batch, tokens, width of the heads here].
  at::Tensor attention_of(const Tensors& qkv, const Context& context, const Documents& documents) {
    const at::Tensor q = heads_of(qkv[0]), k = heads_of(qkv[1]), v = heads_of(qkv[2]);
    Rotation rotation = rotation_->at(sequence_ranges(context, q.size(2)), q.device(), q.scalar_type());
    if (documents.is_packed()) rotation = rotation_of_samples(rotation, documents.places());
    return attention(rotate(q, rotation), rotate(k, rotation), v, context, name_, documents.runs());
  }

  /// [batch, tokens, heads x head width] as [batch, heads, tokens, head width].
  at::Tensor heads_of(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), x.size(2) / head_width_, head_width_}).transpose(1, 2);
  }

  std::string name_;
  int64_t head_width_;
  std::shared_ptr<SharedRotation> rotation_;  ///< of all layers
  RmsNorm norm1_;
  Linear q_, k_, v_, out_;
  RmsNorm norm2_;
  Linear gate_, up_, down_;
};

class LlamaHead : public Block {
 public:
  /// With tied weights the logits are products with the token embeddings, which the embedding block owns.
  LlamaHead(const LlamaOptions& o, std::shared_ptr<LlamaEmbedding> tied)
      : vocabulary_(o.vocabulary),
        norm_(o.width, o.norm_eps),
        logits_(tied ? Linear(1, 1, false) : projection(o.width, o.vocabulary)),
        tied_(std::move(tied)) {}

  Tensors forward(const Tensors& inputs, const Context& context) override {
    const LinearParameters layer = tied_ ? LinearParameters{&tied_->token_weights(), nullptr} : logits_.parameters();
    return language_head(inputs.front(), norm_.parameters(), layer, vocabulary_, context);
  }

  std::vector<ParamSpec> parameters() override {
    std::vector<ParamSpec> specs;
    norm_.describe(specs, "model.norm");
    if (!tied_) logits_.describe(specs, "lm_head");
    return specs;
  }

  bool can_split_backward() const override { return true; }
  bool can_chunk_loss() const override { return true; }
  bool always_uses_all() const override { return true; }

 private:
  int64_t vocabulary_;
  RmsNorm norm_;
  Linear logits_;
  std::shared_ptr<LlamaEmbedding> tied_;
};

/// Query heads split with the key-value heads that they share; the MLP by its inner width (Shoeybi et al. 2019).
SplitTable llama_splits(const LlamaOptions& o) {
  const int64_t head = o.width / o.heads;
  const auto by_heads = [head](const char* layer, SplitKind kind, const char* heads) {
    return SplitRule{.layer = layer, .kind = kind, .unit = head, .unit_name = heads};
  };
  SplitTable table = {
      {.layer = "model.embed_tokens", .kind = SplitKind::vocabulary},
      by_heads("model.layers.*.self_attn.q_proj", SplitKind::columns, "heads"),
      by_heads("model.layers.*.self_attn.k_proj", SplitKind::columns, "key-value heads"),
      by_heads("model.layers.*.self_attn.v_proj", SplitKind::columns, "key-value heads"),
      by_heads("model.layers.*.self_attn.o_proj", SplitKind::rows, "heads"),
      {.layer = "model.layers.*.mlp.gate_proj", .kind = SplitKind::columns},
      {.layer = "model.layers.*.mlp.up_proj", .kind = SplitKind::columns},
      {.layer = "model.layers.*.mlp.down_proj", .kind = SplitKind::rows},
  };
  if (!o.tied_embeddings) table.push_back({.layer = "lm_head", .kind = SplitKind::vocabulary});
  return table;
}

/// Validates the options and resolves those that are 0.
LlamaOptions checked(LlamaOptions o) {
  if (o.layers < 1 || o.heads < 1 || o.kv_heads < 0 || o.width < 1 || o.ffn < 0 || o.context < 1 || o.vocabulary < 1) {
    throw InputError(
        "model llama: layers, heads, width, context and vocabulary must all be at least 1, kv_heads and ffn 0 or more");
  }
  if (!(o.rope_theta > 0.0) || !(o.norm_eps >= 0.0)) {
    throw InputError(
        fmt::format("model llama: rope_theta = {} must be above 0, and norm_eps = {} at least 0", o.rope_theta, o.norm_eps));
  }
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  if (o.ffn == 0) o.ffn = llama_ffn(o.width);
  if (o.width % (2 * o.heads) != 0) {
    throw InputError(
        fmt::format("model llama: width {} over {} heads does not give heads an even width, which rotary positions need; "
                    "the width must be a multiple of {}",
                    o.width, o.heads, 2 * o.heads));
  }
  if (o.heads % o.kv_heads != 0) {
    throw InputError(
        fmt::format("model llama: {} kv_heads do not divide {} heads; heads must be a multiple", o.kv_heads, o.heads));
  }
  return o;
}

/// Takes validated options.
std::vector<ModelOption> named_options(const LlamaOptions& o) {
  return {model_option("name", "llama"),
          model_option("layers", o.layers),
          model_option("heads", o.heads),
          model_option("kv_heads", o.kv_heads),
          model_option("width", o.width),
          model_option("ffn", o.ffn),
          model_option("context", o.context),
          model_option("vocabulary", o.vocabulary),
          model_option("rope_theta", o.rope_theta),
          model_option("norm_eps", o.norm_eps),
          model_option("tied_embeddings", o.tied_embeddings)};
}

}  // namespace

int64_t llama_ffn(int64_t width) { return round_up(8 * width / 3, int64_t{256}); }

Model llama(const LlamaOptions& options) {
  const LlamaOptions o = checked(options);
  Model model{.name = "llama",
              .blocks = {},
              .loss = vocabulary_cross_entropy(o.vocabulary),
              .hits = vocabulary_hits(o.vocabulary),
              .splits = llama_splits(o),
              .splits_sequences = true,
              .options = named_options(o)};
  const auto embedding = std::make_shared<LlamaEmbedding>(o);
  model.blocks.push_back({"embedding", "model", embedding});
  const auto rotation = std::make_shared<SharedRotation>(o.width / o.heads, o.rope_theta);
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    const std::string name = fmt::format("layers.{}", layer);
    model.blocks.push_back({name, "model." + name, std::make_shared<LlamaLayer>(o, name, rotation)});
  }
  NamedBlock head{"head", "", std::make_shared<LlamaHead>(o, o.tied_embeddings ? embedding : nullptr)};
  if (o.tied_embeddings) head.uses = {0};
  model.blocks.push_back(std::move(head));
  return model;
}

}  // namespace weft
