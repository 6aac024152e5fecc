#include "weft/nn/sequence/zigzag.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/multiples.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// Concatenation of `part` of each range.
template <class Part>
at::Tensor join_parts(const std::vector<ShardRange>& ranges, int64_t dim, Part part) {
  if (ranges.empty()) throw InputError("shards of a sequence: no ranges were given; use the result of zigzag()");
  if (ranges.size() == 1) return part(ranges.front());
  std::vector<at::Tensor> parts;
  parts.reserve(ranges.size());
  for (const ShardRange& range : ranges) parts.push_back(part(range));
  return at::cat(parts, dim);
}

}  // namespace

std::vector<ShardRange> zigzag(int64_t tokens, int ranks, int rank) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw InputError(fmt::format("zigzag: there is no rank {} of {}; ranks count from 0", rank, ranks));
  }
  const int64_t chunks = ranks == 1 ? 1 : 2 * int64_t{ranks};
  if (tokens < 1 || tokens % chunks != 0) {
    throw InputError(fmt::format("zigzag: a sequence of {} tokens cannot be cut into {} equal chunks for {} ranks; take {}",
                                 tokens, chunks, ranks, nearest_multiples(tokens, chunks)));
  }
  if (ranks == 1) return {{0, tokens}};
  const int64_t length = tokens / chunks, first = rank, last = chunks - 1 - rank;
  return {{first * length, (first + 1) * length}, {last * length, (last + 1) * length}};
}

at::Tensor take_shards(const at::Tensor& x, int64_t dim, const std::vector<ShardRange>& ranges) {
  const TensorChecks check("shards of a sequence");
  check.dim("x", x, dim);
  for (const ShardRange& range : ranges) {
    check.that(range.begin >= 0 && range.begin <= range.end && range.end <= x.size(dim), "x", x,
               fmt::format("long enough in dim {} for positions {} to {}", dim, range.begin, range.end));
  }
  return join_parts(ranges, dim, [&](ShardRange range) { return x.narrow(dim, range.begin, range.end - range.begin); });
}

at::Tensor shard_positions(const std::vector<ShardRange>& ranges, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kLong).device(device);
  return join_parts(ranges, 0, [&](ShardRange range) { return at::arange(range.begin, range.end, options); });
}

}  // namespace weft
