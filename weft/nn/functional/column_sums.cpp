#include "weft/nn/functional/column_sums.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/kernel_record.h"
#include "weft/nn/kernels/column_sums_kernels.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

void check_columns(const at::Tensor& x) {
  TensorChecks("column sums").floating("x", x, {TensorChecks::kAny, TensorChecks::kAny}, x);
}

}  // namespace

void column_sums_into(const at::Tensor& sums, const at::Tensor& x) {
  check_columns(x);
  const at::ScalarType type = sums.scalar_type();
  TensorChecks("column sums").place("sums", sums, {x.size(1)}, x);
  if (fits_kernels({x}) || at::promoteTypes(x.scalar_type(), type) != type) {
    sums.copy_(column_sums(x, type));
  } else {
    at::Tensor into = sums;
    at::sum_out(into, x, {0}, /*keepdim=*/false, type);
  }
}

at::Tensor column_sums(const at::Tensor& x, at::ScalarType type) {
  check_columns(x);
  if (!fits_kernels({x})) return at::sum(x, {0}, /*keepdim=*/false, at::promoteTypes(x.scalar_type(), type)).to(type);
  const int64_t rows = x.size(0), columns = x.size(1), bytes = static_cast<int64_t>(x.element_size());
  const RowChunks chunks(rows);
  const at::TensorOptions wide = x.options().dtype(at::kFloat);
  if (x.numel() == 0) return at::zeros({columns}, wide).to(type);
  const at::Tensor sums = at::empty({chunks.count, columns}, wide);
  if (const KernelRecord record("weft::column_sums", {x}); has_elements(x)) {
    parallel_for(chunks.count, pieces_worth_a_thread(chunks.rows_each * columns), [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * chunks.rows_each;
        column_sums_rows(element_of(x), {.x = static_cast<const char*>(x.const_data_ptr()) + first * columns * bytes,
                                         .sums = sums.mutable_data_ptr<float>() + chunk * columns,
                                         .rows = std::min(chunks.rows_each, rows - first),
                                         .columns = columns});
      }
    });
    add_up_in_tree(sums.mutable_data_ptr<float>(), chunks.count, columns);
  }
  return chunks.count == 1 ? sums[0].to(type) : sums[0].to(type, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace weft
