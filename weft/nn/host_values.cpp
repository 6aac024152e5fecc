#include "weft/nn/host_values.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/graph/device_graph.h"
#include "weft/nn/graph.h"

namespace weft {

namespace {

struct Noted {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  uint32_t version;
  int64_t first;    ///< element of the storage
  at::Tensor host;  ///< contiguous; so was the tensor on the device
};

/// Few: a batch's tensors until it is done.
struct AllNoted {
  std::mutex mutex;
  std::vector<Noted> all;

  void drop_freed() {
    std::erase_if(all, [](const Noted& noted) { return noted.storage.expired(); });
  }
  /// The noted values that hold all of x's; undefined if there are none.
  at::Tensor find(const at::Tensor& x) const {
    int64_t last = x.storage_offset();
    for (int64_t dim = 0; dim < x.dim(); ++dim) last += (x.size(dim) - 1) * x.stride(dim);
    const auto holds = [&](const Noted& noted) {
      return noted.storage._unsafe_get_target() == x.storage().unsafeGetStorageImpl() && noted.version == version_of(x) &&
             noted.host.scalar_type() == x.scalar_type() && noted.first <= x.storage_offset() &&
             last < noted.first + noted.host.numel();
    };
    const auto found = std::find_if(all.begin(), all.end(), holds);
    if (found == all.end()) return {};
    const at::Tensor& host = found->host;  // may be a part of a pinned batch
    return host.as_strided(x.sizes(), x.strides(), host.storage_offset() + x.storage_offset() - found->first).contiguous();
  }
};

AllNoted& all_noted() {
  static AllNoted& all = *new AllNoted;
  return all;
}

}  // namespace

void note_host_values(const at::Tensor& x, const at::Tensor& host) {
  if (x.is_cpu() || x.numel() == 0 || !x.is_contiguous() || x.is_inference()) return;  // those have no version
  AllNoted& noted = all_noted();
  const std::lock_guard lock(noted.mutex);
  noted.drop_freed();
  noted.all.push_back({x.storage().getWeakStorageImpl(), version_of(x), x.storage_offset(), host.contiguous()});
}

at::Tensor noted_values(const at::Tensor& x) {
  if (x.is_cpu() || x.numel() == 0 || x.is_inference()) return {};
  AllNoted& noted = all_noted();
  const std::lock_guard lock(noted.mutex);
  return noted.find(x);
}

void refuse_captured_values(at::Device device) {
  if (!is_captured(device)) return;
  throw InputError(
      "a captured step cannot depend on values that the host reads, such as where documents begin: set run.graph = false");
}

at::Tensor host_values(const at::Tensor& x) {
  if (x.is_cpu() || x.numel() == 0) return x.cpu().contiguous();
  if (at::Tensor noted = noted_values(x); noted.defined()) return noted;
  refuse_captured_values(x.device());
  at::Tensor host = x.cpu().contiguous();
  note_host_values(x, host);
  return host;
}

}  // namespace weft
