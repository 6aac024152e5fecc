// Kernels of weft's own for devices, as operators of LibTorch's dispatcher ("weft::add_squares"): one launch each
// (per 128 ranges or runs), and no wait of the host. Those of layers are in layer_kernels.h. Each is written once as a function
// of an element or a run (element_functions.h); nvcc compiles it for CUDA. On the CPU, and so on the checked device, a launch
// runs the indices in a shuffled order: a dependence between threads shows.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

/// Adds the squares of ranges to an exact sum (base/exact_digits.h): `words` [kSumWords] int64. Each of `ranges` is flat and
/// dense, of a floating-point type; `places` holds its first element's position. Squares are rounded to float64 within
/// runs that end at multiples of kAlignElements, and nowhere else: for any cut there, the sum has the same bits.
void add_squares_of(at::TensorList ranges, at::IntArrayRef places, const at::Tensor& words);

/// Raises `most` [1] int64 to the largest magnitude of the ranges' elements, as the bits of a float32.
void raise_to_largest(at::TensorList ranges, const at::Tensor& most);

/// Leaves a single digit in every word but the highest, before sums are added word by word as float64.
void carry_words(const at::Tensor& words);

/// What a micro-batch, or a piece of one, adds to a step's losses.
struct LossNumbers {
  at::Tensor sum;      ///< one element, of any floating-point type
  at::Tensor counted;  ///< one int64; undefined: `count`
  int64_t count = 0;
  double nominal = 0.0;
};

/// Writes them into column `place` of `losses` [3, places] float64.
void put_losses(const at::Tensor& losses, int64_t place, const LossNumbers& numbers);

/// Returns contiguous ids, int64 or int32, clamped to [0, count), except those equal to `ignored`. The first that was clamped
/// is noted in `found` [2] int64, of kNoId before: its position in the upper halves, the halves of the id in the lower ones.
at::Tensor clamp_ids(const at::Tensor& ids, int64_t count, std::optional<int64_t> ignored, const at::Tensor& found);

/// Makes all of `losses`, float64, NaN unless `found` (clamp_ids()) is kNoId everywhere.
void spoil_losses(const at::Tensor& losses, const at::Tensor& found);

struct StepFacts;

/// What the numbers of a step are made of, and change (StepBuffers of step_numbers.h).
struct StepTensors {
  at::Tensor losses;      ///< StepBuffers::losses, float64
  at::Tensor found;       ///< int64
  at::Tensor gate;        ///< [kGateNumbers] float32
  at::Tensor scale = {};  ///< [kLossScaleWords] int64: a DeviceLossScale; undefined: none
  at::Tensor rate = {};   ///< [2] float32, with `scale`
};

/// Returns a step's numbers, [count_of_numbers()] float64, and sets the gate.
at::Tensor step_numbers(const StepFacts& facts, const StepTensors& tensors);

/// Elements that dropout zeroes (nn/random.h).
struct Dropped {
  double scale = 1.0;      ///< factor on the others
  uint32_t threshold = 0;  ///< words of the stream below it drop an element
  bool all = false;        ///< every element is dropped
  uint64_t seed = 0, stream = 0;
  std::vector<int64_t> firsts, numels;  ///< runs of elements of the whole activation that x consists of, in order
  at::Tensor place = {};   ///< [2] int64: step, first sample; then `stream` is that of the name, and `firsts` count from there
  int64_t per_sample = 0;  ///< elements of a sample, with `place`
};

/// Returns x with elements zeroed and the others scaled. Not seen by autograd.
at::Tensor drop_elements(const at::Tensor& x, const Dropped& dropped);

/// Numbers of a stream: shift + scale times a standard normal number, or one in [0, 1).
struct Drawn {
  bool is_normal = false;
  uint64_t seed = 0, stream = 0;
  int64_t first = 0;
  float shift = 0.0f, scale = 1.0f;
};

/// Fills a contiguous slice with the numbers from element `first` on, drawn as float32. Not seen by autograd.
void draw_numbers(const at::Tensor& slice, const Drawn& drawn);

}  // namespace weft
