#include "weft/checkpoint/format/saved_checkpoint.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "weft/base/error.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/open_storage.h"

namespace weft {

bool has_average(const CheckpointIndex& index) {
  const std::string prefix = std::string(kAverageState) + "/";
  const auto first = index.tensors.lower_bound(prefix);
  return first != index.tensors.end() && first->first.starts_with(prefix);
}

SavedCheckpoint::SavedCheckpoint(const std::string& path) : path_(path), storage_(open_storage(path)) {
  if (!is_complete(*storage_, "")) {
    const std::vector<int64_t> steps = complete_checkpoints(*storage_);
    if (steps.empty()) {
      const bool half = storage_->has(kIndexFile) || storage_->has(data_file(0));
      throw InputError(half ? fmt::format("{}: incomplete: it is still being saved, or its save was killed", path)
                            : fmt::format("{}: no checkpoint is there or directly below it", path));
    }
    path_ = storage_->full(checkpoint_name(steps.back()));
    storage_ = open_storage(path_);
  }
  index_ = std::make_unique<const CheckpointIndex>(read_checkpoint(*storage_, ""));
  reader_ = std::make_unique<DataReader>(*storage_, "", *index_);
}

at::Tensor SavedCheckpoint::read(const std::string& name) {
  const auto found = index_->tensors.find(name);
  if (found == index_->tensors.end()) throw InputError(fmt::format("{}: no tensor '{}'", path_, name));
  at::Tensor tensor = at::empty(found->second.shape, found->second.type);
  reader_->read(whole_part(name, tensor));
  return tensor;
}

at::Tensor SavedCheckpoint::read(const std::string& name, int64_t begin, int64_t numel) {
  const StoredState& stored = index_->tensors.at(name);
  const at::Tensor part = at::empty({numel}, stored.type);
  reader_->read({.name = name, .shape = stored.shape, .runs = {{.whole_begin = begin, .numel = numel}}, .memory = part});
  return part;
}

void SavedCheckpoint::check() {
  for (const auto& [name, stored] : index_->tensors) reader_->check(name);
}

std::vector<std::string> SavedCheckpoint::weights() const {
  std::vector<std::string> names;
  for (const auto& [name, stored] : index_->tensors) {
    if (name.starts_with(kModelPrefix)) names.push_back(name.substr(std::string_view(kModelPrefix).size()));
  }
  return names;
}

std::map<std::string, std::string> SavedCheckpoint::buffers() const {
  std::map<std::string, std::string> kinds;
  const auto entry = index_->texts.find(kBuffersEntry);
  if (entry == index_->texts.end()) return kinds;  // from an older weft, which did not save kinds
  const nlohmann::json json = nlohmann::json::parse(entry->second, nullptr, /*allow_exceptions=*/false);
  for (const auto& [name, kind] : json.items()) {
    if (kind.is_string()) kinds[name] = kind.get<std::string>();
  }
  return kinds;
}

}  // namespace weft
