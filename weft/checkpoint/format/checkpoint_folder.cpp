#include "weft/checkpoint/format/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "weft/base/deadline.h"
#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/base/storage_error.h"
#include "weft/checkpoint/format/index_json.h"
#include "weft/checkpoint/sha256.h"

namespace weft {
namespace {

constexpr const char* kPrefix = "step-";
constexpr int64_t kMostMarkerBytes = 1 << 16;

std::string below(const std::string& folder, const std::string& file) { return folder.empty() ? file : folder + "/" + file; }

/// Marker for an index with that text.
std::string marker_text(const std::string& index) {
  const nlohmann::ordered_json marker = {{"index_bytes", index.size()}, {"index_sha256", sha256(index)}};
  return marker.dump() + "\n";
}

/// True for "data-00003.bin".
bool is_data(const std::string& file) {
  if (!file.starts_with("data-") || !file.ends_with(".bin") || file.size() < 14) return false;
  return std::all_of(file.begin() + 5, file.end() - 4, [](char c) { return c >= '0' && c <= '9'; });
}

/// True if a file begins as an index does.
bool is_index(Storage& storage, const std::string& path) {
  constexpr std::string_view kBegin = "{\n\"format\": \"weft checkpoint\"";
  const std::unique_ptr<StorageReader> file = storage.open(path);
  std::string begin(std::min<size_t>(kBegin.size(), static_cast<size_t>(file->size())), '\0');
  file->read(0, begin.data(), static_cast<int64_t>(begin.size()));
  return begin == kBegin;
}

void require_files(Storage& storage, const std::string& path, const CheckpointIndex& index, const Deadline& deadline) {
  constexpr std::chrono::milliseconds kLookEvery{50};
  for (const auto& [file, bytes] : index.files) {
    std::optional<int64_t> there = storage.bytes_of(below(path, file.c_str()));
    while (there != bytes && !deadline.passed()) {
      std::this_thread::sleep_for(kLookEvery);
      there = storage.bytes_of(below(path, file.c_str()));
    }
    if (there == bytes) continue;
    throw InputError(fmt::format(
        "{}: rank 0 {}, but a rank has written {} bytes of it; all ranks must save to one "
        "folder (save.folder) that all hosts share",
        storage.full(below(path, file.c_str())), there ? fmt::format("sees {} bytes", *there) : "does not see it", bytes));
  }
}

/// True for files of a checkpoint, including what a killed AtomicFile leaves.
bool is_of_checkpoint(const std::string& file) {
  return file == kIndexFile || file == kCompleteFile || is_data(file) ||
         (file.starts_with(".weft-") && file.ends_with(".partial"));
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<int64_t> checkpoint_step(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto step = parse_number<int64_t>(name.substr(std::char_traits<char>::length(kPrefix)));
  return step && checkpoint_name(*step) == name ? step : std::nullopt;
}

void complete_checkpoint(Storage& storage, const std::string& path, const CheckpointIndex& index,
                         std::chrono::milliseconds late) {
  const std::string text = index_text(index);
  storage.write_text(below(path, kIndexFile), text);
  require_files(storage, path, index, late);
  storage.write_text(below(path, kCompleteFile), marker_text(text));
}

bool is_complete(Storage& storage, const std::string& path) { return storage.has(below(path, kCompleteFile)); }

CheckpointIndex read_checkpoint(Storage& storage, const std::string& path) {
  if (!is_complete(storage, path)) {
    std::vector<std::string> names;
    try {
      names = storage.list(path);
    } catch (const InputError& error) {
      throw InputError(fmt::format(
          "{}; name the folder of a checkpoint: files of weights are for model.weights or load_weights()", error.what()));
    }
    if (names.empty()) throw InputError(fmt::format("{}: no checkpoint is there; name its folder", storage.full(path)));
    const auto is_one = [&](const std::string& name) {
      return checkpoint_step(name) && is_complete(storage, below(path, name));
    };
    if (const auto newest = std::find_if(names.rbegin(), names.rend(), is_one); newest != names.rend()) {
      throw InputError(
          fmt::format("{}: a folder of checkpoints; name one of them, such as the newest, {}", storage.full(path), *newest));
    }
    throw InputError(fmt::format("{}: not a complete checkpoint: {}, written last, is missing; name a folder that has it",
                                 storage.full(path), kCompleteFile));
  }
  const std::string marker = storage.read_text(below(path, kCompleteFile), kMostMarkerBytes);
  const std::string text = storage.read_text(below(path, kIndexFile), kMostIndexBytes);
  if (marker != marker_text(text)) {
    throw DamageError(fmt::format("{}: its SHA-256 is not the one in {}: one of the two is damaged",
                                  storage.full(below(path, kIndexFile)), kCompleteFile));
  }
  return parse_index(text, storage.full(below(path, kIndexFile)));
}

std::vector<int64_t> complete_checkpoints(Storage& storage) {
  std::vector<int64_t> steps;
  for (const std::string& name : storage.list("")) {
    const auto step = checkpoint_step(name);
    if (step && is_complete(storage, name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Removes only the link if `path` is one: its target belongs to another run.
void remove_checkpoint(Storage& storage, const std::string& path) {
  if (storage.is_link(path)) return storage.remove(path);
  storage.remove(below(path, kCompleteFile));
  storage.sync(path);
  for (const std::string& file : storage.list(path)) {
    if (is_of_checkpoint(file)) storage.remove(below(path, file.c_str()));
  }
  storage.remove(path);
}

void clear_checkpoint(Storage& storage, const std::string& path) {
  if (storage.is_link(path)) return remove_checkpoint(storage, path);
  const std::vector<std::string> files = storage.list(path);
  // A damaged index is recognized by the files next to it.
  const bool is_known =
      std::any_of(files.begin(), files.end(), [](const std::string& file) { return file == kCompleteFile || is_data(file); });
  for (const std::string& file : files) {
    if (is_of_checkpoint(file) && (file != kIndexFile || is_known || is_index(storage, below(path, kIndexFile)))) continue;
    throw InputError(fmt::format("{}: it holds '{}', not a checkpoint's file; use a separate folder for each checkpoint",
                                 storage.full(path), file));
  }
  remove_checkpoint(storage, path);
}

void remove_incomplete(Storage& storage) {
  for (const std::string& name : storage.list("")) {
    if (!checkpoint_step(name) || storage.is_link(name) || storage.is_not_a_folder(name)) continue;
    if (!is_complete(storage, name)) remove_checkpoint(storage, name);
  }
}

void copy_checkpoint(Storage& from, Storage& to, const std::string& path, const std::function<void()>& between) {
  constexpr int64_t kAtATime = int64_t{8} << 20;
  clear_checkpoint(to, path);
  std::vector<char> buffer;
  for (const std::string& file : from.list(path)) {
    if (!is_data(file)) continue;
    const std::unique_ptr<StorageReader> in = from.open(below(path, file.c_str()));
    const std::unique_ptr<StorageWriter> out = to.create(below(path, file.c_str()));
    buffer.resize(static_cast<size_t>(std::min(kAtATime, in->size())));
    for (int64_t at = 0; at < in->size(); at += kAtATime) {
      const int64_t bytes = std::min(kAtATime, in->size() - at);
      in->read(at, buffer.data(), bytes);
      out->write(buffer.data(), bytes);
      if (between) between();
    }
    out->close();
  }
  to.write_text(below(path, kIndexFile), from.read_text(below(path, kIndexFile), kMostIndexBytes));
  to.write_text(below(path, kCompleteFile), from.read_text(below(path, kCompleteFile), kMostMarkerBytes));
}

CheckpointPath parent_and_name(const std::string& path) {
  std::string plain = path;
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  const size_t scheme = path.find("://"), slash = plain.rfind('/');
  const std::string last = slash == std::string::npos ? plain : plain.substr(slash + 1);
  const bool is_bucket = scheme != std::string::npos && (slash == std::string::npos || slash < scheme + 3);
  if (last.empty() || last == "." || last == ".." || is_bucket) {
    throw InputError(fmt::format("'{}' is not a folder for a checkpoint; name one below it", path));
  }
  return {slash == std::string::npos ? "." : slash == 0 ? "/" : plain.substr(0, slash), last};
}

}  // namespace weft
