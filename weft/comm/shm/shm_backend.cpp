// The shm back end: joins the ranks of one host in one block of shared memory and passes calls to its components. Every call
// completes before it returns, except a send whose data did not fit its ring and a receive whose data has not arrived.
#include "weft/comm/shm/shm_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <new>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/comm/call/backend.h"
#include "weft/comm/shm/buffers.h"
#include "weft/comm/shm/channels.h"
#include "weft/comm/shm/collectives.h"
#include "weft/comm/shm/host_group.h"
#include "weft/comm/shm/memory_bytes.h"
#include "weft/comm/store/store_errors.h"
#include "weft/comm/wait/await.h"
#include "weft/comm/wait/rank_table.h"

namespace weft {
namespace shm {
namespace {

constexpr size_t kPage = 4096;
/// A dying rank releases its memory before its process ends.
constexpr std::chrono::milliseconds kEvidence{500};

size_t whole_pages(size_t bytes) { return round_up(bytes, kPage); }

// Layout of the group's memory. Untouched parts cost nothing.
struct Plan {
  Plan(int ranks, int64_t message_bytes)
      : area_bytes(ranks <= 4 ? 256 << 10 : 128 << 10),
        ring_bytes(whole_pages(static_cast<size_t>(ranks <= 16 ? message_bytes : message_bytes / 16))),
        staging(whole_pages(sizeof(Control))),
        rings(staging + whole_pages(Staging::total_bytes(ranks, area_bytes))),
        total(rings + RingMemory::total_bytes(ranks, ring_bytes)) {}
  size_t area_bytes;
  size_t ring_bytes;
  size_t staging;
  size_t rings;
  size_t total;
};

struct Joined {
  std::shared_ptr<Mapping> memory;
  FileDescriptor file;  ///< the first rank's, until all have opened it
};

Joined open_memory(const GroupPlan& group, const Plan& plan) {
  Store store = group.store;
  const std::string& name = group.axis.name;
  if (group.axis.index == 0) {
    FileDescriptor file = create_memory(name, plan.total);
    auto memory = std::make_shared<Mapping>(file, plan.total);
    new (memory->data()) Control;
    store.set("memory", memory_address(file));
    return {std::move(memory), std::move(file)};
  }
  const std::string address = await_key(store, "memory", group.deadline, wait_in(kJoin, group.axis, {0}));
  try {
    const FileDescriptor file = open_peer_memory(address);
    return {std::make_shared<Mapping>(file, plan.total), FileDescriptor()};
  } catch (const CommError& error) {
    store.throw_if_failed();  // why rank 0 has left
    const RankTable::Report report = store.table()->report(wait_in(kJoin, group.axis, {0}), 0.0, kEvidence);
    if (report.evident()) throw_failure(report.culprit, report.text);
    throw CommError(
        fmt::format("{} cannot join {}: {}", rank_name(group.axis, group.axis.index), rank_name(group.axis, 0), error.what()));
  }
}

class ShmBackend : public Backend, public HostGroup {
 public:
  ShmBackend(const GroupPlan& group, const Plan& plan, std::shared_ptr<Mapping> memory)
      : Backend(group.axis),
        memory_(std::move(memory)),
        memory_bytes_(static_cast<int64_t>(plan.total) / group.axis.size()),
        members_(*reinterpret_cast<Control*>(memory_->data()), group.axis, group.store.table(), group.options.timeout),
        barrier_(members_),
        buffers_(members_, barrier_, memory_),
        collectives_(members_, barrier_, buffers_, {memory_->data() + plan.staging, plan.area_bytes}),
        channels_(members_, {memory_->data() + plan.rings, plan.ring_bytes}) {}

  ~ShmBackend() override { members_.leave(); }

  Members& members() { return members_; }

  std::string_view kind() const override { return "shm"; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  void end_calls() override { members_.leave(); }

  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    collectives_.all_reduce(call(Operation::all_reduce, tensor, what, op), tensor);
    return {};
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    collectives_.reduce_scatter(call(Operation::reduce_scatter, input, what, op), output, input);
    return {};
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    collectives_.all_gather(call(Operation::all_gather, output, what), output, input);
    return {};
  }
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    collectives_.all_to_all(call(Operation::all_to_all, input, what), output, input);
    return {};
  }
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    collectives_.broadcast(call(Operation::broadcast, tensor, what, ReduceOp::sum, root), tensor);
    return {};
  }
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override {
    return channels_.send(call(Operation::send, tensor, what, ReduceOp::sum, peer), tensor);
  }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    return channels_.receive(call(Operation::receive, tensor, what, ReduceOp::sum, peer), tensor);
  }
  Work barrier(std::string_view what) override {
    collectives_.barrier({.operation = Operation::barrier, .what = what});
    return {};
  }
  void reduce_ranges(const Call& call, const at::Tensor& input, const std::vector<Ranges>& wanted,
                     const Consume& consume) override {
    collectives_.reduce_ranges(call, input, wanted, consume);
  }
  void gather_ranges(const Call& call, const at::Tensor& tensor, const std::vector<Ranges>& held) override {
    collectives_.gather_ranges(call, tensor, held);
  }
  Backend& backend() override { return *this; }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    return buffers_.allocate({.operation = Operation::allocate, .dtype = dtype, .numel = numel, .what = what});
  }

 private:
  Call call(Operation operation, const at::Tensor& tensor, std::string_view what, ReduceOp op = ReduceOp::sum,
            int root = -1) const {
    if (!tensor.is_cpu()) {
      throw InputError(fmt::format("{} \"{}\" on group \"{}\": shm needs a CPU tensor, but this one is on {}",
                                   operation_name(operation), what, name(), tensor.device().str()));
    }
    return call_on(operation, tensor, what, op, root);
  }

  std::shared_ptr<Mapping> memory_;
  int64_t memory_bytes_;
  Members members_;
  Barrier barrier_;
  Buffers buffers_;
  Collectives collectives_;
  Channels channels_;
};

}  // namespace
}  // namespace shm

int64_t shm_memory_bytes(int ranks, const GroupOptions& options) {
  return ranks < 2 ? 0 : static_cast<int64_t>(shm::Plan(ranks, options.message_bytes).total) / ranks;
}

namespace shm {
namespace {

std::shared_ptr<ShmBackend> join(const GroupPlan& group) {
  const int size = group.axis.size();
  if (size > kMaxRanks) {
    throw InputError(fmt::format("group \"{}\" has {} ranks; shm takes at most {}", group.axis.name, size, kMaxRanks));
  }
  const Plan plan(size, group.options.message_bytes);
  Joined joined = open_memory(group, plan);
  auto backend = std::make_shared<ShmBackend>(group, plan, joined.memory);
  await_all(group.store, "joined", group.deadline, wait_in(kJoin, group.axis, {}));
  backend->members().watch_peers();
  return backend;
}

}  // namespace

std::shared_ptr<HostGroup> make_host_group(const GroupPlan& plan) { return join(plan); }

}  // namespace shm

std::shared_ptr<Backend> make_shm_backend(const GroupPlan& plan) { return shm::join(plan); }

}  // namespace weft
