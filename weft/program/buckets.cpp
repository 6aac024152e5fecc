#include "weft/program/buckets.h"

#include <algorithm>

namespace weft {

std::vector<Bucket> gradient_buckets(const Program& program, const std::vector<int>& blocks, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
    const int block = *at;
    const int64_t bytes = program.gradient_block_bytes(block);
    // A full bucket takes no more blocks, not even one without gradients, as it would have to wait for that block's backward.
    const bool adjacent = !buckets.empty() && buckets.back().first == block + 1;
    const bool full = adjacent && (buckets.back().bytes + bytes > bucket_bytes || buckets.back().bytes >= bucket_bytes);
    const bool opens = !adjacent || full;
    if (opens) buckets.push_back({.first = block, .last = block + 1, .bytes = bytes});
    buckets.back().first = block;
    if (!opens) buckets.back().bytes += bytes;
  }
  // Leading blocks without gradients (flatten, normalise) are not worth an empty collective.
  for (size_t i = buckets.size(); i-- > 1;) {
    if (buckets[i].bytes > 0 || buckets[i - 1].first != buckets[i].last) continue;
    buckets[i - 1].first = buckets[i].first;
    buckets.erase(buckets.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return buckets;
}

int64_t automatic_bucket_bytes(const Program& program, const std::vector<int>& blocks) {
  constexpr int64_t kLeast = 1 << 20, kMost = 25 << 20, kParts = 8;
  int64_t bytes = 0, largest = 0;
  for (const int block : blocks) {
    bytes += program.gradient_block_bytes(block);
    largest = std::max(largest, program.gradient_block_bytes(block));
  }
  return std::clamp(std::max(bytes / kParts, largest + largest / 4), kLeast, kMost);
}

std::vector<Bucket> single_blocks(const Program& program, const std::vector<int>& blocks) {
  std::vector<Bucket> buckets;
  for (auto at = blocks.rbegin(); at != blocks.rend(); ++at) {
    if (program.block_numel[*at] == 0) continue;
    buckets.push_back({.first = *at, .last = *at + 1, .bytes = program.gradient_block_bytes(*at)});
  }
  return buckets.empty() ? gradient_buckets(program, blocks, 1) : buckets;
}

Bucket whole(const std::vector<Bucket>& buckets) {
  Bucket all = buckets.at(0);
  for (size_t i = 1; i < buckets.size(); ++i) {
    all.first = std::min(all.first, buckets[i].first);
    all.last = std::max(all.last, buckets[i].last);
    all.bytes += buckets[i].bytes;
  }
  return all;
}

}  // namespace weft
