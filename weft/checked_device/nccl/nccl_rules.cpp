#include "weft/checked_device/nccl/nccl_rules.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "weft/checked_device/checked_device.h"
#include "weft/checked_device/memory.h"
#include "weft/checked_device/nccl/communicator.h"
#include "weft/checked_device/nccl/nccl_work.h"
#include "weft/checked_device/nccl/watchdog.h"
#include "weft/checked_device/recorder.h"

namespace weft::checked_device {

namespace {

using Tensors = std::vector<at::Tensor>;
using Pending = c10::intrusive_ptr<c10d::Work>;

void add_reduced(at::Tensor& sum, const at::Tensor& next, c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
      sum.add_(next);
      break;
    case c10d::ReduceOp::PRODUCT:
      sum.mul_(next);
      break;
    case c10d::ReduceOp::MAX:
      at::maximum_out(sum, sum, next);
      break;
    case c10d::ReduceOp::MIN:
      at::minimum_out(sum, sum, next);
      break;
    default:
      TORCH_CHECK(false, "checked device: NCCL has no reduction ", static_cast<int>(op));
  }
}

/// In the order of the ranks.
void reduce_into(const at::Tensor& result, const Tensors& parts, c10d::ReduceOp::RedOpType op) {
  at::Tensor sum = parts.front().clone();
  for (size_t i = 1; i < parts.size(); ++i) add_reduced(sum, parts[i], op);
  if (op == c10d::ReduceOp::AVG) sum.div_(static_cast<int64_t>(parts.size()));
  result.copy_(sum);
}

class NcclRules final : public c10d::Backend {
 public:
  NcclRules(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, c10::Device device, NcclOptions options)
      : Backend(rank, size),
        store_(store),
        device_(device),
        options_(std::move(options)),
        mover_(std::make_shared<Mover>(store, rank, size, options_.starts)) {
    if (options_.ranks.empty()) {
      options_.ranks.resize(static_cast<size_t>(size));
      std::iota(options_.ranks.begin(), options_.ranks.end(), 0);
    }
    std::vector<int> all(static_cast<size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    options_.name += fmt::format(" of ranks {}", fmt::join(options_.ranks, ", "));
    group_ = make_communicator(options_.name, all, 0);
    watchdog_ = std::make_unique<Watchdog>(
        options_.timeout, [this] { return oldest(); }, [this] { abort(); });
  }

  ~NcclRules() override {
    if (shut_down_) return;
    for (Communicator* communicator : communicators()) {
      if (aborted_ || communicator->host_has_waited()) continue;
      violate(communicator->name() +
                  ": destroyed without shutdown() before the host has waited for all calls, which it ends on the peers too",
              /*may_throw=*/false);
    }
    abort();
    shutdown();
  }

  const std::string getBackendName() const override { return "nccl"; }

  void eagerConnectSingleDevice(at::Device) override {
    eager_ = true;
    group_->connect();
  }

  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor x = one(tensors);
    return collective("nccl all_reduce", c10d::OpType::ALLREDUCE, x, -1, options.reduceOp, {}, {x},
                      [this, x = bytes(x), op = options.reduceOp](uint32_t tag) {
                        Tensors parts = made_like(x);
                        gather_parts(parts, x, tag);
                        reduce_into(x, parts, op);
                      });
  }
  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor x = one(tensors);
    const int root = static_cast<int>(options.rootRank);
    const bool sends = root == getRank();
    return collective("nccl broadcast", c10d::OpType::BROADCAST, x, root, {}, sends ? Tensors{x} : Tensors{},
                      sends ? Tensors{} : Tensors{x}, [this, x = bytes(x), root, sends](uint32_t tag) {
                        std::vector<Mover::Message> out, in;
                        if (!sends) in.push_back({root, x});
                        for (int peer = 0; sends && peer < getSize(); ++peer) {
                          if (peer != root) out.push_back({peer, x});
                        }
                        mover_->exchange(out, in, tag);
                      });
  }
  Pending _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) override {
    TORCH_CHECK(output.numel() == input.numel() * getSize(), "checked device: all_gather of ", input.numel(), " elements into ",
                output.numel());
    return collective("nccl all_gather", c10d::OpType::_ALLGATHER_BASE, input, -1, {}, {input}, {output},
                      [this, out = bytes(output), in = bytes(input)](uint32_t tag) {
                        Tensors parts = out.view({-1}).chunk(getSize());
                        if (in.numel() > 0) gather_parts(parts, in, tag);
                      });
  }
  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    TORCH_CHECK(input.numel() == output.numel() * getSize(), "checked device: reduce_scatter of ", input.numel(),
                " elements into ", output.numel());
    return collective("nccl reduce_scatter", c10d::OpType::_REDUCE_SCATTER_BASE, output, -1, options.reduceOp, {input},
                      {output}, [this, out = bytes(output), in = bytes(input), op = options.reduceOp](uint32_t tag) {
                        if (out.numel() == 0) return;
                        Tensors parts = made_like(out.view({-1}));
                        scatter_parts(parts, in.view({-1}).chunk(getSize()), tag);
                        reduce_into(out.view({-1}), parts, op);
                      });
  }
  Pending alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_counts,
                        std::vector<int64_t>& input_counts, const c10d::AllToAllOptions&) override {
    const auto rows = [this](const at::Tensor& tensor, std::vector<int64_t> counts) {
      if (counts.empty()) counts.assign(static_cast<size_t>(getSize()), tensor.size(0) / getSize());
      return bytes(tensor).split_with_sizes(counts, 0);
    };
    return collective("nccl all_to_all", c10d::OpType::ALLTOALL_BASE, at::Tensor(), -1, {}, {input}, {output},
                      [this, out = rows(output, output_counts), in = rows(input, input_counts)](uint32_t tag) {
                        Tensors parts = out;
                        scatter_parts(parts, in, tag);
                      });
  }
  Pending barrier(const c10d::BarrierOptions&) override {
    Tensors flag{at::zeros({1}, at::TensorOptions().device(device_))};
    Pending work = allreduce(flag, {});
    work->wait();
    flag[0].item();  // the host waits
    return work;
  }

  Pending send(Tensors& tensors, int peer, int) override { return message(one(tensors), peer, true); }
  Pending recv(Tensors& tensors, int peer, int) override { return message(one(tensors), peer, false); }

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { coalesced_.emplace(); }
  Pending endCoalescing() override {
    TORCH_CHECK(coalesced_.has_value(), "checked device: endCoalescing() without startCoalescing()");
    Launch launch = std::move(*coalesced_);
    coalesced_.reset();
    if (launch.sends.empty() && launch.receives.empty()) return nullptr;
    return start(*group_, c10d::OpType::COALESCED, std::move(launch));
  }

  /// As NCCL's, returns when no graph holds calls of it.
  void abort() override {
    aborted_ = true;
    mover_->abort();
    while (in_graphs_.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void shutdown() override {
    if (std::exchange(shut_down_, true)) return;
    for (Communicator* communicator : communicators()) communicator->stop();  // once all calls have ended
    watchdog_->stop();
    abort();
  }

 private:
  std::unique_ptr<Communicator> make_communicator(const std::string& name, const std::vector<int>& ranks, uint32_t number) {
    return std::make_unique<Communicator>(name, mover_, store_, ranks, getRank(), options_.ranks, device_, number,
                                          options_.timeout);
  }

  std::vector<Communicator*> communicators() {
    const std::lock_guard lock(pairs_mutex_);
    std::vector<Communicator*> all{group_.get()};
    for (const auto& [peer, pair] : pairs_) all.push_back(pair.get());
    return all;
  }

  std::optional<Launched> oldest() {
    std::optional<Launched> first;
    for (Communicator* communicator : communicators()) {
      const std::optional<Launched> next = communicator->oldest();
      if (next.has_value() && (!first.has_value() || next->begin < first->begin)) first = next;
    }
    return first;
  }

  Communicator& pair(int peer) {
    const std::lock_guard lock(pairs_mutex_);
    std::unique_ptr<Communicator>& made = pairs_[peer];
    if (made == nullptr) {
      const int low = std::min(peer, getRank()), high = std::max(peer, getRank());
      made = make_communicator(fmt::format("{}, pair {}-{}", options_.name, low, high), {low, high},
                               static_cast<uint32_t>(1 + low * getSize() + high));
    }
    return *made;
  }

  at::Tensor one(const Tensors& tensors) {
    TORCH_CHECK(tensors.size() == 1, "checked device: a call is given ", tensors.size(), " tensors; NCCL takes 1");
    return tensors.front();
  }
  void check(const at::Tensor& tensor) const {
    TORCH_CHECK(tensor.device() == device_, "checked device: group ", options_.name, " is of ", device_,
                ", but a tensor is on ", tensor.device());
    TORCH_CHECK(tensor.is_contiguous(tensor.suggest_memory_format()), "checked device: a tensor of NCCL must be contiguous");
  }
  /// The same bytes on the CPU, in the order of memory.
  static at::Tensor bytes(const at::Tensor& tensor) {
    const at::Tensor cpu = on_cpu(tensor);
    return cpu.is_contiguous() ? cpu : cpu.as_strided({cpu.numel()}, {1}, cpu.storage_offset());
  }
  Tensors made_like(const at::Tensor& part) const {
    Tensors parts;
    for (int i = 0; i < getSize(); ++i) parts.push_back(at::empty_like(part));
    return parts;
  }
  void gather_parts(Tensors& parts, const at::Tensor& own, uint32_t tag) {
    scatter_parts(parts, Tensors(static_cast<size_t>(getSize()), own), tag);
  }
  /// own[i] to rank i, and from rank i to parts[i].
  void scatter_parts(Tensors& parts, const Tensors& own, uint32_t tag) {
    std::vector<Mover::Message> sends, receives;
    for (int peer = 0; peer < getSize(); ++peer) {
      const auto i = static_cast<size_t>(peer);
      if (peer == getRank()) {
        parts[i].view({-1}).copy_(own[i].reshape({-1}));
      } else {
        sends.push_back({peer, own[i]});
        receives.push_back({peer, parts[i]});
      }
    }
    mover_->exchange(sends, receives, tag);
  }

  Pending collective(const char* what, c10d::OpType operation, const at::Tensor& shape, int root,
                     std::optional<c10d::ReduceOp> reduction, Tensors reads, Tensors writes,
                     std::function<void(uint32_t)> move) {
    TORCH_CHECK(!coalesced_.has_value(), "checked device: only messages can be coalesced, not ", what);
    Launch launch;
    launch.what = what;
    launch.shape = {
        .operation = static_cast<int64_t>(operation),
        .dtype = static_cast<int64_t>(reads.empty() ? writes[0].scalar_type() : reads[0].scalar_type()),
        .numel = shape.defined() ? shape.numel() : 0,
        .root = root,
        .reduction = reduction.has_value() ? static_cast<int64_t>(static_cast<c10d::ReduceOp::RedOpType>(*reduction)) : -1};
    launch.reads = std::move(reads);
    launch.writes = std::move(writes);
    launch.move = std::move(move);
    return start(*group_, operation, std::move(launch));
  }

  Pending message(const at::Tensor& tensor, int peer, bool sends) {
    TORCH_CHECK(peer >= 0 && peer < getSize() && peer != getRank(), "checked device: a message of rank ", getRank(),
                " with rank ", peer);
    Launch single;
    Launch& launch = coalesced_.has_value() ? *coalesced_ : single;
    launch.what = coalesced_.has_value() ? "nccl messages" : sends ? "nccl send" : "nccl receive";
    (sends ? launch.sends : launch.receives).push_back({peer, tensor});
    (sends ? launch.reads : launch.writes).push_back(tensor);
    if (coalesced_.has_value()) return nullptr;
    return start(eager_ ? *group_ : pair(peer), sends ? c10d::OpType::SEND : c10d::OpType::RECV, std::move(single));
  }

  Pending start(Communicator& communicator, c10d::OpType operation, Launch launch) {
    TORCH_CHECK(!aborted_, "NCCL communicator was aborted on rank ", getRank());
    const std::string error = communicator.error();
    TORCH_CHECK(error.empty(), error);
    Tensors kept = launch.reads;
    kept.insert(kept.end(), launch.writes.begin(), launch.writes.end());
    for (const at::Tensor& tensor : kept) check(tensor);
    if (!launch.move) {
      const auto on_host = [](std::vector<Mover::Message> messages) {
        for (Mover::Message& message : messages) message.tensor = bytes(message.tensor);
        return messages;
      };
      launch.move = [mover = mover_, out = on_host(launch.sends), in = on_host(launch.receives)](uint32_t tag) {
        mover->exchange(out, in, tag);
      };
    }
    if (operation == c10d::OpType::SEND || operation == c10d::OpType::RECV || operation == c10d::OpType::COALESCED) {
      const std::lock_guard lock(order_mutex());
      for (const at::Tensor& tensor : kept) allocation_of(tensor).recorded.push_back(actor_of(communicator.stream()));
    }
    const auto launched = std::make_shared<Launched>(communicator.launch(launch));
    Recorder* recorder = records() ? recorder_on(device_.index()) : nullptr;
    if (recorder != nullptr) {
      const std::lock_guard lock(order_mutex());
      std::string text = launch.what;
      for (const at::Tensor& tensor : kept) text += " " + recorder->text_of(tensor);
      recorder->add(std::move(text), [&communicator, launch, launched, held = in_graphs_] {
        TORCH_CHECK(communicator.error().empty(), communicator.error());
        *launched = communicator.launch(launch);
      });
      recorder->note_wait(actor_of(communicator.stream()), /*earlier_is_recorded=*/true);
    }
    return make_nccl_work(getRank(), operation, launched, communicator.stream(), std::move(kept),
                          recorder != nullptr && recorder->is_graph());
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::Device device_;
  NcclOptions options_;
  const std::shared_ptr<Mover> mover_;
  std::mutex pairs_mutex_;
  std::unique_ptr<Communicator> group_;
  std::map<int, std::unique_ptr<Communicator>> pairs_;
  std::optional<Launch> coalesced_;
  bool eager_ = false;
  std::atomic<bool> aborted_ = false;
  const std::shared_ptr<int> in_graphs_ = std::make_shared<int>();  ///< held by each recorded call
  bool shut_down_ = false;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_nccl_rules(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  c10::Device device, const NcclOptions& options) {
  TORCH_CHECK(device.type() == kDevice && device.has_index(), "checked device: NCCL's rules are for its own tensors, not for ",
              device);
  return c10::make_intrusive<NcclRules>(store, rank, size, device, options);
}

}  // namespace weft::checked_device
