#include "weft/engine/host_store.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <iterator>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/engine/memory_ledger.h"

namespace weft {

int HostStore::reserve(int64_t bytes) {
  if (free_.empty()) {
    rooms_.push_back(make(bytes));
    return static_cast<int>(rooms_.size()) - 1;
  }
  const auto fitting = free_.find(bytes);
  const bool fits = fitting != free_.end();
  const auto taken = fits ? fitting : std::prev(free_.end());  // evict the largest to make room for another size
  const int room = taken->second;
  free_.erase(taken);
  if (fits) return room;
  rooms_[room].reset();
  const auto empty = free_.emplace(0, room);
  rooms_[room] = make(bytes);
  free_.erase(empty);
  return room;
}

void HostStore::put(int room, const at::Tensor& tensor) { view_of(room, tensor).copy_(tensor, /*non_blocking=*/pinned_); }

void HostStore::get(int room, const at::Tensor& tensor) {
  tensor.variable_data().copy_(view_of(room, tensor), /*non_blocking=*/pinned_);
}

at::Tensor HostStore::view_of(int room, const at::Tensor& like) const {
  return rooms_[room].narrow(0, 0, static_cast<int64_t>(like.nbytes())).view(like.scalar_type()).view(like.sizes());
}

at::Tensor HostStore::make(int64_t bytes) const {
  const MemoryScope scope(of_);
  try {
    return at::zeros({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned_));
  } catch (const c10::Error& error) {
    throw InputError(
        fmt::format("offload: no room for {} more in {}host memory; offload less, offload to \"disk\", or use more ranks: {}",
                    format_bytes(bytes), pinned_ ? "pinned " : "", error.what_without_backtrace()));
  }
}

std::unique_ptr<OffloadStore> host_offload(MemoryCategory of) { return std::make_unique<HostStore>(false, of); }

}  // namespace weft
