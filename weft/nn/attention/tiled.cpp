#include "weft/nn/attention/tiled.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/comm/threads/parallel_for.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/kernels/attention_kernels.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

/// Rows of one sample, from head `head`: x [batch, heads, tokens, ...].
HeadRows rows_from(const at::Tensor& x, int64_t sample, int64_t head) {
  auto* data = static_cast<char*>(x.data_ptr());
  return {data + (sample * x.stride(0) + head * x.stride(1)) * static_cast<int64_t>(x.element_size()), x.stride(1),
          x.stride(2)};
}

/// Tensors of an attention; the gradients are undefined in forward.
struct AttentionTensors {
  at::Tensor q = {}, k = {}, v = {}, out = {}, logsumexp = {}, dout = {}, dq = {}, dk = {}, dv = {};
};

/// Fields shared by all jobs.
AttentionJob shape_of(const AttentionTensors& t, AttentionMask mask) {
  return {.heads = t.q.size(1) / t.k.size(1),
          .queries = t.q.size(2),
          .keys = t.k.size(2),
          .width = t.q.size(3),
          .causal = mask == AttentionMask::causal,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(t.q.size(3))))};
}

AttentionJob job_of(const AttentionTensors& t, AttentionMask mask, int64_t sample, int64_t kv_head) {
  AttentionJob job = shape_of(t, mask);
  const int64_t head = kv_head * job.heads;
  job.q = rows_from(t.q, sample, head);
  job.k = rows_from(t.k, sample, kv_head);
  job.v = rows_from(t.v, sample, kv_head);
  job.out = rows_from(t.out, sample, head);
  job.logsumexp = rows_from(t.logsumexp, sample, head);
  if (t.dout.defined()) {
    job.dout = rows_from(t.dout, sample, head);
    job.dq = rows_from(t.dq, sample, head);
    job.dk = rows_from(t.dk, sample, kv_head);
    job.dv = rows_from(t.dv, sample, kv_head);
  }
  return job;
}

/// Runs `parts` parts of each kv head of each sample, in parallel.
void run_parts(const AttentionTensors& t, AttentionMask mask, GradientsOf gradients, int64_t parts) {
  const bool backward = t.dout.defined();
  const int64_t kv_heads = t.k.size(1), all = t.q.size(0) * kv_heads * parts, threads = threads_for(all, 1);
  const int64_t floats = attention_scratch(shape_of(t, mask), backward);
  const at::Tensor scratch = at::empty({has_elements(t.q) ? threads : 1, floats}, t.q.options().dtype(at::kFloat));
  if (!has_elements(t.q)) return;  // only one thread's memory is measured; nothing is computed
  auto* own = scratch.mutable_data_ptr<float>();
  const auto run = [&](int64_t thread) {
    for (int64_t i = all * thread / threads; i < all * (thread + 1) / threads; ++i) {
      AttentionJob job = job_of(t, mask, i / parts / kv_heads, i / parts % kv_heads);
      job.part = i % parts;
      job.parts = parts;
      job.gradients = gradients;
      job.scratch = own + thread * floats;
      backward ? attend_backward_job(element_of(t.q), job) : attend_job(element_of(t.q), job);
    }
  };
  parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) run(thread);
  });
}

/// With fewer jobs than threads, threads share the work on a kv head, which changes no bits.
void run_jobs(const AttentionTensors& t, AttentionMask mask) {
  const int64_t share = has_elements(t.q) ? available_threads() / (t.q.size(0) * t.k.size(1)) : 1;
  const AttentionJob shape = shape_of(t, mask);
  const int64_t of_queries = std::min(share, shape.heads * attention_tiles(shape.queries));
  const int64_t of_keys = std::min(share, attention_tiles(shape.keys));
  const bool backward = t.dout.defined();
  if (of_queries < 2 || (backward && of_keys < 2)) return run_parts(t, mask, GradientsOf::all, 1);
  run_parts(t, mask, GradientsOf::queries, of_queries);
  if (backward) run_parts(t, mask, GradientsOf::keys, of_keys);
}

/// Makes the elements of a head contiguous, as the kernel reads and writes them.
at::Tensor readable(const at::Tensor& x, at::ScalarType type) {
  const at::Tensor typed = x.to(type);
  return typed.stride(3) == 1 ? typed : typed.contiguous();
}

at::Tensor writable(const at::Tensor& x) { return x.stride(3) == 1 ? x : at::empty(x.sizes(), x.options()); }

void write_back(const at::Tensor& written, const at::Tensor& place) {
  if (!written.is_same(place)) place.copy_(written);
}

}  // namespace

bool fits_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (!q.defined() || !k.defined() || !v.defined()) return false;
  const at::ScalarType type = q.scalar_type();
  return has_weft_kernel(ModelOperation::attention, q.device()) && (type == at::kFloat || type == at::kBFloat16) &&
         k.scalar_type() == type && v.scalar_type() == type && q.numel() > 0 && k.numel() > 0 && v.sizes() == k.sizes();
}

namespace {

void check_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask) {
  check_grouped(q, k, v, mask);
  TensorChecks("attention in tiles").that(fits_tiles(q, k, v), "q", q, "Float or BFloat16 on the CPU, and not empty");
}

}  // namespace

AttentionPiece attend_in_tiles(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask) {
  check_tiles(q, k, v, mask);
  RECORD_FUNCTION("weft::attention", (std::vector<c10::IValue>{q, k, mask == AttentionMask::causal}));
  const at::ScalarType type = q.scalar_type();
  AttentionTensors t{.q = readable(q, type), .k = readable(k, type), .v = readable(v, type)};
  t.out = at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
  t.logsumexp = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  run_jobs(t, mask);
  return {t.out, t.logsumexp};
}

void attend_backward_in_tiles(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const AttentionPiece& whole, AttentionMask mask, const AttentionGradients& into) {
  check_tiles(q, k, v, mask);
  check_whole(dout, q, whole);
  check_into(into, q, k, v);
  RECORD_FUNCTION("weft::attention_backward", (std::vector<c10::IValue>{q, k, mask == AttentionMask::causal}));
  const at::ScalarType type = q.scalar_type();
  const AttentionTensors t{.q = readable(q, type),
                           .k = readable(k, type),
                           .v = readable(v, type),
                           .out = readable(whole.out, type),
                           .logsumexp = whole.logsumexp,
                           .dout = readable(dout, type),
                           .dq = writable(into.q),
                           .dk = writable(into.k),
                           .dv = writable(into.v)};
  run_jobs(t, mask);
  write_back(t.dq, into.q);
  write_back(t.dk, into.k);
  write_back(t.dv, into.v);
}

}  // namespace weft
