#include "weft/checkpoint/weights/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_error.h"
#include "weft/base/input_file.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/weights/torch_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using WeightsJson = nlohmann::ordered_json;

constexpr int64_t kMostJsonBytes = int64_t{100} << 20;
constexpr const char* kShardIndex = "model.safetensors.index.json";
constexpr const char* kOneFile = "model.safetensors";

WeightsJson read_json(const std::string& what, const std::string& path) {
  const std::string text = read_text_file(what, path, kMostJsonBytes);
  WeightsJson json = WeightsJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw FileError(fmt::format("{}: {} is no JSON object", path, what));
  return json;
}

/// One file, or several.
class SafetensorsWeights : public WeightsFile {
 public:
  explicit SafetensorsWeights(const std::string& path) { add(path); }
  /// As the index says; a file of it that lacks a tensor is an error.
  SafetensorsWeights(const std::string& index, const WeightsJson& json) {
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object()) throw FileError(fmt::format("{}: it has no \"weight_map\"", index));
    std::map<std::string, bool> seen;
    for (const auto& [name, file] : map->items()) {
      if (!file.is_string()) throw FileError(fmt::format("{}: \"weight_map\" has no file for '{}'", index, name));
      if (!std::exchange(seen[file.get<std::string>()], true))
        add((fs::path(index).parent_path() / file.get<std::string>()).string());
      if (place_.count(name) == 0) throw FileError(fmt::format("{}: '{}' is not in {}", index, name, file.get<std::string>()));
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    names.reserve(place_.size());
    for (const auto& [name, file] : place_) names.push_back(name);
    return names;
  }
  at::Tensor read(const std::string& name) override { return files_[place_.at(name)].read(name); }

 private:
  void add(const std::string& path) {
    files_.emplace_back(path);
    for (const std::string& name : files_.back().names()) place_[name] = files_.size() - 1;
  }

  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> place_;  ///< by name: the file
};

class TorchWeights : public WeightsFile {
 public:
  explicit TorchWeights(const std::string& path) : tensors_(read_torch_file(path)) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  at::Tensor read(const std::string& name) override { return tensors_.at(name).cpu().contiguous(); }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

class CheckpointWeights : public WeightsFile {
 public:
  explicit CheckpointWeights(const std::string& path) : checkpoint_(path) {}
  std::vector<std::string> names() const override { return checkpoint_.weights(); }
  at::Tensor read(const std::string& name) override { return checkpoint_.read(kModelPrefix + name); }

 private:
  SavedCheckpoint checkpoint_;
};

bool is_zip(const std::string& path) {
  const InputFile file = open_input(path);
  char magic[4] = {};
  return file.reason.empty() && read_input(file, 0, magic, 4) == 4 && std::string_view(magic, 4) == "PK\3\4";
}

std::unique_ptr<WeightsFile> open_index(const std::string& path) {
  return std::make_unique<SafetensorsWeights>(path, read_json("the index of weights", path));
}

/// The text that '*' of `pattern` stands for; none where it does not fit.
std::optional<std::string> match(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name ? std::optional<std::string>("") : std::nullopt;
  const std::string head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (name.size() < head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail)) return std::nullopt;
  return name.substr(head.size(), name.size() - head.size() - tail.size());
}

}  // namespace

std::unique_ptr<WeightsFile> open_weights(const std::string& path) {
  std::error_code code;
  const bool is_url = path.find("://") != std::string::npos;
  if (is_url) return std::make_unique<CheckpointWeights>(path);
  if (fs::is_directory(path, code)) {
    const fs::path folder = path;
    if (fs::exists(folder / kShardIndex, code)) return open_index((folder / kShardIndex).string());
    if (fs::exists(folder / kOneFile, code)) return std::make_unique<SafetensorsWeights>((folder / kOneFile).string());
    return std::make_unique<CheckpointWeights>(path);
  }
  if (path.ends_with(".json")) return open_index(path);
  if (is_zip(path)) return std::make_unique<TorchWeights>(path);
  return std::make_unique<SafetensorsWeights>(path);
}

WeightNames WeightNames::from_file(const std::string& path) {
  WeightNames names;
  const WeightsJson json = read_json("the map of weights' names", path);
  for (const auto& [from, to] : json.items()) {
    const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
    if (!to.is_string() || stars(from) > 1 || stars(from) != stars(to.get<std::string>())) {
      throw FileError(fmt::format("{}: \"{}\" must stand for a name with as many '*', at most one", path, from));
    }
    names.rules_.emplace_back(from, to.get<std::string>());
  }
  return names;
}

std::string WeightNames::in_model(const std::string& name) const {
  for (const auto& [from, to] : rules_) {
    const auto text = match(from, name);
    if (!text) continue;
    const size_t star = to.find('*');
    return star == std::string::npos ? to : to.substr(0, star) + *text + to.substr(star + 1);
  }
  return name;
}

}  // namespace weft
