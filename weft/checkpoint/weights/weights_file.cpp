#include "weft/checkpoint/weights/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_error.h"
#include "weft/base/input_file.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/model_options.h"
#include "weft/checkpoint/other_file.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/weights/exported_file.h"
#include "weft/checkpoint/weights/torch_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using WeightsJson = nlohmann::ordered_json;
using OpenedWeights = std::unique_ptr<WeightsFile>;

constexpr int64_t kMostJsonBytes = int64_t{100} << 20;
// Hugging Face's file names in a folder, in order of search.
constexpr const char* kShardIndexes[] = {"model.safetensors.index.json", "pytorch_model.bin.index.json"};
constexpr const char* kOneFile[] = {"model.safetensors", "pytorch_model.bin"};
constexpr std::pair<std::string_view, std::string_view> kShards[] = {{"model-", ".safetensors"}, {"pytorch_model-", ".bin"}};

class SafetensorsWeights : public WeightsFile {
 public:
  explicit SafetensorsWeights(const std::string& path) : file_(path) {
    const auto saved = file_.metadata().find(kModelMetadata);
    if (saved != file_.metadata().end()) origin_.options = parse_model_options(saved->second, path);
  }
  std::vector<std::string> names() const override { return file_.names(); }
  std::vector<int64_t> shape(const std::string& name) const override { return file_.shape(name); }
  at::Tensor read(const std::string& name) override { return file_.read(name); }
  at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) override {
    return file_.read(name, begin, numel);
  }

 private:
  SafetensorsFile file_;
};

class TorchWeights : public WeightsFile {
 public:
  explicit TorchWeights(const std::string& path) {
    TorchFile file = read_torch_file(path);
    tensors_ = std::move(file.tensors);
    if (!file.nest.empty()) origin_.notes.push_back(fmt::format("its state dict is under '{}'", file.nest));
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  std::vector<int64_t> shape(const std::string& name) const override { return tensors_.at(name).sizes().vec(); }
  at::Tensor read(const std::string& name) override { return tensors_.at(name); }
  at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) override {
    return tensors_.at(name).reshape({-1}).narrow(0, begin, numel);
  }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

/// The weights of a program of torch.export; of tied ones, those under the first name.
class ExportedWeights : public WeightsFile {
 public:
  explicit ExportedWeights(const std::string& path) : file_(path) {
    std::map<std::string, std::string> names;
    for (const auto& [name, tensor] : file_.weights()) {
      if (names.emplace(tensor.record, name).second) names_.push_back(name);
    }
    std::sort(names_.begin(), names_.end());
    origin_.state = file_.state();
  }
  std::vector<std::string> names() const override { return names_; }
  std::vector<int64_t> shape(const std::string& name) const override { return tensor(name).shape; }
  at::Tensor read(const std::string& name) override {
    if (std::exchange(read_, name) != name) values_ = file_.read(tensor(name));
    return values_;
  }
  at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) override {
    return read(name).reshape({-1}).narrow(0, begin, numel);
  }

 private:
  const ExportedTensor& tensor(const std::string& name) const { return *find(file_.weights(), name); }

  ExportedFile file_;
  std::vector<std::string> names_;
  std::string read_;  ///< what was read last, whose parts are usually read in turn
  at::Tensor values_;
};

class CheckpointWeights : public WeightsFile {
 public:
  /// With `averaged`, reads each weight's average where it has one.
  explicit CheckpointWeights(const std::string& path, bool averaged = false) : checkpoint_(path), averaged_(averaged) {
    const auto saved = checkpoint_.index().texts.find(kModelEntry);
    if (saved != checkpoint_.index().texts.end()) origin_.options = parse_model_options(saved->second, checkpoint_.path());
    if (averaged && !has_average(checkpoint_.index())) {
      throw InputError(
          fmt::format("{}: it has no average of the weights; its run did not set optimizer.ema", checkpoint_.path()));
    }
  }
  std::vector<std::string> names() const override { return checkpoint_.weights(); }
  std::vector<int64_t> shape(const std::string& name) const override {
    return checkpoint_.index().tensors.at(kModelPrefix + name).shape;
  }
  at::Tensor read(const std::string& name) override { return checkpoint_.read(entry(name)); }
  at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) override {
    return checkpoint_.read(entry(name), begin, numel);
  }

 private:
  std::string entry(const std::string& name) const {
    const std::string average = std::string(kAverageState) + "/" + name;
    return averaged_ && checkpoint_.index().tensors.count(average) > 0 ? average : kModelPrefix + name;
  }

  SavedCheckpoint checkpoint_;
  bool averaged_;
};

