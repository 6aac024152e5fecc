#include "weft/data/files/shard_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/data/files/file_set.h"

namespace weft {
namespace {

class LocalShards final : public ShardFiles {
 public:
  LocalShards(const std::vector<std::string>& paths, DataNotes passed_over)
      : paths_(paths), passed_over_(std::move(passed_over)) {
    for (const std::string& path : paths) {
      InputFile file = open_input(path);
      if (!file.reason.empty()) throw InputError(fmt::format("{}: cannot open it: {}; check data.path", path, file.reason));
      sizes_.push_back(file.bytes);
      files_.add(path, std::move(file));
    }
  }

  size_t count() const override { return paths_.size(); }
  const std::string& name(size_t number) const override { return paths_[number]; }
  int64_t size(size_t number) const override { return sizes_[number]; }
  DataNotes passed_over() const override { return passed_over_; }
  int64_t block_bytes() const override { return int64_t{16} << 10; }  // suits a tar's headers, without the data between
  void read(size_t number, int64_t offset, void* out, int64_t bytes) const override { files_.read(number, offset, out, bytes); }

 private:
  std::vector<std::string> paths_;
  DataNotes passed_over_;
  std::vector<int64_t> sizes_;
  FileSet files_;
};

}  // namespace

std::shared_ptr<const ShardFiles> local_shards(const std::vector<std::string>& paths, DataNotes passed_over) {
  return std::make_shared<LocalShards>(paths, std::move(passed_over));
}

FileKind kind_of(const ShardFiles& files, size_t number) {
  std::string head(static_cast<size_t>(std::min<int64_t>(files.size(number), kHeadBytes)), '\0');
  files.read(number, 0, head.data(), static_cast<int64_t>(head.size()));
  return file_kind(head);
}

}  // namespace weft
