#include "weft/engine/uploads.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "weft/comm/staged/copy_streams.h"

namespace weft {

Uploads::Uploads(c10::Device device) : stream_(pool_stream(device)) {}

Uploads::~Uploads() {
  try {
    free(earlier_);
    free(latest_);
    free(converted_);
  } catch (const std::exception&) {  // of the device, which a call before has reported
  }
}

void Uploads::free(std::vector<Used>& used) {
  for (const Used& one : used) one.by.block(stream_);
  used.clear();
}

Upload::Upload(std::shared_ptr<Uploads> uploads) : uploads_(std::move(uploads)) {
  uploads_->free(uploads_->earlier_);
  uploads_->free(uploads_->converted_);
  std::swap(uploads_->earlier_, uploads_->latest_);
}

Upload::~Upload() {
  try {
    c10::Event by(uploads_->stream_.device_type());
    by.record(current_stream(uploads_->stream_.device()));
    uploads_->latest_.push_back({std::move(tensors_), std::move(by)});
  } catch (const std::exception&) {  // of the device, which a call before has reported
  }
}

at::Tensor Upload::copy(const at::Tensor& pinned) {
  const c10::StreamGuard guard(uploads_->stream_);
  return tensors_.emplace_back(pinned.to(uploads_->stream_.device(), pinned.scalar_type(), /*non_blocking=*/true));
}

void Upload::keep(const Tensors& used) {
  const auto is_used = [&used](const at::Tensor& x) {
    return std::any_of(used.begin(), used.end(), [&x](const at::Tensor& y) { return y.defined() && y.is_alias_of(x); });
  };
  const auto converted = std::stable_partition(tensors_.begin(), tensors_.end(), is_used);
  if (converted == tensors_.end()) return;
  c10::Event by(uploads_->stream_.device_type());
  by.record(current_stream(uploads_->stream_.device()));
  uploads_->converted_.push_back({{converted, tensors_.end()}, std::move(by)});
  tensors_.erase(converted, tensors_.end());
}

void Upload::wait() {
  c10::Event copied(uploads_->stream_.device_type());
  copied.record(uploads_->stream_);
  copied.block(current_stream(uploads_->stream_.device()));
}

}  // namespace weft
