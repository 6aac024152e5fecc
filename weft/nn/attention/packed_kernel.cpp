#include "weft/nn/attention/packed_kernel.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <tuple>

#include "weft/nn/attention/fused_pieces.h"
#include "weft/nn/upload.h"

namespace weft {

namespace {

int64_t documents_in(const DocumentRuns& runs) {
  return std::accumulate(runs.begin(), runs.end(), int64_t{0},
                         [](int64_t sum, const DocumentRun& run) { return sum + run.samples; });
}

/// Where documents begin, in tokens of the whole micro-batch, and the end: int32 [documents + 1].
at::Tensor begins_of(const DocumentRuns& runs, int64_t tokens) {
  at::Tensor all = at::empty({documents_in(runs) + 1}, at::kInt);
  auto* next = all.mutable_data_ptr<int32_t>();
  for (const DocumentRun& run : runs) {
    for (int64_t i = 0; i < run.samples; ++i) *next++ = static_cast<int32_t>((run.sample + i) * tokens + run.begin);
  }
  const DocumentRun& last = runs.back();
  *next = static_cast<int32_t>((last.sample + last.samples) * tokens);
  return all;
}

/// Of the latest runs, by the stream that they were copied on: all layers of a micro-batch read the same.
class BeginsOnDevice {
 public:
  at::Tensor of(const DocumentRuns& runs, int64_t tokens, at::Device device) {
    constexpr size_t kMost = 16;  // micro-batches in flight, of all ranks of a process
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    const std::lock_guard lock(mutex_);
    const auto same = [&](const Kept& kept) { return kept.stream == stream && kept.tokens == tokens && kept.runs == runs; };
    const auto found = std::find_if(all_.begin(), all_.end(), same);
    if (found != all_.end()) return found->begins;
    if (all_.size() == kMost) all_.pop_front();
    const c10::InferenceMode no_inference(false);  // backward may keep it
    return all_.emplace_back(Kept{runs, tokens, stream, upload(begins_of(runs, tokens), device)}).begins;
  }

 private:
  struct Kept {
    DocumentRuns runs;
    int64_t tokens;
    c10::Stream stream;
    at::Tensor begins;
  };
  std::mutex mutex_;
  std::deque<Kept> all_;
};

BeginsOnDevice& begins_on_device() {
  static BeginsOnDevice& all = *new BeginsOnDevice;
  return all;
}

/// [batch, heads, tokens, head width] as [batch x tokens, heads, head width that the kernel takes].
at::Tensor rows_of(const at::Tensor& x) {
  const int64_t missing = fused_head_width(x) - x.size(3);
  const at::Tensor whole = missing > 0 ? at::constant_pad_nd(x, {0, missing}) : x;
  return (whole.stride(3) == 1 ? whole : whole.contiguous()).transpose(1, 2).flatten(0, 1);
}

}  // namespace

bool has_packed_kernel(const at::Tensor& q, const DocumentRuns& runs) {
  constexpr int64_t kMostDocuments = 65535;
  static const c10::OperatorHandle flash = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_flash_attention_forward", "");
  return !q.is_cpu() && !q.is_meta() && q.scalar_type() != at::kDouble && has_fused_kernel(q) && groups_heads(q) &&
         documents_in(runs) <= kMostDocuments && flash.hasKernelForDispatchKey(c10::legacyExtractDispatchKey(q.key_set()));
}

at::Tensor attend_packed(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const DocumentRuns& runs) {
  const int64_t tokens = q.size(2);
  const at::Tensor begins = begins_on_device().of(runs, tokens, q.device());
  int64_t longest = 0;
  for (const DocumentRun& run : runs) longest = std::max(longest, run.tokens);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const at::Tensor rows = std::get<0>(at::_flash_attention_forward(rows_of(q), rows_of(k), rows_of(v), begins, begins, longest,
                                                                   longest, 0.0, /*is_causal=*/true,
                                                                   /*return_debug_mask=*/false, scale));
  const at::Tensor out = rows.size(2) == q.size(3) ? rows : rows.narrow(2, 0, q.size(3));
  return out.unflatten(0, {q.size(0), tokens}).flatten(2);
}

}  // namespace weft
