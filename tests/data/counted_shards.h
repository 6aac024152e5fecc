// Shards that count their reads by offset, and may fail.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/data/files/shard_files.h"

namespace weft::test {

class CountedShards final : public ShardFiles {
 public:
  explicit CountedShards(const std::vector<std::string>& paths) : files_(local_shards(paths)) {}

  size_t count() const override { return files_->count(); }
  const std::string& name(size_t number) const override { return files_->name(number); }
  int64_t size(size_t number) const override { return files_->size(number); }
  int64_t block_bytes() const override { return files_->block_bytes(); }
  void read(size_t number, int64_t offset, void* out, int64_t bytes) const override {
    if (fails) throw InputError(name(number) + ": the network is down");
    {
      const std::lock_guard lock(mutex_);
      ++reads_[{number, offset}];
    }
    files_->read(number, offset, out, bytes);
  }

  /// Returns how often each offset was read, and resets the counts.
  std::map<std::pair<size_t, int64_t>, int> take_reads() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }

  std::atomic<bool> fails = false;

 private:
  std::shared_ptr<const ShardFiles> files_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<size_t, int64_t>, int> reads_;
};

}  // namespace weft::test