/// Several files, read as one.
class SeveralWeights : public WeightsFile {
 public:
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    names.reserve(place_.size());
    for (const auto& [name, file] : place_) names.push_back(name);
    return names;
  }
  std::vector<int64_t> shape(const std::string& name) const override { return files_[place_.at(name)]->shape(name); }
  at::Tensor read(const std::string& name) override { return files_[place_.at(name)]->read(name); }
  at::Tensor read_part(const std::string& name, int64_t begin, int64_t numel) override {
    return files_[place_.at(name)]->read_part(name, begin, numel);
  }

  bool has(const std::string& name) const { return place_.count(name) > 0; }
  void add(OpenedWeights file) {
    for (const std::string& name : file->names()) place_[name] = files_.size();
    files_.push_back(std::move(file));
  }
  void note(std::string text) { origin_.notes.push_back(std::move(text)); }

 private:
  std::vector<OpenedWeights> files_;
  std::map<std::string, size_t> place_;  ///< index of the file, by name
};

/// Opens one file, its kind detected by its first bytes.
OpenedWeights open_file(const std::string& path) {
  const InputFile file = open_input(path);
  std::string head(kHeadBytes, '\0');
  const int64_t read = file.reason.empty() ? read_input(file, 0, head.data(), kHeadBytes) : 0;
  head.resize(static_cast<size_t>(std::max<int64_t>(0, read)));
  if (!head.starts_with("PK\3\4") && !path.ends_with(".pt2")) return std::make_unique<SafetensorsWeights>(path);
  if (const std::string what = describe_foreign_file(head); !what.empty())
    throw InputError(fmt::format("{}: it is {}", path, what));
  if (is_exported_file(path)) return std::make_unique<ExportedWeights>(path);
  return std::make_unique<TorchWeights>(path);
}

/// Opens the files of an index; a file that lacks an indexed tensor is an error.
OpenedWeights open_index(const std::string& path) {
  const std::string what = "the index of weights";
  const std::string text = read_text_file(what, path, kMostJsonBytes);
  const WeightsJson json = WeightsJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    const std::string is = json.is_discarded() ? describe_foreign_file(text) : std::string();
    throw FileError(fmt::format("{}: {} is {}", path, what, is.empty() ? "not a JSON object; get it again" : is));
  }
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) {
    throw FileError(
        fmt::format("{}: it has no \"weight_map\", so it is {}; name the file that holds the weights, or its folder", path,
                    json.contains("model_type") ? "the config of a model" : "not an index of weights"));
  }
  auto several = std::make_unique<SeveralWeights>();
  std::map<std::string, bool> seen;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) throw FileError(fmt::format("{}: \"weight_map\" has no file for '{}'; get it again", path, name));
    const auto shard = file.get<std::string>();
    if (!std::exchange(seen[shard], true)) several->add(open_file((fs::path(path).parent_path() / shard).string()));
    if (!several->has(name)) throw FileError(fmt::format("{}: '{}' is not in {}; get both again", path, name, shard));
  }
  return several;
}

/// "model-00002-of-00003.safetensors" is the 2nd of 3; {0, 0} for another name.
std::pair<int, int> place_of_shard(std::string_view name, std::string_view begin, std::string_view end) {
  constexpr std::string_view kOf = "-of-";
  if (name.size() < begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) return {0, 0};
  const std::string_view numbers = name.substr(begin.size(), name.size() - begin.size() - end.size());
  const size_t of = numbers.find(kOf);
  if (of == std::string_view::npos) return {0, 0};
  const auto number = [](std::string_view text) {
    int value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && stop == text.data() + text.size() ? value : 0;
  };
  return {number(numbers.substr(0, of)), number(numbers.substr(of + kOf.size()))};
}

