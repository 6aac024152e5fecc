#include "weft/comm/c10d/gloo_engine.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gloo/context.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/tcp_options.h"
#include "weft/base/without_signal.h"
#include "weft/comm/c10d/engine_store.h"
#include "weft/comm/c10d/gloo_device.h"
#include "weft/comm/c10d/operations.h"
#include "weft/comm/c10d/tags.h"
#include "weft/comm/call/call.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/store/store_connection.h"
#include "weft/comm/store/waited.h"

namespace weft {
namespace {

std::shared_ptr<gloo::transport::Device> make_device(const GroupPlan& plan) {
  if (on_one_host(plan.hosts)) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  if (const auto interface = env_string("GLOO_SOCKET_IFNAME"))
    return c10d::ProcessGroupGloo::createDeviceForInterface(*interface);
  // The interface that leads to the others. A host's own name often resolves to 127.0.1.1, which no other host can reach.
  if (const std::string address = plan.store.connection().address(); !address.empty())
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

/// Gloo does not expose its sockets, so this returns all that were opened while it connected. Unrelated ones do no harm.
std::set<int> opened_since(const std::set<int>& before) {
  std::set<int> since;
  for (const int connection : tcp_connections()) {
    if (before.count(connection) == 0) since.insert(connection);
  }
  return since;
}

}  // namespace

c10::intrusive_ptr<GlooEngine> GlooEngine::connect(const GroupPlan& plan) {
  auto options = c10d::ProcessGroupGloo::Options::create(plan.options.timeout);
  try {
    options->devices.push_back(device_in_port_range([&plan] { return make_device(plan); }));
    options->threads = 1;
    const std::string what = rank_name(plan.axis, plan.axis.index) + " connects to its peers";
    // All ranks of the group are here and will finish this, whatever fails elsewhere: Gloo cannot be cancelled while it
    // connects.
    const Store meeting = plan.store.failing_on(nullptr).below("gloo");
    auto store = c10::make_intrusive<EngineStore>(meeting, std::max(plan.deadline.left(), kToAnswer), what, plan.axis.size());
    const bool crosses = !on_one_host(plan.hosts);
    const std::set<int> before = crosses ? tcp_connections() : std::set<int>();
    auto engine = c10::make_intrusive<GlooEngine>(store, plan.axis.index, plan.axis.size(), options);
    if (crosses) engine->sockets_ = opened_since(before);
    for (const int socket : engine->sockets_) retry_each_second(socket);
    return engine;
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(
        fmt::format("{} cannot connect to its peers through Gloo: {}; set GLOO_SOCKET_IFNAME to the network interface that all "
                    "hosts share",
                    rank_name(plan.axis, plan.axis.index), first_line_of(error.what())));
  }
}

// LibTorch hides the run-time type information of Gloo's classes, which the sanitizer would look up.
__attribute__((no_sanitize("vptr"))) void GlooEngine::close() {
  for (const auto& context : contexts_) context->closeConnections();
  // This ends the peers' waits. Local waits end at the next use of the connection.
  for (int peer = 0; peer < getSize(); ++peer) {
    if (peer == getRank()) continue;
    try {
      std::vector<at::Tensor> nothing{at::zeros({1}, at::kByte)};
      start_call([&] { return send(nothing, peer, kRecordTag); });
    } catch (const std::exception&) {
      continue;  // expected
    }
  }
}

std::optional<int> GlooEngine::closed_peer() {
  const WithoutSignal guard(SIGPIPE);
  for (int peer = 0; peer < getSize(); ++peer) {
    if (peer == getRank()) continue;
    try {
      std::vector<at::Tensor> byte{at::zeros({1}, at::kByte)};
      start_call([&] { return send(byte, peer, kProbeTag); });
    } catch (const std::exception&) {
      return peer;
    }
  }
  return std::nullopt;
}

void GlooEngine::wait_until_sent(const Deadline& deadline) const {
  const auto is_under_way = [](int socket) { return unconfirmed_bytes(socket) > 0; };
  while (std::any_of(sockets_.begin(), sockets_.end(), is_under_way) && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

GroupFailure closed_connection(const Axis& axis, int peer, const std::string& wait) {
  return {axis.ranks[static_cast<size_t>(peer)],
          fmt::format("{} has closed its connection, or its process has died; rank {} waits: {}", rank_name(axis, peer),
                      axis.ranks[static_cast<size_t>(axis.index)], wait)};
}

std::string first_line_of(const char* text) {
  const std::string_view all(text);
  if (all == "std::bad_alloc") return "out of memory";
  return std::string(all.substr(0, all.find('\n')));
}

}  // namespace weft
