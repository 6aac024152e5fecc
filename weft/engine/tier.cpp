#include "weft/engine/tier.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <iterator>
#include <map>
#include <vector>

#include "weft/base/scratch_file.h"

namespace weft {

namespace {

class HostTier : public Tier {
 public:
  explicit HostTier(bool pinned) : pinned_(pinned) {}

  int reserve(int64_t bytes) override {
    if (free_.empty()) {
      places_.push_back(make(bytes));
      return static_cast<int>(places_.size()) - 1;
    }
    const auto fitting = free_.find(bytes);
    const bool fits = fitting != free_.end();
    const auto taken = fits ? fitting : std::prev(free_.end());  // the largest makes room for one of another size
    const int place = taken->second;
    free_.erase(taken);
    if (!fits) {
      places_[place].reset();
      places_[place] = make(bytes);
    }
    return place;
  }
  void release(int place) override { free_.emplace(places_[place].numel(), place); }
  void put(int place, const at::Tensor& tensor) override { view_of(place, tensor).copy_(tensor); }
  void get(int place, const at::Tensor& tensor) override { tensor.variable_data().copy_(view_of(place, tensor)); }

 private:
  at::Tensor view_of(int place, const at::Tensor& like) const {
    return places_[place].narrow(0, 0, static_cast<int64_t>(like.nbytes())).view(like.scalar_type()).view(like.sizes());
  }

  at::Tensor make(int64_t bytes) const { return at::zeros({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned_)); }

  bool pinned_;
  std::vector<at::Tensor> places_;
  std::multimap<int64_t, int> free_;  ///< by bytes
};

class DiskTier : public Tier {
 public:
  explicit DiskTier(const std::string& folder) : file_(folder) {}

  int reserve(int64_t bytes) override {
    const Extent extent{file_.reserve(bytes), bytes};
    if (free_.empty()) {
      extents_.push_back(extent);
      return static_cast<int>(extents_.size()) - 1;
    }
    const int place = free_.back();
    free_.pop_back();
    extents_[place] = extent;
    return place;
  }
  void release(int place) override {
    file_.release(extents_[place].begin, extents_[place].bytes);
    free_.push_back(place);
  }
  void put(int place, const at::Tensor& tensor) override {
    const at::Tensor host = tensor.cpu();
    file_.write(extents_[place].begin, host.const_data_ptr(), static_cast<int64_t>(host.nbytes()));
  }
  void get(int place, const at::Tensor& tensor) override {
    if (tensor.is_cpu()) return file_.read(extents_[place].begin, tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()));
    const at::Tensor host = at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
    file_.read(extents_[place].begin, host.data_ptr(), static_cast<int64_t>(host.nbytes()));
    tensor.variable_data().copy_(host);
  }

 private:
  struct Extent {
    int64_t begin = 0, bytes = 0;
  };

  ScratchFile file_;
  std::vector<Extent> extents_;  ///< by place
  std::vector<int> free_;        ///< places that were released
};

}  // namespace

std::unique_ptr<Tier> host_tier(at::Device device) { return std::make_unique<HostTier>(!device.is_cpu()); }
std::unique_ptr<Tier> disk_tier(const std::string& folder) { return std::make_unique<DiskTier>(folder); }

}  // namespace weft
