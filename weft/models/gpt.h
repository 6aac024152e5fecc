// GPT: a decoder-only transformer (Radford et al. 2019) as a chain of blocks: embedding, layers, head. Initialised as GPT-2 is.
#pragma once

#include "weft/nn/model.h"

namespace weft {

/// The size of a GPT.
struct GptOptions {
  int64_t layers = 6;            ///< transformer layers, each a block
  int64_t heads = 6;             ///< of a layer's attention; must divide the width
  int64_t width = 384;           ///< elements of a token's activation
  int64_t context = 256;         ///< most tokens of a sample
  int64_t vocabulary = 256;      ///< different token ids
  bool tied_embeddings = false;  ///< logits are products with the token embeddings (Press & Wolf 2017)
  double dropout = 0.0;          ///< on the embedding and on both residual branches
};

/// A GPT with cross_entropy() as its loss: input ids [batch, tokens] int64, output logits [batch, tokens, vocabulary]; tokens
/// <= context. A second input tells of documents side by side in a sample (nn/sequence/documents.h): positions are counted and
/// attention is kept within each. Parameter names follow GPT-2's: wte, wpe, h.0.ln_1, h.0.attn.c_attn, h.0.attn.c_proj,
/// h.0.ln_2, h.0.mlp.c_fc, h.0.mlp.c_proj, ..., ln_f, lm_head. Matrices are [out, in]. Throws InputError when heads do not
/// divide width or a size is below 1.
Model gpt(const GptOptions& options);

}  // namespace weft
