#include <cuda_runtime.h>

#include <algorithm>

#include "weft/base/exact_digits.h"
#include "weft/base/math.h"
#include "weft/nn/device_kernels/cuda_elements.h"
#include "weft/nn/device_kernels/cuda_launches.h"
#include "weft/nn/device_kernels/element_functions.h"

namespace weft {

namespace {

constexpr int kWarp = 32;

__device__ void add_word(int64_t* word, int64_t value) {
  if (value != 0) atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}

/// Eight neighbouring threads share a run, one lane each. Warps have sums of their own in shared memory, which a block carries
/// and adds to the total: so no word gets more than a digit from each of at most 2^10 blocks. With kEach a row of blocks for each
/// range, which has a sum of its own.
template <class Element, bool kEach>
__global__ void add_squares_kernel(const CudaRanges ranges, int64_t* words) {
  const int begin = kEach ? blockIdx.y : 0, end = kEach ? begin + 1 : ranges.count;
  if (kEach) words += static_cast<int64_t>(ranges.row[begin]) * kSumWords;
  __shared__ int64_t sums[kThreads / kWarp][kSumWords];
  for (int i = threadIdx.x; i < kThreads / kWarp * kSumWords; i += kThreads) sums[i / kSumWords][i % kSumWords] = 0;
  __syncthreads();
  int64_t* own = sums[threadIdx.x / kWarp];
  const int lane = threadIdx.x % kSquareLanes;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kSquareLanes;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads / kSquareLanes;
  for (int r = begin; r < end; ++r) {
    const auto* data = static_cast<const Element*>(ranges.data[r]);
    const Runs runs{ranges.numel[r], ranges.before[r], kAlignElements};
    const int64_t count = runs.count();
    // All threads of a warp go round equally often, as the shuffles need them.
    for (int64_t run = first; run - first % (kWarp / kSquareLanes) < count; run += stride) {
      const bool is_run = run < count;
      const double part = is_run ? squares_of_lane(data + runs.begin(run), runs.end(run) - runs.begin(run), lane) : 0.0;
      double total = 0.0;
      for (int l = 0; l < kSquareLanes; ++l) total += __shfl_sync(0xffffffffu, part, l, kSquareLanes);
      if (lane != 0 || !is_run) continue;
      const ExactDigits number = exact_digits(total);
      if (!number.is_summable) add_word(own + kSumDigits, 1);
      for (int i = 0; i < 3 && number.word + i < kSumDigits; ++i) {
        add_word(own + number.word + i, static_cast<int64_t>(number.digits[i]));
      }
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / kWarp; ++warp) {
    for (int i = 0; i < kSumWords; ++i) sums[0][i] += sums[warp][i];
  }
  carry_digits(sums[0]);
  for (int i = 0; i < kSumWords; ++i) add_word(words + i, sums[0][i]);
}

template <class Element>
__global__ void raise_to_largest_kernel(const CudaRanges ranges, int64_t* most) {
  int64_t largest = 0;
  for (int r = 0; r < ranges.count; ++r) {
    const auto* data = static_cast<const Element*>(ranges.data[r]);
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < ranges.numel[r];
         i += static_cast<int64_t>(gridDim.x) * kThreads) {
      largest = max(largest, magnitude_bits(data[i]));
    }
  }
  for (int apart = kWarp / 2; apart > 0; apart /= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
  if (threadIdx.x % kWarp == 0) atomicMax(reinterpret_cast<unsigned long long*>(most), static_cast<unsigned long long>(largest));
}

__global__ void carry_words_kernel(int64_t* words) { carry_digits(words); }

template <class Element>
__global__ void put_losses_kernel(const CudaLosses all) {
  LossPlace{all.losses, all.places, all.place, all.nominal}.put(
      static_cast<double>(*static_cast<const Element*>(all.sum)),
      static_cast<double>(all.counted ? *all.counted : all.count));
}

template <class Index>
__global__ void clamp_ids_kernel(const CudaIds all) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all.numel; i += step) {
    const int64_t id = static_cast<const Index*>(all.ids)[i], own = clamped_id(id, all.count, all.has_ignored, all.ignored);
    static_cast<Index*>(all.safe)[i] = static_cast<Index>(own);
    if (own == id) continue;
    const NotedId note(i, id);
    atomicMin(reinterpret_cast<long long*>(all.found), static_cast<long long>(note.low));
    atomicMin(reinterpret_cast<long long*>(all.found + 1), static_cast<long long>(note.high));
  }
}

/// One block.
__global__ void spoil_losses_kernel(double* losses, int64_t numel, const int64_t* found, int64_t num_found) {
  int wrong = 0;
  for (int64_t i = threadIdx.x; i < num_found; i += kThreads) wrong |= found[i] != kNoId ? 1 : 0;
  if (__syncthreads_or(wrong) == 0) return;
  for (int64_t i = threadIdx.x; i < numel; i += kThreads) losses[i] = __longlong_as_double(0x7ff8000000000000ll);
}

/// Elements between runs' begins belong to the run before.
template <class Element>
__global__ void drop_kernel(const CudaDropped dropped, const CudaRuns runs) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const PlacedStream placed{{dropped.seed, dropped.stream}, dropped.place, dropped.per_sample};
  const Stream of = stream_now(placed);
  const int64_t first = first_now(placed);
  int run = 0;
  for (int64_t i = runs.begin[0] + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < runs.end; i += step) {
    while (run + 1 < runs.count && i >= runs.begin[run + 1]) ++run;
    static_cast<Element*>(dropped.y)[i] =
        dropped_or_scaled(static_cast<const Element*>(dropped.x)[i], of, first + runs.first[run] + i - runs.begin[run],
                          dropped.threshold, dropped.all, dropped.scale);
  }
}

