// Split: how a parameter is divided over the ranks of an axis, along one of its dims.
//
// The dim falls into segments (queries, keys and values of a fused projection), each of which every rank has its even part of.
// A segment that does not divide is thought padded: the last parts then end in positions that the whole tensor does not have.
//
// A part may be in pieces (nn/tensor_parallel/reproducible_parts.h): those of more parts than there are ranks, one after
// another in memory and each padded to 64 elements, so that whoever holds a piece, its elements lie alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// A rank's part of a tensor.
struct Split {
  int64_t dim = 0;                     ///< that is divided
  std::vector<int64_t> segments = {};  ///< positions of the whole along it, segment by segment
  int parts = 1;                       ///< ranks that it is divided over
  int part = 0;                        ///< this rank's
  int pieces = 0;                      ///< that each of the parts is in; 0: the part is one, as it is in the whole
  bool joined = false;                 ///< what the layer puts out is put side by side again, on every rank
  std::string layer = {};              ///< whose it is, for errors: "h.3.attn.c_proj"
};

/// Elements of a part that lie side by side in the whole too, in the order of the part.
struct SplitRun {
  int64_t part_begin = 0;   ///< in the part, flattened
  int64_t whole_begin = 0;  ///< in the whole, flattened
  int64_t numel = 0;        ///< how many
};

/// Positions that every part has of a segment of `positions`.
int64_t part_of_segment(int64_t positions, int parts);
/// The shape of a part, padding included, of a tensor of this shape; [pieces, ...] of one that is in pieces.
std::vector<int64_t> part_shape(const std::vector<int64_t>& whole, const Split& split);
/// Elements that the part takes in memory: those of its shape, and what pads pieces.
int64_t part_numel(const std::vector<int64_t>& whole, const Split& split);
/// The part, in its shape, that lies in `memory`, of part_numel() elements.
at::Tensor part_in(const at::Tensor& memory, const std::vector<int64_t>& whole, const Split& split);
/// Zeroes what pads pieces in `memory`, of part_numel() elements.
void zero_padding(const at::Tensor& memory, const std::vector<int64_t>& whole, const Split& split);
/// Where the elements that lie in the part's memory lie in the whole. Padding is in none.
std::vector<SplitRun> runs_of(const std::vector<int64_t>& whole, const Split& split);

/// The part of `whole`, which may be on the meta device; padding is zero.
at::Tensor take_part(const at::Tensor& whole, const Split& split);
/// Puts a part, as its memory has it, where it belongs in `whole`.
void put_part(const at::Tensor& whole, const at::Tensor& part, const Split& split);

}  // namespace weft
