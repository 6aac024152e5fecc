#include "weft/engine/offload_store.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <iterator>
#include <map>
#include <vector>

#include "weft/base/scratch_file.h"

namespace weft {

namespace {

class HostStore : public OffloadStore {
 public:
  explicit HostStore(at::Device device) : device_(device), pinned_(!device.is_cpu()) {}

  int reserve(int64_t bytes) override {
    if (free_.empty()) {
      rooms_.push_back(make(bytes));
      return static_cast<int>(rooms_.size()) - 1;
    }
    const auto fitting = free_.find(bytes);
    const bool fits = fitting != free_.end();
    const auto taken = fits ? fitting : std::prev(free_.end());  // evict the largest to make room for another size
    const int room = taken->second;
    free_.erase(taken);
    if (!fits) {
      rooms_[room].reset();
      rooms_[room] = make(bytes);
    }
    return room;
  }
  void release(int room) override { free_.emplace(rooms_[room].numel(), room); }
  // Copies of the device's tensors use rooms on its stream: the host does not wait.
  void put(int room, const at::Tensor& tensor) override {
    await_copies(tensor);
    view_of(room, tensor).copy_(tensor, /*non_blocking=*/pinned_);
  }
  void get(int room, const at::Tensor& tensor) override {
    await_copies(tensor);
    tensor.variable_data().copy_(view_of(room, tensor), /*non_blocking=*/pinned_);
  }

 private:
  at::Tensor view_of(int room, const at::Tensor& like) const {
    return rooms_[room].narrow(0, 0, static_cast<int64_t>(like.nbytes())).view(like.scalar_type()).view(like.sizes());
  }

  /// The host copies tensors of its own, such as ones that blocks on a device pass on, after the device's copies.
  void await_copies(const at::Tensor& tensor) const {
    if (pinned_ && tensor.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  }

  at::Tensor make(int64_t bytes) const { return at::zeros({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned_)); }

  at::Device device_;
  bool pinned_;
  std::vector<at::Tensor> rooms_;
  std::multimap<int64_t, int> free_;  ///< by bytes
};

class DiskStore : public OffloadStore {
 public:
  explicit DiskStore(const std::string& folder) : file_(folder) {}

  int reserve(int64_t bytes) override {
    const Extent extent{file_.reserve(bytes), bytes};
    if (free_.empty()) {
      extents_.push_back(extent);
      return static_cast<int>(extents_.size()) - 1;
    }
    const int room = free_.back();
    free_.pop_back();
    extents_[room] = extent;
    return room;
  }
  void release(int room) override {
    file_.release(extents_[room].begin, extents_[room].bytes);
    free_.push_back(room);
  }
  void put(int room, const at::Tensor& tensor) override {
    const at::Tensor host = tensor.cpu();
    file_.write(extents_[room].begin, host.const_data_ptr(), static_cast<int64_t>(host.nbytes()));
  }
  void get(int room, const at::Tensor& tensor) override {
    if (tensor.is_cpu()) return file_.read(extents_[room].begin, tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()));
    const at::Tensor host = at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
    file_.read(extents_[room].begin, host.data_ptr(), static_cast<int64_t>(host.nbytes()));
    tensor.variable_data().copy_(host);
  }

 private:
  struct Extent {
    int64_t begin = 0, bytes = 0;
  };

  ScratchFile file_;
  std::vector<Extent> extents_;  ///< by room
  std::vector<int> free_;        ///< released rooms
};

}  // namespace

std::unique_ptr<OffloadStore> host_offload(at::Device device) { return std::make_unique<HostStore>(device); }
std::unique_ptr<OffloadStore> disk_offload(const std::string& folder) { return std::make_unique<DiskStore>(folder); }

}  // namespace weft
