// Other systems' names for recipe keys, for the error about an unknown key.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace weft {

/// Another system's name and the key it stands for: {"learning_rate", "optimizer.lr"}; for sections: {"training", "run"}; valid
/// in one section only: {"save.path", "save.folder"}. Lower case.
using KeySynonym = std::pair<std::string_view, std::string_view>;

/// Names used by PyTorch, Hugging Face's Trainer, Lightning, Megatron-LM, DeepSpeed, timm, nanoGPT and JAX.
std::span<const KeySynonym> key_synonyms();

/// Returns the key or section that `name` stands for, ignoring case and the difference between '-' and '_'; empty if unknown.
std::string_view meant_by(std::string_view name);

}  // namespace weft