/// Opens shards without an index: all of them; nullptr if the folder has no shards.
OpenedWeights open_shards(const std::string& folder, const std::vector<std::string>& files) {
  for (const auto& [begin, end] : kShards) {
    std::map<int, std::string> shards;
    int count = 0;
    for (const std::string& file : files) {
      const auto [number, of] = place_of_shard(file, begin, end);
      if (number < 1 || number > of) continue;
      if (count > 0 && of != count) {
        throw InputError(fmt::format("{}: '{}' is one of {} shards, '{}' one of {}; keep the shards of one model there", folder,
                                     shards.begin()->second, count, file, of));
      }
      count = of;
      shards[number] = file;
    }
    if (shards.empty()) continue;
    for (int number = 1; number <= count; ++number) {
      if (shards.count(number) > 0) continue;
      throw InputError(fmt::format("{}: it has {} of {} shards of weights: '{}{:05}-of-{:05}{}' is missing; get it too", folder,
                                   shards.size(), count, begin, number, count, end));
    }
    auto several = std::make_unique<SeveralWeights>();
    for (const auto& [number, file] : shards) several->add(open_file((fs::path(folder) / file).string()));
    several->note(fmt::format("no index for its {} shards; all were used", count));
    return several;
  }
  return nullptr;
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->is_regular_file(code)) files.push_back(at->path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

OpenedWeights open_folder(const std::string& path) {
  const fs::path folder = path;
  std::error_code code;
  for (const char* index : kShardIndexes) {
    if (fs::exists(folder / index, code)) return open_index((folder / index).string());
  }
  for (const char* file : kOneFile) {
    if (fs::exists(folder / file, code)) return open_file((folder / file).string());
  }
  const std::vector<std::string> files = files_of(path);
  if (OpenedWeights shards = open_shards(path, files)) return shards;
  const auto one_of = [&files](const std::vector<std::string>& ends) {
    return std::find_if(files.begin(), files.end(), [&](const std::string& file) {
      return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return file.ends_with(end); });
    });
  };
  const auto some = one_of({".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".index.json"});
  const auto other = one_of({".msgpack", ".h5", ".keras", ".gguf", ".ggml", ".onnx", ".npz", ".tflite", ".ckpt.index"});
  if (some != files.end() && !fs::exists(folder / kIndexFile, code)) {
    throw InputError(fmt::format("{}: no file of weights under a usual name ({}) in this folder; to use '{}', name it", path,
                                 kOneFile[0], *some));
  }
  if (other != files.end() && !fs::exists(folder / kIndexFile, code)) {
    throw InputError(fmt::format("{}: weft cannot read the form of '{}'; save its weights as safetensors", path, *other));
  }
  return std::make_unique<CheckpointWeights>(path);
}

/// Returns the path of the config.json next to the weights; empty if there is none.
std::string config_beside(const std::string& path) {
  std::error_code code;
  const fs::path folder = fs::is_directory(path, code) ? fs::path(path) : fs::path(path).parent_path();
  const fs::path config = folder / "config.json";
  return fs::exists(config, code) ? config.string() : std::string();
}

}  // namespace

std::unique_ptr<WeightsFile> open_average(const std::string& path) {
  return std::make_unique<CheckpointWeights>(path, /*averaged=*/true);
}

std::unique_ptr<WeightsFile> open_weights(const std::string& path) {
  std::error_code code;
  if (path.find("://") != std::string::npos) return std::make_unique<CheckpointWeights>(path);
  OpenedWeights file = fs::is_directory(path, code) ? open_folder(path)
                       : path.ends_with(".json")    ? open_index(path)
                                                    : open_file(path);
  if (file->origin().options.empty()) file->set_config(config_beside(path));
  return file;
}

}  // namespace weft
