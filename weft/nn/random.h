// Random numbers that no layout changes: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011), a function of (seed, name, step, element index) and of nothing else: no state, no rank.
//
// Element i of a stream is word i % 4 of the block with counter i / 4, so any slice [a, b) of a tensor, drawn by itself with
// first_element = a, has the bits that it has in the whole. Only integer arithmetic and single IEEE operations are used
// (logarithm and sine too are computed so), so the bits are the same on every machine and any number of threads. One core
// makes some 500 million uniform or 300 million normal numbers a second. On the meta device nothing is drawn.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

/// Names one endless sequence of numbers: `seed` is Philox's key, `stream` the upper half of its counter.
struct RandomKey {
  uint64_t seed;    ///< of the run
  uint64_t stream;  ///< of a name and a step
};

/// The stream of a parameter, or of a dropout layer at a step. Two names, or two steps, have unrelated streams.
RandomKey random_key(uint64_t seed, std::string_view name, int64_t step = 0);

/// Fills `slice` with normal numbers (Box-Muller, at most 6.7 standard deviations out). Its first element is element
/// `first_element` of the whole tensor; elements in logical order. Drawn as float32, then converted to the slice's type and
/// device. Autograd does not see it.
void fill_normal(const at::Tensor& slice, RandomKey key, int64_t first_element, double mean, double stddev);

/// Fills `slice` with uniform numbers: low + (high - low) k 2^-24, k in [0, 2^24), each step rounded to float32. As
/// fill_normal() otherwise.
void fill_uniform(const at::Tensor& slice, RandomKey key, int64_t first_element, double low, double high);

/// x with each element zeroed with probability p and the others divided by 1 - p; differentiable. Element i of x is element
/// first_element + i of the whole activation (global sample index * elements a sample), so every split of a batch drops the
/// same elements, and recomputing with the same key does too. Keeps one byte an element for backward.
/// Throws InputError unless 0 <= p <= 1.
at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, int64_t first_element);

/// Elements that lie side by side in a whole activation.
struct ElementRun {
  int64_t first = 0;  ///< of the whole
  int64_t numel = 0;  ///< how many
};
/// The same of an x that is these elements of the whole, in order.
at::Tensor dropout(const at::Tensor& x, double p, RandomKey key, const std::vector<ElementRun>& runs);

/// One block of Philox4x32-10.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace weft
