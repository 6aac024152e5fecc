// Buckets: ranges of adjacent blocks whose gradients, which lie side by side, are reduced and updated in one go.
//
// Costs nothing: a bucket is a range of the flat gradient buffers, not a copy. Larger buckets mean fewer collectives; smaller
// ones start earlier and leave less to do after the last backward.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// The blocks [first, last).
struct Bucket {
  int first = 0;      ///< the first block
  int last = 0;       ///< the block after the last
  int64_t bytes = 0;  ///< of flat gradients
};

/// Buckets of the `blocks` (ascending), last block first (the order in which backward fills them), merged while they are
/// adjacent and stay within `bucket_bytes`; a block larger than that is a bucket of its own. Blocks without gradients add
/// nothing and never make a bucket alone, unless none of their neighbours has any.
std::vector<Bucket> gradient_buckets(const Program& program, const std::vector<int>& blocks, int64_t bucket_bytes);

/// The size for those who name none: an eighth of the blocks' gradients, so that most of a reduction goes on beside backward,
/// or a quarter more than the largest block, so that small ones (head, embedding) join a neighbour; but 1 to 25 MiB: below it
/// calls cost more than they hide, above it links are as fast as they get (Li et al. 2020, "PyTorch Distributed",
/// arXiv:2006.15704, measures 25 MB).
int64_t automatic_bucket_bytes(const Program& program, const std::vector<int>& blocks);

/// A bucket for each of the blocks that has gradients, last block first: what sharded levels reduce, since each block is
/// divided by itself.
std::vector<Bucket> single_blocks(const Program& program, const std::vector<int>& blocks);

/// One bucket over all blocks of `buckets`, and those between them.
Bucket whole(const std::vector<Bucket>& buckets);

}  // namespace weft
