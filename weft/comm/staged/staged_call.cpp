#include "weft/comm/staged/staged_call.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <utility>

namespace weft {

namespace {

at::Tensor pinned_like(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return at::empty({tensor.numel()}, at::TensorOptions(tensor.scalar_type()).pinned_memory(true));
}

void copy(const at::Tensor& to, const at::Tensor& from, const c10::Stream& stream) {
  const c10::NoGradGuard no_grad;
  const c10::StreamGuard guard(stream);
  to.view({-1}).copy_(from.view({-1}), /*non_blocking=*/true);
}

}  // namespace

StagedCall::StagedCall(StagedTensors tensors, const CopyStreams& streams, OnHost on_host)
    : tensors_(std::move(tensors)),
      has_input_(tensors_.input.defined()),
      has_output_(tensors_.output.defined()),
      streams_(streams),
      on_host_(std::move(on_host)),
      ready_(streams.to_host.device_type()),
      copied_(streams.to_host.device_type()) {
  const c10::Stream caller = current_stream(streams_.to_host.device());
  ready_.record(caller);
  buffers_.input = pinned_like(tensors_.input);
  buffers_.output = tensors_.output.is_same(tensors_.input) ? buffers_.input : pinned_like(tensors_.output);
  if (!has_input_) return;
  ready_.block(streams_.to_host);
  copy(buffers_.input, tensors_.input, streams_.to_host);
  copied_.record(streams_.to_host);
}

// The caller may free the tensors while a copy is under way, unless its stream has waited for that.
StagedCall::~StagedCall() {
  if (tensors_.input.defined()) tensors_.input.record_stream(streams_.to_host);
  if (tensors_.output.defined()) tensors_.output.record_stream(streams_.from_host);
}

std::optional<GroupFailure> StagedCall::run() {
  try {
    if (has_input_) copied_.synchronize();
    on_host_(buffers_).wait();
    if (has_output_) {
      if (!has_input_) ready_.block(streams_.from_host);  // else the host has waited for the caller's work
      copy(tensors_.output, buffers_.output, streams_.from_host);
      copied_.record(streams_.from_host);
    }
  } catch (const std::exception& error) {
    return GroupFailure{lost_rank_of(error), error.what()};
  }
  return std::nullopt;
}

void StagedCall::end(std::optional<GroupFailure> failure) {
  const std::lock_guard lock(mutex_);
  on_host_ = nullptr;
  buffers_ = {};  // LibTorch keeps pinned memory until copies have ended
  failure_ = std::move(failure);
  ended_ = true;
  changed_.notify_all();
}

void StagedCall::wait() {
  std::unique_lock lock(mutex_);
  if (has_output_ || !has_input_) changed_.wait(lock, [this] { return ended_; });
  if (failure_) throw_failure(failure_->culprit, failure_->text);
  copied_.block(current_stream(streams_.to_host.device()));
  tensors_ = {};
}

}  // namespace weft
