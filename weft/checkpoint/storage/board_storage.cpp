#include "weft/checkpoint/storage/board_storage.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/file_io.h"
#include "weft/base/parse_number.h"
#include "weft/base/storage_error.h"

namespace weft {
namespace {

[[noreturn]] void not_here() { throw Error("copies of state in memory have data files alone"); }

/// Over what an earlier copy left, so that pages are taken once.
class BoardWriter : public StorageWriter {
 public:
  explicit BoardWriter(int file) : file_(file) {}
  void write(const void* data, int64_t bytes) override {
    if (!write_all(file_, at_, data, bytes)) {
      throw Error(fmt::format("cannot copy the state to memory: {}; save.memory_every = 0 does without", std::strerror(errno)));
    }
    at_ += bytes;
  }
  void close() override {}

 private:
  int file_;
  int64_t at_ = 0;
};

class BoardReader : public StorageReader {
 public:
  BoardReader(int file, int64_t bytes) : file_(file), bytes_(bytes) {}
  int64_t size() const override { return bytes_; }
  void read(int64_t offset, void* data, int64_t bytes) override {
    if (read_all(file_, offset, data, bytes) != bytes) throw DamageError("a copy of the state in memory ends too early");
  }

 private:
  int file_;
  int64_t bytes_;
};

class BoardStorage : public Storage {
 public:
  BoardStorage(RunBoard& board, int number) : board_(board), number_(number) {}
  const std::string& name() const override { return name_; }
  std::unique_ptr<StorageWriter> create(const std::string& path) override {
    return std::make_unique<BoardWriter>(board_.file(rank_of(path), number_));
  }
  std::unique_ptr<StorageReader> open(const std::string& path) override {
    const int rank = rank_of(path);
    return std::make_unique<BoardReader>(board_.file(rank, number_), board_.copy(rank, number_).data_bytes);
  }
  std::optional<int64_t> bytes_of(const std::string& /*path*/) override { not_here(); }
  void write_text(const std::string& /*path*/, const std::string& /*text*/) override { not_here(); }
  std::vector<std::string> list(const std::string& /*folder*/) override { not_here(); }
  void remove(const std::string& /*path*/) override { not_here(); }
  std::shared_ptr<StorageLock> lock(const LockOptions& /*options*/) override { not_here(); }

 private:
  int rank_of(const std::string& path) const {
    for (int rank = 0; rank < board_.most_ranks(); ++rank) {
      if (path == data_file(rank)) return rank;
    }
    throw Error(fmt::format("'{}' is no rank's copy of its state", path));
  }

  RunBoard& board_;
  int number_;
  std::string name_ = "the copy of the state in memory";
};

}  // namespace

std::string data_file(int rank) { return fmt::format("data-{:05}.bin", rank); }

std::unique_ptr<Storage> board_storage(RunBoard& board, int number) { return std::make_unique<BoardStorage>(board, number); }

}  // namespace weft
