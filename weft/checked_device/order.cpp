#include "weft/checked_device/order.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "weft/checked_device/checked_device.h"

namespace weft::checked_device {

namespace {

struct Actor {
  Clock clock;
  std::string name;
};

struct Order {
  std::recursive_mutex mutex;
  std::vector<Actor> actors{{{}, "the host"}};
  std::map<std::pair<int, c10::StreamId>, int> streams;
  std::vector<std::string> violations;
  bool throws = true;
  uint64_t launches = 0;
  std::atomic<c10::StreamId> next_stream{1};
  std::map<std::string, Counts> counts;
  std::map<std::string, uint64_t> launches_by;
  std::map<std::string, uint64_t> synchronisations;
  void (*after_host_waits)() = nullptr;
  std::map<std::pair<Ordering, int>, uint64_t> orderings;
  std::pair<Ordering, int> dropped_of{};
  uint64_t first_dropped = 0, dropped = 0;  ///< numbers of those
};

Order& order() {
  static Order& order = *new Order;  // used until the process ends
  return order;
}

constexpr int kMostDevices = 64;

thread_local int device_now = 0;
thread_local c10::StreamId stream_now[kMostDevices] = {};
thread_local std::string label_now;
thread_local int own_device_now = -1;
thread_local const char* operator_now = "";
thread_local bool counted_now = true;

}  // namespace

std::recursive_mutex& order_mutex() { return order().mutex; }

int actor_of(const c10::Stream& stream) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  const auto [at, is_new] = o.streams.try_emplace({stream.device_index(), stream.id()}, static_cast<int>(o.actors.size()));
  if (is_new) {
    const std::string name = stream.id() == 0 ? "the default stream" : "stream " + std::to_string(stream.id());
    o.actors.push_back({{}, name + " of device " + std::to_string(stream.device_index())});
  }
  return at->second;
}

std::string actor_name(int actor) { return order().actors.at(static_cast<size_t>(actor)).name; }
const Clock& clock_of(int actor) { return order().actors.at(static_cast<size_t>(actor)).clock; }

Clock clock_now(int actor) {
  const std::lock_guard lock(order().mutex);
  return clock_of(actor);
}

Clock clock_of_device(int device) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  Clock all;
  for (const auto& [stream, actor] : o.streams) {
    if (stream.first == device) all.join(o.actors[static_cast<size_t>(actor)].clock);
  }
  return all;
}

Access begin_launch(int actor, const char* what) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  Clock& clock = o.actors.at(static_cast<size_t>(actor)).clock;
  clock.join(o.actors[kHost].clock);
  if (counted_now) {
    ++o.counts[label_now].launches;
    ++o.launches_by[what];
  }
  return {actor, clock.tick(static_cast<size_t>(actor)), what, ++o.launches};
}

void join(int later, const Clock& earlier) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  o.actors.at(static_cast<size_t>(later)).clock.join(earlier);
}

namespace {

/// Whether the current device has been given nothing after `clock`.
bool is_idle_after(const Clock& clock, const Order& o) {
  return std::all_of(o.streams.begin(), o.streams.end(), [&](const auto& stream) {
    const auto actor = static_cast<size_t>(stream.second);
    return stream.first.first != device_now || o.actors[actor].clock.of(actor) <= clock.of(actor);
  });
}

}  // namespace

void join_host(const Clock& clock, const char* what) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  ++o.counts[label_now].synchronisations;
  if (is_idle_after(clock, o)) ++o.counts[label_now].stalls;
  ++o.synchronisations[label_now.empty() ? what : std::string(what) + " in " + label_now];
  o.actors[kHost].clock.join(clock);
  if (o.after_host_waits != nullptr) o.after_host_waits();
}

void set_after_host_waits(void (*action)()) { order().after_host_waits = action; }

std::string text(const Access& access) {
  const std::lock_guard lock(order().mutex);
  return std::string(access.what) + " (launch " + std::to_string(access.launch) + " on " + actor_name(access.actor) + ")";
}

void violate(const std::string& text, bool may_throw) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  const std::string all = label_now.empty() ? text : text + "; in " + label_now;
  o.violations.push_back(all);
  if (may_throw && o.throws) TORCH_CHECK(false, "checked device: ", all);
}

int current_device() { return device_now; }

void set_current_device(int device) {
  TORCH_CHECK(device >= 0 && device < num_devices(), "checked device: there is no device ", device, " of ", num_devices());
  device_now = device;
}

void switch_device(int device) {
  if (device != device_now) {
    const std::lock_guard lock(order().mutex);
    if (is_dropped(Ordering::set_device, device)) return;
  }
  set_current_device(device);
}

c10::Stream current_stream(int device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, static_cast<c10::DeviceIndex>(device)), stream_now[device]);
}

c10::Stream exchange_stream(const c10::Stream& stream) {
  const c10::Stream before = current_stream(stream.device_index());
  stream_now[stream.device_index()] = stream.id();
  return before;
}

c10::Stream new_stream(int device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, static_cast<c10::DeviceIndex>(device)), order().next_stream++);
}

bool is_dropped(Ordering kind, int device) {
  Order& o = order();
  const uint64_t number = o.orderings[{kind, device}]++;
  return o.dropped_of == std::pair(kind, device) && number >= o.first_dropped && number - o.first_dropped < o.dropped;
}

uint64_t orderings(Ordering kind, int device) {
  const std::lock_guard lock(order().mutex);
  return order().orderings[{kind, device}];
}

void drop_orderings(Ordering kind, int device, uint64_t first, uint64_t count) {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  o.dropped_of = {kind, device};
  o.first_dropped = o.orderings[{kind, device}] + first;
  o.dropped = count;
}

const std::string& label() { return label_now; }
int own_device() { return own_device_now; }
const char* running_operator() { return operator_now; }
RunningOperator::RunningOperator(const char* name) : outer_(std::exchange(operator_now, name)) {}
RunningOperator::~RunningOperator() { operator_now = outer_; }
Counts& counts_here() {
  static Counts& uncounted = *new Counts;
  return counted_now ? order().counts[label_now] : uncounted;
}
bool exchange_counted(bool counted) { return std::exchange(counted_now, counted); }

std::vector<std::string> take_violations() {
  Order& o = order();
  const std::lock_guard lock(o.mutex);
  return std::exchange(o.violations, {});
}

void set_throws(bool throws) {
  const std::lock_guard lock(order().mutex);
  order().throws = throws;
}

std::map<std::string, Counts> counts() {
  const std::lock_guard lock(order().mutex);
  return order().counts;
}

void reset_counts() {
  const std::lock_guard lock(order().mutex);
  order().counts.clear();
  order().launches_by.clear();
  order().synchronisations.clear();
}

std::map<std::string, uint64_t> launches() {
  const std::lock_guard lock(order().mutex);
  return order().launches_by;
}

std::map<std::string, uint64_t> synchronisations() {
  const std::lock_guard lock(order().mutex);
  return order().synchronisations;
}

Label::Label(std::string name) : outer_(std::exchange(label_now, std::move(name))) {}
Label::~Label() { label_now = std::move(outer_); }

OwnDevice::OwnDevice(int device) : outer_(std::exchange(own_device_now, device)) { set_current_device(device); }
OwnDevice::~OwnDevice() {
  if (device_now != own_device_now) {
    violate("the current device is " + std::to_string(device_now) + " at the end of work of device " +
                std::to_string(own_device_now) + ": a guard is still on, or set_device was not undone",
            false);
  }
  own_device_now = outer_;
  if (outer_ >= 0) device_now = outer_;
}

}  // namespace weft::checked_device
