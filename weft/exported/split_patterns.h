// SplitPatterns: layers of an exported model that ranks of tp may share, by their modules' paths.
#pragma once

#include <string>

namespace weft {

/// Comma-separated patterns of module paths; '*' matches any text.
struct SplitPatterns {
  std::string columns = {};     ///< linear layers; "attn.qkv:3": of three segments, each divided
  std::string rows = {};        ///< linear layers
  std::string vocabulary = {};  ///< embeddings by entries, and the layer of the logits by classes
};

}  // namespace weft
