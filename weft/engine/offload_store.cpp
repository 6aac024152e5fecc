#include "weft/engine/offload_store.h"

#include <ATen/ops/zeros.h>

#include <vector>

#include "weft/base/scratch_file.h"

namespace weft {

namespace {

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

std::unique_ptr<OffloadStore> disk_offload(const std::string& folder) { return std::make_unique<DiskStore>(folder); }

}  // namespace weft
