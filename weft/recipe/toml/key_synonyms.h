// What other systems call the keys of a recipe, for the error about a key that weft does not know.
#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace weft {

/// A name of others and the key that it means: {"learning_rate", "optimizer.lr"}; of sections: {"training", "run"}; of one in a
/// section alone: {"save.path", "save.folder"}. Lower case.
using KeySynonym = std::pair<std::string_view, std::string_view>;

/// The names that PyTorch, Hugging Face's Trainer, Lightning, Megatron-LM, DeepSpeed, timm, nanoGPT and JAX use.
std::span<const KeySynonym> key_synonyms();

/// The key, or section, that `name` means, upper and lower case and '-' and '_' counting as equal; empty: it is no such name.
std::string_view meant_by(std::string_view name);

}  // namespace weft
