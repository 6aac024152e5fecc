// Llama (Touvron et al. 2023, arXiv:2302.13971 and 2307.09288) as a chain of blocks: embedding, layers, head. A decoder-only
// transformer with root-mean-square norms before each half of a layer, rotary positions, gated feed-forward layers and grouped
// queries, without biases and dropout. Parameters have the names, shapes and meaning of Hugging Face's LlamaForCausalLM.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// Size and other options of a Llama.
struct LlamaOptions {
  int64_t layers = 6;            ///< transformer layers, each a block
  int64_t heads = 6;             ///< query heads of a layer; must divide the width; each head's width must be even
  int64_t kv_heads = 0;          ///< key and value heads; must divide heads; 0: same as heads
  int64_t width = 384;           ///< elements per token of an activation
  int64_t ffn = 0;               ///< hidden elements of the feed-forward layers; 0: llama_ffn(width)
  int64_t context = 256;         ///< maximum tokens per sample
  int64_t vocabulary = 256;      ///< number of token ids
  double rope_theta = 10000.0;   ///< base of the rotary angles
  double norm_eps = 1e-5;        ///< added to the mean squares
  bool tied_embeddings = false;  ///< logits are products with the token embeddings (Press & Wolf 2017)
};

/// Returns 8/3 width, rounded up to a multiple of 256, as in the paper's code.
int64_t llama_ffn(int64_t width);

/// A Llama with cross_entropy() as its loss: input ids [batch, tokens] int64, output logits [batch, tokens, vocabulary]; tokens
/// <= context. A second input marks packed documents (nn/sequence/documents.h): positions and attention are confined to each
/// document. Parameters: model.embed_tokens, model.layers.0.input_layernorm, .self_attn.{q,k,v,o}_proj,
/// .post_attention_layernorm, .mlp.{gate,up,down}_proj, ..., model.norm, lm_head (absent when tied). Matrices are [out, in]
/// and drawn from N(0, 0.02^2), norms are ones. Throws InputError when heads or kv_heads do not divide evenly, a head's width
/// is odd, or a size is below 1.
Model llama(const LlamaOptions& options);

}  // namespace weft
