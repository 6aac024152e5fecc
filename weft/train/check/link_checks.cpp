#include "weft/train/check/link_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "weft/base/units.h"
#include "weft/comm/mesh.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"
#include "weft/comm/world_hosts.h"

namespace weft {

namespace {

constexpr double kMostOffset_s = 1.0;

double system_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string rate(double bytes_per_s) { return format_bytes(static_cast<int64_t>(bytes_per_s)) + "/s"; }

/// Keeps the better of two measurements of each pair.
void keep_best(std::vector<PairTime>& best, const std::vector<PairTime>& again) {
  for (size_t i = 0; i < best.size(); ++i) {
    best[i].latency_s = std::min(best[i].latency_s, again[i].latency_s);
    for (const int way : {0, 1}) best[i].bytes_per_s[way] = std::max(best[i].bytes_per_s[way], again[i].bytes_per_s[way]);
  }
}

/// The first rank of each host, rank 0's first.
std::vector<int> first_ranks(const std::vector<std::string>& hosts) {
  std::vector<int> first;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::find(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]) ==
        hosts.begin() + static_cast<std::ptrdiff_t>(rank)) {
      first.push_back(static_cast<int>(rank));
    }
  }
  return first;
}

}  // namespace

CheckLine links_line(const std::vector<PairTime>& pairs, const std::vector<std::string>& hosts) {
  const std::vector<std::string> slow = slow_links(pairs, hosts);
  if (!slow.empty()) {
    return check_failed("links", fmt::format("{}", fmt::join(slow, "; ")),
                        "see weft netcheck; look at that host's load, network card, cable and switch port");
  }
  const auto [slowest, fastest] =
      std::minmax_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.slower() < b.slower(); });
  const auto by_latency = [](const auto& a, const auto& b) { return a.latency_s < b.latency_s; };
  const std::string rates =
      pairs.size() == 1 ? rate(slowest->slower()) : fmt::format("{} to {}", rate(slowest->slower()), rate(fastest->slower()));
  const bool shared = std::any_of(pairs.begin(), pairs.end(), [](const PairTime& pair) { return pair.shares_cores; });
  return check_ok("links", fmt::format("{}: {}, latency up to {}{}", counted(std::ssize(pairs), "pair"), rates,
                                       format_duration(std::max_element(pairs.begin(), pairs.end(), by_latency)->latency_s),
                                       shared ? "; not compared inside hosts whose ranks share cores" : ""));
}

std::vector<CheckLine> check_links(const World& world, BackendKind backend, at::Device device,
                                   std::chrono::milliseconds timeout) {
  constexpr int kMostRounds = 3;
  const Mesh mesh(world, {{"all", world.size()}});
  const Group all = mesh.group(mesh.axis("all"), {.timeout = timeout});
  const std::vector<std::string> hosts = hosts_of(world);
  std::vector<PairTime> pairs = measure_pairs(world, all);  // the same on all ranks, so they agree on another round
  for (int round = 1; round < kMostRounds && !slow_links(pairs, hosts).empty(); ++round) {
    keep_best(pairs, measure_pairs(world, all));
  }
  std::vector<CheckLine> lines = {links_line(pairs, hosts)};
  if (device.is_cpu()) return lines;
  const Group devices = mesh.group(mesh.axis("all"), {.backend = backend, .device = device, .timeout = timeout});
  const Link link = measure_link(devices, device, 2 * (world.size() - 1), /*beside=*/false);
  lines.push_back(
      check_ok("device links", fmt::format("all_reduce over {} by {}: {} per rank, latency {}", counted(world.size(), "rank"),
                                           devices.backend(), rate(link.bytes_per_s), format_duration(link.latency_s))));
  return lines;
}

CheckLine clocks_line(const std::vector<ClockOffset>& offsets) {
  if (offsets.empty()) return not_checked("host clocks", "one host");
  std::vector<std::string> wrong;
  double most = 0.0;
  for (const ClockOffset& offset : offsets) {
    most = std::max(most, std::abs(offset.ahead_s));
    if (std::abs(offset.ahead_s) <= kMostOffset_s + offset.within_s) continue;
    wrong.push_back(fmt::format("{}'s clock is {} {}", offset.host, format_duration(std::abs(offset.ahead_s)),
                                offset.ahead_s > 0 ? "ahead" : "behind"));
  }
  if (wrong.empty()) return check_ok("host clocks", fmt::format("{} apart at most", format_duration(most)));
  return check_failed("host clocks", fmt::format("{}", fmt::join(wrong, "; ")),
                      "set them by chronyd or ntpd: file times, logs and signed requests to buckets need it");
}

CheckLine check_clocks(const World& world, std::chrono::milliseconds timeout) {
  constexpr int kRounds = 5;
  const std::vector<int> ranks = first_ranks(hosts_of(world));
  if (ranks.size() == 1) return clocks_line({});
  Store store = world.next_group_store();
  const auto key = [](int rank, int round, const char* what) { return fmt::format("clock/{}/{}/{}", rank, round, what); };
  const auto wait = [&](int rank, const std::string& name) {
    return await_key(store, name, timeout * world.size(), wait_for_rank(rank, "comparing the clocks of hosts"));
  };
  std::vector<ClockOffset> offsets;
  for (size_t i = 1; i < ranks.size(); ++i) {
    const int other = ranks[i];
    ClockOffset offset{.host = world.host(other), .ahead_s = 0.0, .within_s = 1e9};
    for (int round = 0; round < kRounds; ++round) {
      if (world.rank() == other) {
        wait(0, key(other, round, "asked"));
        store.set(key(other, round, "answer"), fmt::format("{:.6f}", system_seconds()));
      } else if (world.rank() == 0) {
        const double before = system_seconds();
        store.set(key(other, round, "asked"), "");
        const double theirs = std::stod(wait(other, key(other, round, "answer"))), after = system_seconds();
        if ((after - before) / 2 >= offset.within_s) continue;
        offset.within_s = (after - before) / 2;
        offset.ahead_s = theirs - (before + after) / 2;
      }
    }
    offsets.push_back(offset);
  }
  return clocks_line(offsets);
}

}  // namespace weft
