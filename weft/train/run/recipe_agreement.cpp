#include "weft/train/run/recipe_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <variant>
#include <vector>

#include "weft/checkpoint/digest.h"
#include "weft/train/recipe/recipe_keys.h"

namespace weft {

namespace {

/// The other sections are compared as what becomes of them (agreement.h).
bool is_compared(const FileKey& key) {
  if (key.section == "run") return key.name == "steps" || key.name == "evaluate_every";
  return key.section == "model" || (key.section == "data" && key.name != "path");
}

std::string value_text(const KeyTarget& target) {
  const auto text = [](const auto* value) -> std::string {
    if constexpr (std::is_same_v<decltype(value), const std::optional<int64_t>*> ||
                  std::is_same_v<decltype(value), const std::optional<double>*>) {
      return *value ? fmt::format("{}", **value) : "left out";
    } else {
      return fmt::format("{}", *value);
    }
  };
  return std::visit(text, target);
}

/// "60000 samples, digest 0f3a...".
std::string data_text(const Dataset& data) {
  constexpr int64_t kSamples = 16;
  std::vector<int64_t> indices;
  indices.reserve(kSamples);
  for (int64_t i = 0; i < kSamples; ++i) indices.push_back(i * (data.size() - 1) / (kSamples - 1));
  const Batch batch = data.get(indices, 0);
  std::vector<NamedTensor> tensors = {{"target", batch.target}};
  for (size_t i = 0; i < batch.inputs.size(); ++i) tensors.push_back({fmt::format("input {}", i), batch.inputs[i]});
  return fmt::format("{} samples, digest {}", data.size(), weights_sha256(tensors).substr(0, 16));
}

}  // namespace

std::string recipe_agreement(const Recipe& recipe, const Datasets& data) {
  Recipe copy = recipe;
  std::string text;
  for (const FileKey& key : recipe_keys(copy)) {
    if (is_compared(key)) text += fmt::format("{}: {}\n", key.dotted(), value_text(key.target));
  }
  return text + fmt::format("training data: {}\nevaluation data: {}\n", data_text(*data.training), data_text(*data.evaluation));
}

}  // namespace weft
