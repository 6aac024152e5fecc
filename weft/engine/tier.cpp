#include "weft/engine/tier.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <vector>

#include "weft/base/scratch_file.h"

namespace weft {

namespace {

class HostTier : public Tier {
 public:
  explicit HostTier(bool pinned) : pinned_(pinned) {}

  int reserve(int64_t bytes) override {
    places_.push_back(at::zeros({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned_)));
    return static_cast<int>(places_.size()) - 1;
  }
  void put(int place, const at::Tensor& tensor) override { view_of(place, tensor).copy_(tensor); }
  void get(int place, const at::Tensor& tensor) override { tensor.variable_data().copy_(view_of(place, tensor)); }

 private:
  at::Tensor view_of(int place, const at::Tensor& like) const {
    return places_[place].narrow(0, 0, static_cast<int64_t>(like.nbytes())).view(like.scalar_type()).view(like.sizes());
  }

  bool pinned_;
  std::vector<at::Tensor> places_;
};

class DiskTier : public Tier {
 public:
  explicit DiskTier(const std::string& folder) : file_(folder) {}

  int reserve(int64_t bytes) override {
    offsets_.push_back(file_.reserve(bytes));
    return static_cast<int>(offsets_.size()) - 1;
  }
  void put(int place, const at::Tensor& tensor) override {
    const at::Tensor host = tensor.cpu();
    file_.write(offsets_[place], host.const_data_ptr(), static_cast<int64_t>(host.nbytes()));
  }
  void get(int place, const at::Tensor& tensor) override {
    if (tensor.is_cpu()) return file_.read(offsets_[place], tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()));
    const at::Tensor host = at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
    file_.read(offsets_[place], host.data_ptr(), static_cast<int64_t>(host.nbytes()));
    tensor.variable_data().copy_(host);
  }

 private:
  ScratchFile file_;
  std::vector<int64_t> offsets_;
};

}  // namespace

std::unique_ptr<Tier> host_tier(at::Device device) { return std::make_unique<HostTier>(!device.is_cpu()); }
std::unique_ptr<Tier> disk_tier(const std::string& folder) { return std::make_unique<DiskTier>(folder); }

}  // namespace weft
