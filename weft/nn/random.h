// Random numbers that are the same in every layout: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011), a function of only (seed, name, step, element index): no state, no rank.
//
// Element i of a stream is word i % 4 of the block with counter i / 4, so any slice [a, b) of a tensor, drawn separately with
// first_element = a, has the same bits as in the whole. Only integer arithmetic and single IEEE operations are used (also for
// logarithm and sine), so the bits are the same on every machine and any number of threads. One core makes about 500 million
// uniform or 300 million normal numbers per second. On the meta device nothing is drawn.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

/// Identifies one endless sequence of numbers: `seed` is Philox's key, `stream` the upper half of its counter.
struct RandomKey {
  uint64_t seed;    ///< seed of the run
  uint64_t stream;  ///< from a name and a step
};

/// Returns the key of a parameter, or of a dropout layer at a step. Different names or steps give unrelated streams.
RandomKey random_key(uint64_t seed, std::string_view name, int64_t step = 0);

/// Fills `slice` with normal numbers (Box-Muller, within 6.7 standard deviations of the mean). Its first element is element
/// `first_element` of the whole tensor, in logical order. Numbers are drawn as float32, then converted to the slice's type and
/// device. Not seen by autograd.
void fill_normal(const at::Tensor& slice, RandomKey key, int64_t first_element, double mean, double stddev);

/// Fills `slice` with uniform numbers: low + (high - low) k 2^-24, k in [0, 2^24), each step rounded to float32. Otherwise like
/// fill_normal().
void fill_uniform(const at::Tensor& slice, RandomKey key, int64_t first_element, double low, double high);

/// Returns x with each element zeroed with probability p and the others divided by 1 - p; differentiable. Element i of x is
/// element first_element + i of the whole activation (global sample index * elements per sample), so every division of a batch
/// drops the same elements, and so does recomputing with the same key. For backward the CPU keeps one byte per element; a
/// device draws the elements again. Throws InputError unless 0 <= p <= 1.
at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, int64_t first_element);

/// Contiguous elements of a whole activation.
struct ElementRun {
  int64_t first = 0;  ///< index in the whole
  int64_t numel = 0;  ///< number of elements
};
/// The same for an x that consists of the elements in `runs`, in order.
at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, const std::vector<ElementRun>& runs);

/// A key that a device completes with the step and sample that it keeps (StepPlace in nn/block.h), so that a captured step
/// draws anew each time it is replayed.
struct PlacedKey {
  uint64_t seed;       ///< seed of the run
  uint64_t name;       ///< from a name
  at::Tensor place;    ///< [2] int64, on the device: step, first sample
  int64_t per_sample;  ///< elements of a sample
};
/// The key of a dropout layer: random_key() at the step in `place`, and elements that count from those of its sample.
PlacedKey placed_key(uint64_t seed, std::string_view name, const at::Tensor& place, int64_t per_sample);
/// dropout() of an x of the place's device, with that key.
at::Tensor placed_dropout(const at::Tensor& x, double p, const PlacedKey& key, const std::vector<ElementRun>& runs);

/// One block of Philox4x32-10.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace weft
