// GPT: a decoder-only transformer (Radford et al. 2019) as a chain of blocks: embedding, layers, head. Initialised like GPT-2.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// The size of a GPT.
struct GptOptions {
  int64_t layers = 6;            ///< transformer layers, each a block
  int64_t heads = 6;             ///< attention heads of a layer; must divide the width
  int64_t width = 384;           ///< elements per token of an activation
  int64_t context = 256;         ///< maximum tokens per sample
  int64_t vocabulary = 256;      ///< number of token ids
  bool tied_embeddings = false;  ///< logits are products with the token embeddings (Press & Wolf 2017)
  double dropout = 0.0;          ///< probability, on the embedding and on both residual branches
};

/// A GPT with cross_entropy() as its loss: input ids [batch, tokens] int64, output logits [batch, tokens, vocabulary]; tokens
/// <= context. A second input marks packed documents (nn/sequence/documents.h): positions and attention are confined to each
/// document. Parameter names follow GPT-2's: wte, wpe, h.0.ln_1, h.0.attn.c_attn, h.0.attn.c_proj, h.0.ln_2, h.0.mlp.c_fc,
/// h.0.mlp.c_proj, ..., ln_f, lm_head. Matrices are [out, in]. Throws InputError when heads do not divide width or a size is
/// below 1.
Model gpt(const GptOptions& options);

}  // namespace weft
