#include "weft/comm/two_level/two_level_backend.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <utility>

#include "weft/comm/c10d/gloo_backend.h"
#include "weft/comm/shm/host_group.h"
#include "weft/comm/shm/memory_bytes.h"
#include "weft/comm/shm/shm_backend.h"
#include "weft/comm/two_level/host_map.h"
#include "weft/comm/two_level/host_operations.h"
#include "weft/comm/two_level/memory_bytes.h"

namespace weft {
namespace {

/// Options of the group of a host's ranks that carries no messages.
GroupOptions without_messages(GroupOptions options) {
  options.message_bytes = 4096;
  return options;
}

/// The plan's ranks on this host, as a separate group for `purpose`.
GroupPlan on_this_host(const GroupPlan& plan, const HostMap& map, const std::string& purpose) {
  const int own = map.host_of(plan.axis.index);
  GroupPlan part{{plan.axis.name, {}, map.place_of(plan.axis.index)},
                 {},
                 plan.store.below(fmt::format("{}/{}", purpose, own)),
                 plan.options,
                 plan.deadline};
  for (const int position : map.members(own)) {
    part.axis.ranks.push_back(plan.axis.ranks[position]);
    part.hosts.push_back(plan.hosts[position]);
  }
  return part;
}

class HostBackend : public GlooBackend {
 public:
  HostBackend(const GroupPlan& plan, const HostMap& map, const std::shared_ptr<shm::HostGroup>& inside,
              std::shared_ptr<Backend> messages)
      : GlooBackend(plan,
                    [&](const c10::intrusive_ptr<GlooEngine>& engine) {
                      return std::make_unique<HostOperations>(engine, plan, map, inside);
                    }),
        map_(map),
        inside_(inside),
        messages_(std::move(messages)) {}

  std::string_view kind() const override { return inside_ ? "shm+gloo" : "gloo"; }
  int64_t memory_bytes() const override { return inside_ ? inside_->backend().memory_bytes() + messages_->memory_bytes() : 0; }
  void end_calls() override {
    GlooBackend::end_calls();
    if (!inside_) return;
    inside_->backend().end_calls();
    messages_->end_calls();
  }
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override {
    return is_near(peer) ? messages_->send(tensor, map_.place_of(peer), what) : GlooBackend::send(tensor, peer, what);
  }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    return is_near(peer) ? messages_->receive(tensor, map_.place_of(peer), what) : GlooBackend::receive(tensor, peer, what);
  }
  // After the comparison no other call is in flight that could interfere with the host's ranks.
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    compare({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what}).wait();
    if (inside_) return inside_->backend().allocate(numel, dtype, what);
    return at::zeros({numel}, at::TensorOptions(dtype));
  }

 private:
  bool is_near(int peer) const { return map_.host_of(peer) == map_.host_of(rank()); }

  HostMap map_;
  std::shared_ptr<shm::HostGroup> inside_;  ///< used by the group's thread and allocate()
  std::shared_ptr<Backend> messages_;       ///< between this host's ranks, used by the caller's thread
};

}  // namespace

int64_t two_level_memory_bytes(int ranks, const GroupOptions& options) {
  return shm_memory_bytes(ranks, without_messages(options)) + shm_memory_bytes(ranks, options);
}

std::shared_ptr<Backend> make_host_backend(const GroupPlan& plan) {
  const HostMap map(plan.hosts);
  std::shared_ptr<shm::HostGroup> inside;
  std::shared_ptr<Backend> messages;
  if (map.members(map.host_of(plan.axis.index)).size() > 1) {
    GroupPlan collectives = on_this_host(plan, map, "inside");
    collectives.options = without_messages(plan.options);
    inside = shm::make_host_group(collectives);
    messages = make_shm_backend(on_this_host(plan, map, "messages"));
  }
  return std::make_shared<HostBackend>(plan, map, inside, std::move(messages));
}

}  // namespace weft
