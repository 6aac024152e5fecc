#include "weft/nn/parameter_split.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using Shape = std::vector<int64_t>;

int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

void append(std::vector<SplitRun>& runs, const SplitRun& run) {
  if (run.numel == 0) return;
  const bool follows = !runs.empty() && runs.back().part_begin + runs.back().numel == run.part_begin &&
                       runs.back().whole_begin + runs.back().numel == run.whole_begin;
  if (follows) {
    runs.back().numel += run.numel;
  } else {
    runs.push_back(run);
  }
}

int parts_of(const Split& split) { return split.parts * std::max(1, split.pieces); }

void check_split(const Shape& whole, const Split& split) {
  const auto& [dim, segments, parts, part, pieces, joined, layer] = split;
  const bool fits = dim >= 0 && dim < static_cast<int64_t>(whole.size()) && parts >= 1 && part >= 0 && part < parts &&
                    pieces >= 0 &&
                    std::all_of(segments.begin(), segments.end(), [](int64_t segment) { return segment >= 0; }) &&
                    std::accumulate(segments.begin(), segments.end(), int64_t{0}) == whole[dim];
  if (fits) return;
  throw InputError(fmt::format("layer {}: part {} of {} along dim {}, in segments [{}], does not fit a tensor of [{}]", layer,
                               part, parts, dim, fmt::join(segments, ", "), fmt::join(whole, ", ")));
}

/// Checks the memory or flat values of a part.
void check_numel(const char* name, const at::Tensor& x, const Shape& whole, const Split& split) {
  const TensorChecks check("part of a layer");
  check.dense(name, x);
  const int64_t numel = part_numel(whole, split);
  check.that(x.numel() == numel, name, x, fmt::format("{} elements", numel));
}

/// Shape of a part, or of each of its pieces.
Shape piece_shape(const Shape& whole, const Split& split) {
  check_split(whole, split);
  Shape shape = whole;
  shape[split.dim] = 0;
  for (const int64_t segment : split.segments) shape[split.dim] += part_of_segment(segment, parts_of(split));
  return shape;
}

int64_t piece_numel(const Shape& whole, const Split& split) {
  const Shape shape = piece_shape(whole, split);
  return product(shape.begin(), shape.end());
}

/// Appends the runs of part number `part` over all pieces, which begins at `begin` in the rank's memory.
void append_part(std::vector<SplitRun>& runs, const Shape& whole, const Split& split, int64_t part, int64_t begin_in_memory) {
  const int64_t outer = product(whole.begin(), whole.begin() + split.dim);
  const int64_t inner = product(whole.begin() + split.dim + 1, whole.end());
  const int64_t width = whole[split.dim], part_width = piece_shape(whole, split)[split.dim];
  for (int64_t row = 0; row < outer; ++row) {
    int64_t segment_begin = 0, part_begin = 0;
    for (const int64_t segment : split.segments) {
      const int64_t size = part_of_segment(segment, parts_of(split));
      const int64_t begin = std::min(segment, size * part), end = std::min(segment, begin + size);
      append(runs, {begin_in_memory + (row * part_width + part_begin) * inner, (row * width + segment_begin + begin) * inner,
                    (end - begin) * inner});
      segment_begin += segment;
      part_begin += size;
    }
  }
}

}  // namespace

int64_t part_of_segment(int64_t positions, int parts) { return ceil_divide(positions, parts); }

std::vector<int64_t> part_shape(const std::vector<int64_t>& whole, const Split& split) {
  Shape shape = piece_shape(whole, split);
  if (split.pieces > 0) shape.insert(shape.begin(), split.pieces);
  return shape;
}

int64_t part_numel(const std::vector<int64_t>& whole, const Split& split) {
  const int64_t numel = piece_numel(whole, split);
  return split.pieces > 0 ? split.pieces * round_up(numel, kAlignElements) : numel;
}

at::Tensor part_in(const at::Tensor& memory, const std::vector<int64_t>& whole, const Split& split) {
  check_numel("memory", memory, whole, split);
  if (split.pieces == 0) return memory.view(part_shape(whole, split));
  const at::Tensor pieces = memory.view({split.pieces, memory.numel() / split.pieces});
  return pieces.narrow(1, 0, piece_numel(whole, split)).unflatten(1, piece_shape(whole, split));
}

void zero_padding(const at::Tensor& memory, const std::vector<int64_t>& whole, const Split& split) {
  check_numel("memory", memory, whole, split);
  if (split.pieces == 0) return;
  const int64_t used = piece_numel(whole, split), size = memory.numel() / split.pieces;
  memory.view({split.pieces, size}).narrow(1, used, size - used).zero_();
}

std::vector<SplitRun> runs_of(const std::vector<int64_t>& whole, const Split& split) {
  const int64_t pieces = std::max(1, split.pieces), stride = part_numel(whole, split) / pieces;
  std::vector<SplitRun> runs;
  for (int64_t piece = 0; piece < pieces; ++piece) append_part(runs, whole, split, split.part * pieces + piece, piece * stride);
  return runs;
}

at::Tensor take_part(const at::Tensor& whole, const Split& split) {
  TensorChecks("part of a layer").dense("whole", whole);
  const at::Tensor to = at::zeros({part_numel(whole.sizes().vec(), split)}, whole.options());
  const at::Tensor part = part_in(to, whole.sizes().vec(), split);
  if (whole.is_meta()) return part;
  const at::Tensor from = whole.reshape({-1});
  for (const SplitRun& run : runs_of(whole.sizes().vec(), split)) {
    to.narrow(0, run.part_begin, run.numel).copy_(from.narrow(0, run.whole_begin, run.numel));
  }
  return part;
}

void put_part(const at::Tensor& whole, const at::Tensor& part, const Split& split) {
  TensorChecks("part of a layer").dense("whole", whole);
  check_numel("part", part, whole.sizes().vec(), split);
  const at::Tensor from = part.reshape({-1}), to = whole.view({-1});
  for (const SplitRun& run : runs_of(whole.sizes().vec(), split)) {
    to.narrow(0, run.whole_begin, run.numel).copy_(from.narrow(0, run.part_begin, run.numel));
  }
}

}  // namespace weft
