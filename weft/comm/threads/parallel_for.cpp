#include "weft/comm/threads/parallel_for.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "weft/base/math.h"
#include "weft/base/openmp.h"

namespace weft {

namespace {

/// Calls of(i) for i in [0, parts), each on a thread, from a LibTorch operator on a tensor of `parts` elements, whose loop is
/// compiled with OpenMP. The atomic makes the ordering visible to the thread sanitizer, which cannot see into LibTorch.
void on_threads(int64_t parts, c10::function_ref<void(int64_t)> of) {
  std::vector<int64_t> numbers(static_cast<size_t>(parts));
  std::iota(numbers.begin(), numbers.end(), 0);
  const at::Tensor tensor = at::from_blob(numbers.data(), {parts}, at::TensorOptions(at::kLong));
  at::TensorIterator iterator = at::TensorIteratorConfig()
                                    .set_check_mem_overlap(false)
                                    .check_all_same_dtype(false)
                                    .resize_outputs(false)
                                    .declare_static_shape({parts})
                                    .add_output(tensor)
                                    .build();
  // Not on this stack, which the threads may not read before the ordering is established. The loop takes two dimensions, since
  // LibTorch would wrap a one-dimensional loop in another.
  static std::atomic<int64_t> order = 0;
  const auto loop = [&](char** data, const int64_t* strides, int64_t columns, int64_t rows) {
    order.fetch_add(1, std::memory_order_acq_rel);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        of(*reinterpret_cast<const int64_t*>(data[0] + column * strides[0] + row * strides[1]));
      }
    }
    order.fetch_add(1, std::memory_order_acq_rel);
  };
  order.fetch_add(1, std::memory_order_release);
  iterator.for_each(loop, /*grain_size=*/1);
  order.load(std::memory_order_acquire);
}

}  // namespace

int64_t available_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

int64_t threads_for(int64_t count, int64_t grain) {
  const int64_t pieces = ceil_divide(count, grain);
  return pieces <= 1 ? 1 : std::min(pieces, available_threads());
}

void parallel_for(int64_t count, int64_t grain, c10::function_ref<void(int64_t begin, int64_t end)> work) {
  if (count <= 0) return;
  const int64_t threads = threads_for(count, grain);
  if (threads == 1) return work(0, count);
  const int64_t pieces = ceil_divide(count, grain);
  on_threads(threads, [&](int64_t thread) {
    const auto begin_of = [&](int64_t t) { return std::min(count, pieces * t / threads * grain); };
    work(begin_of(thread), begin_of(thread + 1));
  });
}

void use_single_thread() {
  at::get_num_threads();  // LibTorch sets a thread's thread count only when first queried
  set_openmp_threads(1);
}

}  // namespace weft
