#include "weft/train/watch/slow_links.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/units.h"
#include "weft/comm/two_level/host_map.h"
#include "weft/comm/world_hosts.h"

namespace weft {
namespace {

constexpr double kSlowShare = 0.3;
/// Share of time in collectives; below it a slow link does not matter.
constexpr double kWaitingShare = 0.3;
constexpr int64_t kProbeBytes = 64 << 10;
constexpr int kProbes = 2;  ///< the better counts
constexpr size_t kMostKnown = 64;
constexpr double kShortestPause_s = 1.0, kPauses = 20.0;

bool holds(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

double upper_quartile(std::vector<double> values) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>((3 * (values.size() - 1) + 2) / 4);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

std::vector<SlowLink> find_slow_links(const std::vector<std::string>& hosts, const std::vector<double>& rates, double usual) {
  const size_t count = hosts.size();
  const auto is_slow = [&](size_t link) { return rates[link] < kSlowShare * usual; };
  if (count == 2) {
    if (!is_slow(0) && !is_slow(1)) return {};
    return {{fmt::format("the link between hosts {} and {} is slow", hosts[0], hosts[1]), std::min(rates[0], rates[1])}};
  }
  std::vector<SlowLink> found;
  std::vector<bool> explained(count);
  for (size_t host = 0; host < count; ++host) {
    const size_t before = (host + count - 1) % count;
    if (!is_slow(before) || !is_slow(host)) continue;
    explained[before] = explained[host] = true;
    found.push_back({fmt::format("host {} has slow links", hosts[host]), std::max(rates[before], rates[host])});
  }
  for (size_t link = 0; link < count; ++link) {
    if (!is_slow(link) || explained[link]) continue;
    found.push_back(
        {fmt::format("the link from host {} to host {} is slow", hosts[link], hosts[(link + 1) % count]), rates[link]});
  }
  return found;
}

double UsualRate::add(const std::vector<double>& rates) {
  std::vector<double> all = known_;
  all.insert(all.end(), rates.begin(), rates.end());
  const double usual = upper_quartile(std::move(all));
  std::copy_if(rates.begin(), rates.end(), std::back_inserter(known_), [&](double rate) { return rate >= kSlowShare * usual; });
  if (known_.size() > kMostKnown) known_.erase(known_.begin(), known_.end() - kMostKnown);
  return usual;
}

LinkWatch::LinkWatch(const World& world, const Group& all, at::Device device) : all_(all) {
  if (!device.is_cpu()) return;
  const HostMap map(hosts_of(world));
  for (int host = 0; host < map.num_hosts(); ++host) {
    firsts_.push_back(map.members(host).front());
    hosts_.push_back(world.host(firsts_.back()));
  }
}

bool LinkWatch::is_due() const { return hosts_.size() > 1 && since_.seconds() >= pause_s_; }

/// Called on both ends of the link; the sender returns bytes per second, measured until a short answer is back.
double LinkWatch::send_to_next(int link) const {
  const int next = (link + 1) % static_cast<int>(firsts_.size());
  const bool sends = all_.rank() == firsts_[link];
  const at::Tensor data = at::zeros({kProbeBytes}, at::kByte), answer = at::zeros({1}, at::kByte);
  double best = 0.0;
  for (int i = 0; i < kProbes; ++i) {
    const Stopwatch time;
    if (sends) {
      all_.send(data, firsts_[next], "speed of the link").wait();
      all_.receive(answer, firsts_[next], "speed of the link").wait();
      best = std::max(best, static_cast<double>(kProbeBytes) / std::max(time.seconds(), 1e-9));
    } else {
      all_.receive(data, firsts_[link], "speed of the link").wait();
      all_.send(answer, firsts_[link], "speed of the link").wait();
    }
  }
  return best;
}

// Each host measures one link at a time: even links, then odd ones, then the last of an odd number.
std::vector<double> LinkWatch::measure() const {
  const int count = static_cast<int>(hosts_.size());
  at::Tensor rates = at::zeros({count}, at::kDouble);
  for (int turn = 0; turn < 3; ++turn) {
    for (int link = 0; link < count; ++link) {
      const bool last_of_odd = count % 2 == 1 && link == count - 1;
      if (turn != (last_of_odd ? 2 : link % 2)) continue;
      const bool is_end = all_.rank() == firsts_[link] || all_.rank() == firsts_[(link + 1) % count];
      if (is_end) rates.data_ptr<double>()[link] = send_to_next(link);
    }
  }
  all_.all_reduce(rates, ReduceOp::sum, "speed of links").wait();
  return {rates.const_data_ptr<double>(), rates.const_data_ptr<double>() + count};
}

std::vector<std::string> LinkWatch::look(double waiting) {
  const Stopwatch looking;
  const std::vector<double> rates = measure();
  const double usual = usual_.add(rates);
  std::vector<std::string> seen, reported, lines;
  for (const SlowLink& link : find_slow_links(hosts_, rates, usual)) {
    seen.push_back(link.what);
    const bool twice = holds(seen_, link.what), before = holds(reported_, link.what);
    if (before || (twice && waiting >= kWaitingShare)) reported.push_back(link.what);
    if (before || reported.empty() || reported.back() != link.what) continue;
    lines.push_back(
        fmt::format("{}: {}/s, while links of this run usually carry {}/s; ranks spend {:.0f} % of their time in collectives; "
                    "weft netcheck measures each link",
                    link.what, format_bytes(static_cast<int64_t>(link.bytes_per_s)), format_bytes(static_cast<int64_t>(usual)),
                    100.0 * waiting));
  }
  seen_ = std::move(seen);
  reported_ = std::move(reported);
  since_ = Stopwatch();
  pause_s_ = std::max(kShortestPause_s, kPauses * looking.seconds());
  return lines;
}

}  // namespace weft
