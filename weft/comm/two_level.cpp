#include "weft/comm/two_level.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/call/shard_range.h"
#include "weft/comm/shm/shm_backend.h"
namespace weft {
namespace {

int ranks_per_host(const std::vector<std::string>& hosts) {
  return static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts.front()));
}

// The ranks at positions begin, begin + stride, ... of the plan's axis.
GroupPlan part_of(const GroupPlan& plan, const std::string& level, int begin, int stride, int count) {
  const std::string name = fmt::format("{} {}", plan.axis.name, level);
  GroupPlan part{{name, {}, 0}, {}, plan.store.below(fmt::format("{}/{}", level, begin)), plan.options, plan.deadline};
  for (int i = 0; i < count; ++i) {
    const int position = begin + i * stride;
    if (position == plan.axis.index) part.axis.index = i;
    part.axis.ranks.push_back(plan.axis.ranks[position]);
    part.hosts.push_back(plan.hosts[position]);
  }
  return part;
}

class TwoLevelBackend : public Backend {
 public:
  explicit TwoLevelBackend(const GroupPlan& plan) : Backend(plan.axis) {
    const int per_host = ranks_per_host(plan.hosts), position = rank() % per_host;
    inside_ = make_shm_backend(part_of(plan, "inside hosts", rank() - position, 1, per_host));
    across_ = make_gloo_backend(part_of(plan, "across hosts", position, per_host, size() / per_host));
    GroupPlan flat = plan;
    flat.store = plan.store.below("flat");
    flat_ = make_gloo_backend(flat);
  }

  std::string_view kind() const override { return "shm+gloo"; }
  int64_t memory_bytes() const override { return inside_->memory_bytes(); }

  // Done when it returns: the last step runs in this thread and needs the others' ends.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    const ShardRange own = shard_range(tensor.numel(), inside_->size(), inside_->rank());
    const at::Tensor flat = tensor.view({-1});
    const at::Tensor part = at::empty({own.end - own.begin}, tensor.options());
    inside_->reduce_scatter(part, flat, op, what).wait();
    across_->all_reduce(part, op, what).wait();
    inside_->all_gather(flat, part, what).wait();
    return {};
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    return flat_->reduce_scatter(output, input, op, what);
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return flat_->all_gather(output, input, what);
  }
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    return flat_->broadcast(tensor, root, what);
  }
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return flat_->all_to_all(output, input, what);
  }
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override { return flat_->send(tensor, peer, what); }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    return flat_->receive(tensor, peer, what);
  }
  Work barrier(std::string_view what) override { return flat_->barrier(what); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    return inside_->allocate(numel, dtype, what);
  }

 private:
  std::shared_ptr<Backend> inside_;
  std::shared_ptr<Backend> across_;
  std::shared_ptr<Backend> flat_;
};

}  // namespace

bool suits_two_levels(const GroupPlan& plan) {
  const int size = plan.axis.size(), per_host = ranks_per_host(plan.hosts);
  if (per_host == 1 || per_host == size || size % per_host != 0) return false;
  if (plan.options.tree_order && (per_host & (per_host - 1)) != 0) return false;
  std::vector<std::string> seen;
  for (int begin = 0; begin < size; begin += per_host) {
    const std::string& host = plan.hosts[begin];
    if (std::find(seen.begin(), seen.end(), host) != seen.end()) return false;
    seen.push_back(host);
    for (int i = 1; i < per_host; ++i) {
      if (plan.hosts[begin + i] != host) return false;
    }
  }
  return true;
}

std::shared_ptr<Backend> make_two_level_backend(const GroupPlan& plan) { return std::make_shared<TwoLevelBackend>(plan); }

}  // namespace weft
