#include "weft/comm/c10d/device_channel.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/engine_store.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/wait/await.h"

namespace weft {
namespace {

std::string type_name(at::Device device) { return c10::DeviceTypeName(device.type(), /*lower_case=*/true); }

DeviceEngineFactory engine_for(const GroupPlan& plan) {
  if (DeviceEngineFactory factory = device_engine(plan.options.device.type())) return factory;
  throw InputError(
      fmt::format("group \"{}\": this build cannot move tensors of {} between ranks: for NVIDIA's GPUs configure weft with "
                  "-DWEFT_CUDA=ON; for another device call register_device_engine()",
                  plan.axis.name, type_name(plan.options.device)));
}

c10::intrusive_ptr<c10d::Backend> connect_engine(const GroupPlan& plan) {
  const at::Device device = plan.options.device;
  const std::string who = rank_name(plan.axis, plan.axis.index);
  try {
    auto store = c10::make_intrusive<EngineStore>(plan.store.failing_on(nullptr).below(type_name(device)), plan.options.timeout,
                                                  fmt::format("{} connects {}", who, device.str()));
    return engine_for(plan)({.store = std::move(store),
                             .rank = plan.axis.index,
                             .size = plan.axis.size(),
                             .device = device,
                             .timeout = plan.options.timeout,
                             .name = plan.axis.name,
                             .ranks = plan.axis.ranks});
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("{} cannot connect {}: {}", who, device.str(), error.what_without_backtrace()));
  }
}

/// Waits until the device has finished `work`.
void finish_now(c10d::Work& work, const Deadline& deadline) {
  work.wait();
  while (!work.isCompleted()) {
    if (deadline.passed()) {
      throw CommError(fmt::format("not finished after {:.1f} s", static_cast<double>(deadline.timeout().count()) / 1e3));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::shared_ptr<DeviceChannel> DeviceChannel::join(const GroupPlan& plan) {
  engine_for(plan);  // throws before ranks meet
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
      .closed_peer = [records = records_] { return records->closed_peer(); },
      .on_failure = [records = records_](const DeviceFailure& failure) { records->fail(failure.culprit, failure.text); }});
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
  if (aborted_) return;
  try {
    engine_->shutdown();
  } catch (const std::exception&) {  // it has nothing in flight
  }
}

/// Makes the connections: of all ranks in a collective, and of neighbours in messages around the ring.
void DeviceChannel::warm_up(const GroupPlan& plan) {
  std::vector<at::Tensor> sum{at::zeros({1}, at::TensorOptions(at::kFloat).device(device_))};
  std::vector<at::Tensor> to_next{at::zeros({1}, sum[0].options())}, from_last{at::zeros({1}, sum[0].options())};
  try {
    finish_now(*start_call([&] { return engine_->allreduce(sum, {}); }, device_call_mutex()), plan.deadline);
    if (!plan.options.passes_messages) return;
    const int size = axis_.size(), next = (axis_.index + 1) % size, last = (axis_.index + size - 1) % size;
    // One queue per rank: every second rank receives first.
    c10::intrusive_ptr<c10d::Work> sent, received;
    for (const bool sends : {axis_.index % 2 == 0, axis_.index % 2 != 0}) {
      if (sends) {
        sent = start_call([&] { return engine_->send(to_next, next, 0); }, device_call_mutex());
      } else {
        received = start_call([&] { return engine_->recv(from_last, last, 0); }, device_call_mutex());
      }
    }
    finish_now(*sent, plan.deadline);
    finish_now(*received, plan.deadline);
  } catch (const std::exception& error) {
    throw CommError(fmt::format("{} cannot use its connections on {}: {}", rank_name(axis_, axis_.index), device_.str(),
                                first_line_of(error.what())));
  }
}

std::shared_ptr<DeviceCall> DeviceChannel::follow(const Call& call, const c10::intrusive_ptr<c10d::Work>& work) {
  auto followed = std::make_shared<DeviceCall>(call, device_, work);
  watch_->add(followed);
  return followed;
}

void DeviceChannel::report(const Call& call, const std::exception& error) {
  throw_if_failed();
  const auto* thrown = dynamic_cast<const c10::Error*>(&error);
  const DeviceFailure failure = watch_->explain(call, first_line_of(thrown ? thrown->what_without_backtrace() : error.what()));
  records_->fail(failure.culprit, failure.text);
  throw_if_failed();
  throw CommError(failure.text);
}

void DeviceChannel::abort() {
  if (aborted_.exchange(true)) return;
  try {
    engine_->abort();
  } catch (const std::exception&) {  // the group's own error says more
  }
}

}  // namespace weft
