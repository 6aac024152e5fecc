#include "weft/comm/c10d/device_channel.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/engine_store.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/graph/device_graph.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/wait/await.h"

namespace weft {
namespace {

std::string type_name(at::Device device) { return c10::DeviceTypeName(device.type(), /*lower_case=*/true); }

DeviceEngine engine_for(const GroupPlan& plan) {
  if (DeviceEngine engine = device_engine(plan.options.device.type()); engine.connect) return engine;
  throw InputError(
      fmt::format("group \"{}\": this build cannot move tensors of {} between ranks: for NVIDIA's GPUs configure weft with "
                  "-DWEFT_CUDA=ON; for another device call register_device_engine(); or use backend gloo, or shm on one host",
                  plan.axis.name, type_name(plan.options.device)));
}

c10::intrusive_ptr<c10d::Backend> connect_engine(const GroupPlan& plan) {
  const at::Device device = plan.options.device;
  const std::string who = rank_name(plan.axis, plan.axis.index);
  try {
    auto store = c10::make_intrusive<EngineStore>(plan.store.failing_on(nullptr).below(type_name(device)), plan.options.timeout,
                                                  fmt::format("{} connects {}", who, device.str()));
    return engine_for(plan).connect({.store = std::move(store),
                                     .rank = plan.axis.index,
                                     .size = plan.axis.size(),
                                     .device = device,
                                     .timeout = plan.options.timeout,
                                     .name = plan.axis.name,
                                     .ranks = plan.axis.ranks});
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("{} cannot connect {}: {}", who, device.str(), device_error_text(error)));
  }
}

/// Waits until the device has finished `work`, while no DeviceWatch follows it.
void finish_now(c10d::Work& work, const GroupPlan& plan) {
  const RankRow wait = wait_in(kJoin, plan.axis, {});
  const RankTable& table = *plan.store.table();
  work.wait();
  while (!work.isCompleted()) {
    if (table.any_gone(plan.axis.ranks)) {
      const RankTable::Report report = table.report(wait, 0.0, kToFinishCall);
      if (report.evident() && !work.isCompleted()) throw_failure(report.culprit, report.text);
    }
    if (plan.deadline.passed()) {
      throw std::runtime_error(
          fmt::format("not finished after {:.1f} s", static_cast<double>(plan.deadline.timeout().count()) / 1e3));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (const std::exception_ptr error = work.exception()) std::rethrow_exception(error);
}

}  // namespace

std::shared_ptr<DeviceChannel> DeviceChannel::join(const GroupPlan& plan) {
  if (const DeviceEngine engine = engine_for(plan); engine.check) engine.check(plan.axis.name, plan.options.device);
  std::weak_ptr<DeviceChannel>& known =
      plan.channels->by_ranks[fmt::format("{} {}", plan.options.device.str(), fmt::join(plan.axis.ranks, " "))];
  // Ranks may have dropped it at different times, so they agree.
  std::shared_ptr<DeviceChannel> shared = known.lock();
  const std::string own = shared && !shared->aborted_ ? shared->id_ : "";
  const std::vector<std::string> ids = gather_all(plan.store, "channel", own, plan.deadline, wait_in(kJoin, plan.axis, {}));
  const bool is_common = std::all_of(ids.begin(), ids.end(), [&](const std::string& id) { return !id.empty() && id == own; });
  if (is_common) {
    shared->warm_up(plan);  // it may have passed no messages
  } else {
    known = shared = std::make_shared<DeviceChannel>(plan);
  }
  return shared;
}

DeviceChannel::DeviceChannel(const GroupPlan& plan)
    : axis_(plan.axis),
      device_(plan.options.device),
      timeout_(plan.options.timeout),
      id_(plan.store.prefix()),
      records_(std::make_shared<GlooBackend>(plan)) {
  const c10::DeviceGuard current(device_);
  engine_ = connect_engine(plan);
  kind_ = engine_->getBackendName();
  warm_up(plan);
  records_->on_failure([this] { abort(); });
  messages_ = std::make_unique<MessageChecks>(*records_);
  watch_ = std::make_unique<DeviceWatch>(DeviceWatch::Options{
      .axis = axis_,
      .table = plan.store.table(),
      .engine = engine_,
      .device = device_,
      .timeout = timeout_,
      .probes = !on_one_host(plan.hosts),
      .closed_peer = [records = records_] { return records->closed_peer(); },
      .on_failure = [records = records_](const GroupFailure& failure) { records->fail(failure.culprit, failure.text); }});
}

// Peers that find this rank gone while it still has calls in flight get an error; so it finishes them, then leaves.
DeviceChannel::~DeviceChannel() {
  const Deadline deadline = timeout_;
  const bool is_done = std::uncaught_exceptions() == 0 && records_->finish_calls(deadline) && messages_->finish(deadline) &&
                       watch_->finish(deadline);
  if (!is_done) {
    records_->end_calls();
    abort();
  }
  watch_.reset();
  messages_.reset();
  records_.reset();
  if (aborting_.joinable()) aborting_.join();
  if (aborted_) return;
  try {
    engine_->shutdown();
  } catch (const std::exception&) {  // it has nothing in flight
  }
}

/// Makes the connections: of all ranks in a collective, of all pairs where sums take the tree's order, and of neighbours in
/// messages in both directions around the ring.
void DeviceChannel::warm_up(const GroupPlan& plan) {
  const auto zeros = [this](int64_t numel) { return at::zeros({numel}, at::TensorOptions(at::kFloat).device(device_)); };
  const int size = axis_.size(), next = (axis_.index + 1) % size, last = (axis_.index + size - 1) % size;
  std::vector<at::Tensor> sum{zeros(1)};
  at::Tensor parts = zeros(size), exchanged = zeros(size);
  std::vector<int64_t> even;
  try {
    finish_now(*start_call([&] { return engine_->allreduce(sum, {}); }, device_call_mutex()), plan);
    if (plan.options.tree_order) {
      finish_now(*start_call([&] { return engine_->alltoall_base(exchanged, parts, even, even, {}); }, device_call_mutex()),
                 plan);
    }
    if (!plan.options.passes_messages) return;
    pass_on(next, last, plan);
    if (size > 2) pass_on(last, next, plan);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(fmt::format("{} cannot use its connections on {}: {}", rank_name(axis_, axis_.index), device_.str(),
                                device_error_text(error)));
  }
}

/// A message from each rank to the position `to`, and from `from` to it. One queue per rank: every second rank receives first.
void DeviceChannel::pass_on(int to, int from, const GroupPlan& plan) {
  std::vector<at::Tensor> outgoing{at::zeros({1}, at::TensorOptions(at::kFloat).device(device_))};
  std::vector<at::Tensor> incoming{at::zeros_like(outgoing[0])};
  c10::intrusive_ptr<c10d::Work> sent, received;
  for (const bool sends : {axis_.index % 2 == 0, axis_.index % 2 != 0}) {
    if (sends) {
      sent = start_call([&] { return engine_->send(outgoing, to, 0); }, device_call_mutex());
    } else {
      received = start_call([&] { return engine_->recv(incoming, from, 0); }, device_call_mutex());
    }
  }
  finish_now(*sent, plan);
  finish_now(*received, plan);
}

std::shared_ptr<DeviceCall> DeviceChannel::follow(const Call& call, const c10::intrusive_ptr<c10d::Work>& work) {
  auto followed = std::make_shared<DeviceCall>(call, device_, work);
  if (!is_captured(device_)) watch_->add(followed);
  return followed;
}

void DeviceChannel::follow_stream(const Call& call) {
  auto followed = std::make_shared<DeviceCall>(call, device_, c10::intrusive_ptr<c10d::Work>());
  followed->mark_wait();
  watch_->add(std::move(followed));
}

void DeviceChannel::report(const Call& call, const std::exception& error) {
  throw_if_failed();
  const GroupFailure failure = watch_->explain(call, device_error_text(error));
  records_->fail(failure.culprit, failure.text);
  throw_if_failed();
  throw CommError(failure.text);
}

void DeviceChannel::explain(const std::exception& error, std::string_view what) {
  throw_if_failed();
  const GroupFailure failure = watch_->explain({.operation = Operation::barrier, .what = what}, device_error_text(error));
  if (failure.culprit < 0) return;
  records_->fail(failure.culprit, failure.text);
  throw_if_failed();
}

void DeviceChannel::abort() {
  if (aborted_.exchange(true)) return;
  aborting_ = std::thread([engine = engine_] {
    try {
      engine->abort();
    } catch (const std::exception&) {  // the group's own error says more
    }
  });
}

}  // namespace weft
