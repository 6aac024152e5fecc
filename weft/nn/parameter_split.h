// Split: how a parameter is divided over the ranks of an axis, along one of its dims.
//
// The dim consists of segments (queries, keys and values of a fused projection); every rank has an equal part of each segment.
// A segment that does not divide evenly is padded: its last parts then end in positions that the whole tensor does not have.
//
// A part may be in pieces (nn/tensor_parallel/reproducible_parts.h): several smaller parts, consecutive in memory, each padded
// to 64 elements, so that a piece has the same layout on any rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// A rank's part of a tensor.
struct Split {
  int64_t dim = 0;                     ///< the divided dim
  std::vector<int64_t> segments = {};  ///< lengths of the whole tensor's segments along that dim
  int parts = 1;                       ///< number of parts
  int part = 0;                        ///< this rank's part
  int pieces = 0;                      ///< number of pieces in each part; 0: no pieces, elements in the whole's order
  bool joined = false;                 ///< the layer's outputs are gathered on every rank
  std::string layer = {};              ///< name of the layer, for errors: "h.3.attn.c_proj"
};

/// A run of elements that is contiguous both in a part and in the whole.
struct SplitRun {
  int64_t part_begin = 0;   ///< index in the flattened part
  int64_t whole_begin = 0;  ///< index in the flattened whole
  int64_t numel = 0;        ///< number of elements
};

/// Number of positions that every part has of a segment of `positions`.
int64_t part_of_segment(int64_t positions, int parts);
/// Shape of a part, including padding, of a tensor of shape `whole`; [pieces, ...] if it is in pieces.
std::vector<int64_t> part_shape(const std::vector<int64_t>& whole, const Split& split);
/// Number of elements that the part takes in memory: those of its shape, plus the padding of pieces.
int64_t part_numel(const std::vector<int64_t>& whole, const Split& split);
/// View of `memory`, [part_numel()], as the part in its shape.
at::Tensor part_in(const at::Tensor& memory, const std::vector<int64_t>& whole, const Split& split);
/// Zeroes the padding of pieces in `memory`, [part_numel()].
void zero_padding(const at::Tensor& memory, const std::vector<int64_t>& whole, const Split& split);
/// Runs of the part's elements, in its memory order. Padding is in no run.
std::vector<SplitRun> runs_of(const std::vector<int64_t>& whole, const Split& split);

/// Returns the part of `whole`, which may be on the meta device; padding is zero.
at::Tensor take_part(const at::Tensor& whole, const Split& split);
/// Copies a part, in its memory layout, to its place in `whole`.
void put_part(const at::Tensor& whole, const at::Tensor& part, const Split& split);

}  // namespace weft
