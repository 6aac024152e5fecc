#include "weft/recipe/build/open_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "weft/base/error.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/data/files/folder_files.h"
#include "weft/data/files/shard_pattern.h"

namespace weft {

namespace {

/// A storage and the files one thread has open in it.
struct Opened {
  std::unique_ptr<Storage> storage;
  std::map<size_t, std::unique_ptr<StorageReader>> readers;
};

class StorageShards final : public ShardFiles {
 public:
  StorageShards(std::function<std::unique_ptr<Storage>()> open, const std::vector<std::string>& paths, DataNotes passed_over)
      : open_(std::move(open)), paths_(paths), passed_over_(std::move(passed_over)) {
    Opened first{.storage = open_(), .readers = {}};
    for (const std::string& path : paths) {
      names_.push_back(first.storage->full(path));
      sizes_.push_back(first.storage->open(path)->size());
    }
    free_.push_back(std::move(first));
  }

  size_t count() const override { return names_.size(); }
  const std::string& name(size_t number) const override { return names_[number]; }
  int64_t size(size_t number) const override { return sizes_[number]; }
  DataNotes passed_over() const override { return passed_over_; }
  int64_t block_bytes() const override { return int64_t{4} << 20; }  // a request costs more than reading the gap

  void read(size_t number, int64_t offset, void* out, int64_t bytes) const override {
    if (bytes == 0) return;
    constexpr size_t kMostOpen = 256;
    Opened opened = take();
    if (opened.readers.size() >= kMostOpen) opened.readers.clear();
    std::unique_ptr<StorageReader>& reader = opened.readers[number];
    if (!reader) reader = opened.storage->open(paths_[number]);
    if (reader->size() != sizes_[number]) {
      throw InputError(fmt::format("{}: its size changed from {} to {} bytes; leave the data alone while a training reads it",
                                   names_[number], sizes_[number], reader->size()));
    }
    reader->read(offset, out, bytes);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(opened));
  }

 private:
  Opened take() const {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Opened opened = std::move(free_.back());
        free_.pop_back();
        return opened;
      }
    }
    return {.storage = open_(), .readers = {}};
  }

  std::function<std::unique_ptr<Storage>()> open_;
  std::vector<std::string> paths_, names_;
  DataNotes passed_over_;
  std::vector<int64_t> sizes_;
  mutable std::mutex mutex_;
  mutable std::vector<Opened> free_;  ///< idle readers
};

/// Splits "a/b/c.tar" into "a/b" and "c.tar".
std::pair<std::string, std::string> split(const std::string& name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {".", name};
  return {slash == 0 ? "/" : name.substr(0, slash), name.substr(slash + 1)};
}

/// Sorts files found in a folder; rejects a folder that holds two parts of one set.
std::vector<std::string> one_part(Storage& storage, std::vector<std::string> found) {
  std::sort(found.begin(), found.end());
  check_one_part(storage.name(), found, [&](const std::string& training, const std::string& evaluation) {
    return fmt::format("set data.path = \"{0}/{1}\" and data.evaluation_path = \"{0}/{2}\"", storage.name(),
                       part_pattern(training), part_pattern(evaluation));
  });
  return found;
}

std::vector<std::string> listed(Storage& storage, const std::string& pattern) {
  std::vector<std::string> found;
  for (const std::string& name : storage.list("")) {
    const bool is_hidden = name.starts_with('.') && !pattern.starts_with('.');
    if (!is_hidden && fits_glob(name, pattern)) found.push_back(name);
  }
  return one_part(storage, std::move(found));
}

/// For a folder named as a whole: matching names, in any case; notes the paths of other entries.
std::vector<std::string> listed_whole(Storage& storage, const std::string& ending, DataNotes& passed_over) {
  std::vector<std::string> found;
  for (const std::string& name : storage.list("")) {
    std::string end = name.size() < ending.size() ? "" : name.substr(name.size() - ending.size());
    std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!name.starts_with('.') && end == ending) {
      found.push_back(name);
    } else {
      passed_over.push_back(fmt::format("{} ({})", storage.full(name), name.starts_with('.') ? "hidden" : "no *" + ending));
    }
  }
  return one_part(storage, std::move(found));
}

/// Returns true if a name without a pattern is a folder of shards, not a shard.
bool is_folder(const std::string& name, const std::string& ending) {
  std::error_code ignored;
  const bool is_file = name.ends_with(ending) || std::filesystem::exists(name, ignored);
  return !is_file || std::filesystem::is_directory(name, ignored);
}

}  // namespace

std::shared_ptr<const ShardFiles> storage_shards(std::function<std::unique_ptr<Storage>()> open,
                                                 const std::vector<std::string>& paths, DataNotes passed_over) {
  return std::make_shared<StorageShards>(std::move(open), paths, std::move(passed_over));
}

std::shared_ptr<const ShardFiles> open_shards(const std::string& pattern, const std::string& ending) {
  const bool is_url = pattern.find("://") != std::string::npos;
  std::vector<std::pair<std::string, std::string>> files;  // folder, name
  DataNotes passed_over;
  for (const std::string& name : expand_braces(pattern)) {
    const bool whole_folder = !is_glob(name) && is_folder(name, ending);
    const auto [folder, last] = whole_folder ? std::pair(name, std::string()) : split(name);
    if (is_glob(folder)) throw InputError(fmt::format("{}: '*' and '?' are allowed only in its last part", pattern));
    if (!whole_folder && !is_glob(last)) {
      files.emplace_back(folder, last);
      continue;
    }
    const std::unique_ptr<Storage> storage = open_storage(folder);
    for (std::string& found : whole_folder ? listed_whole(*storage, ending, passed_over) : listed(*storage, last)) {
      files.emplace_back(folder, std::move(found));
    }
  }
  if (files.empty()) {
    const std::string there =
        passed_over.empty() ? "" : fmt::format(", but {} others, such as {}", passed_over.size(), passed_over[0].text);
    throw InputError(fmt::format("{}: no files ({}) there{}; check data.path", pattern, ending, there));
  }
  std::vector<std::string> paths;
  if (!is_url) {
    for (const auto& [folder, name] : files) paths.push_back(folder == "." ? name : folder + "/" + name);
    return local_shards(paths, std::move(passed_over));
  }
  for (const auto& [folder, name] : files) {
    if (folder != files.front().first) throw InputError(fmt::format("{}: its files are in several folders; use one", pattern));
    paths.push_back(name);
  }
  return storage_shards([folder = files.front().first] { return open_storage(folder); }, paths, std::move(passed_over));
}

}  // namespace weft
