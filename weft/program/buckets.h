// Buckets: ranges of adjacent blocks whose gradients, adjacent in memory, are reduced and updated together.
//
// A bucket costs nothing: it is a range of the flat gradient buffers, not a copy. Larger buckets mean fewer collectives;
// smaller ones start earlier and leave less to do after the last backward.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/program/program.h"

namespace weft {

/// The blocks [first, last).
struct Bucket {
  int first = 0;      ///< the first block
  int last = 0;       ///< the block after the last
  int64_t bytes = 0;  ///< bytes of its flat gradients
};

/// Buckets of `blocks` (ascending), last block first (the order in which backward fills them), merged while adjacent and within
/// `bucket_bytes`; a larger block is a bucket of its own. Blocks without gradients add nothing and never make a bucket alone,
/// unless all their neighbours lack gradients too.
std::vector<Bucket> gradient_buckets(const Program& program, const std::vector<int>& blocks, int64_t bucket_bytes);

/// Default bucket size: an eighth of the blocks' gradients, so that most of a reduction overlaps backward, or 1.25 times the
/// largest block if that is more, so that small blocks (head, embedding) join a neighbour. Clamped to 1 to 25 MiB: smaller
/// calls cost more than they hide, larger ones are no faster (Li et al. 2020, "PyTorch Distributed", arXiv:2006.15704: 25 MB).
int64_t automatic_bucket_bytes(const Program& program, const std::vector<int>& blocks);

/// A bucket per block with gradients, last block first. Sharded levels reduce these, since each block is divided separately.
std::vector<Bucket> single_blocks(const Program& program, const std::vector<int>& blocks);

/// One bucket over all blocks of `buckets` and any between them.
Bucket whole(const std::vector<Bucket>& buckets);

}  // namespace weft