template <class Element>
__global__ void draw_kernel(const CudaDrawn drawn) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < drawn.numel; i += step) {
    static_cast<Element*>(drawn.to)[i] = static_cast<Element>(
        drawn_number(drawn.is_normal, {drawn.seed, drawn.stream}, drawn.first + i, drawn.shift, drawn.scale));
  }
}

int blocks_for(const CudaRanges& ranges, int64_t elements_per_thread) {
  int64_t most = 1;
  for (int r = 0; r < ranges.count; ++r) most = std::max(most, ranges.numel[r] / (kThreads * elements_per_thread) + 1);
  return static_cast<int>(std::min<int64_t>(most, kMostBlocks));
}

cudaStream_t stream_of(CudaStream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int cuda_add_squares(CudaElement element, const CudaRanges& ranges, int64_t* words, CudaStream stream) {
  by_type(element, [&](auto type) {
    add_squares_kernel<decltype(type), false><<<blocks_for(ranges, 64), kThreads, 0, stream_of(stream)>>>(ranges, words);
  });
  return cudaGetLastError();
}

int cuda_add_squares_each(CudaElement element, const CudaRanges& ranges, int64_t* sums, CudaStream stream) {
  const dim3 blocks(static_cast<unsigned>(blocks_for(ranges, 64)), static_cast<unsigned>(ranges.count));
  by_type(element, [&](auto type) {
    add_squares_kernel<decltype(type), true><<<blocks, kThreads, 0, stream_of(stream)>>>(ranges, sums);
  });
  return cudaGetLastError();
}

int cuda_raise_to_largest(CudaElement element, const CudaRanges& ranges, int64_t* most, CudaStream stream) {
  by_type(element, [&](auto type) {
    raise_to_largest_kernel<decltype(type)><<<blocks_for(ranges, 16), kThreads, 0, stream_of(stream)>>>(ranges, most);
  });
  return cudaGetLastError();
}

int cuda_carry_words(int64_t* words, CudaStream stream) {
  carry_words_kernel<<<1, 1, 0, stream_of(stream)>>>(words);
  return cudaGetLastError();
}

int cuda_put_losses(CudaElement element, const CudaLosses& losses, CudaStream stream) {
  by_type(element, [&](auto type) { put_losses_kernel<decltype(type)><<<1, 1, 0, stream_of(stream)>>>(losses); });
  return cudaGetLastError();
}

int cuda_clamp_ids(const CudaIds& ids, CudaStream stream) {
  const int blocks = blocks_for_elements(ids.numel);
  ids.is_wide ? clamp_ids_kernel<int64_t><<<blocks, kThreads, 0, stream_of(stream)>>>(ids)
              : clamp_ids_kernel<int32_t><<<blocks, kThreads, 0, stream_of(stream)>>>(ids);
  return cudaGetLastError();
}

int cuda_spoil_losses(double* losses, int64_t numel, const int64_t* found, int64_t num_found, CudaStream stream) {
  spoil_losses_kernel<<<1, kThreads, 0, stream_of(stream)>>>(losses, numel, found, num_found);
  return cudaGetLastError();
}

int cuda_drop(CudaElement element, const CudaDropped& dropped, const CudaRuns& runs, CudaStream stream) {
  const int blocks = blocks_for_elements(runs.end - runs.begin[0]);
  by_type(element, [&](auto type) {
    drop_kernel<decltype(type)><<<blocks, kThreads, 0, stream_of(stream)>>>(dropped, runs);
  });
  return cudaGetLastError();
}

int cuda_draw(CudaElement element, const CudaDrawn& drawn, CudaStream stream) {
  by_type(element, [&](auto type) {
    draw_kernel<decltype(type)><<<blocks_for_elements(drawn.numel), kThreads, 0, stream_of(stream)>>>(drawn);
  });
  return cudaGetLastError();
}

}  // namespace weft
