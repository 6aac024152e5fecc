#include "weft/program/buckets.h"

#include <algorithm>

namespace weft {

std::vector<Bucket> gradient_buckets(const Program& program, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (int block = program.num_blocks() - 1; block >= 0; --block) {
    const int64_t bytes = program.gradient_block_bytes(block);
    // A full bucket takes no more blocks, not even one without gradients, whose backward it would have to await.
    const bool opens = buckets.empty() || buckets.back().bytes + bytes > bucket_bytes || buckets.back().bytes >= bucket_bytes;
    if (opens) buckets.push_back({.first = block, .last = block + 1, .bytes = bytes});
    buckets.back().first = block;
    if (!opens) buckets.back().bytes += bytes;
  }
  // Blocks without gradients at the front of the model (flatten, normalise) are not worth a collective of nothing.
  if (buckets.size() > 1 && buckets.back().bytes == 0) {
    buckets[buckets.size() - 2].first = buckets.back().first;
    buckets.pop_back();
  }
  return buckets;
}

std::vector<Bucket> single_blocks(const Program& program) {
  std::vector<Bucket> buckets;
  for (int block = program.num_blocks() - 1; block >= 0; --block) {
    if (program.block_numel[block] == 0) continue;
    buckets.push_back({.first = block, .last = block + 1, .bytes = program.gradient_block_bytes(block)});
  }
  return buckets.empty() ? gradient_buckets(program, 1) : buckets;
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
