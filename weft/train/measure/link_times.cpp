#include "weft/train/measure/link_times.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "weft/base/cores.h"
#include "weft/base/median.h"
#include "weft/base/units.h"
#include "weft/comm/mesh.h"
#include "weft/comm/world_hosts.h"
#include "weft/train/measure/pair_rounds.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongEnough = 0.02;      ///< target duration in seconds of a rate measurement
constexpr int64_t kMostBytes = 32 << 20;  ///< per message
constexpr int kPings = 20, kTurns = 5;    ///< the best turn counts: outside load can only slow a turn down

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

at::Tensor message(int64_t bytes) { return at::zeros({bytes}, at::TensorOptions(at::kByte)); }

/// One side of a pair; it mirrors the calls of the other.
class Side {
 public:
  Side(const Group& group, int other, bool leads) : group_(group), other_(other), leads_(leads) {}

  /// Returns the measurement on the leading side, an empty one on the other.
  PairTime measure() {
    PairTime time;
    time.latency_s = pings();
    for (int i = 0; i < kTurns; ++i) time.latency_s = std::min(time.latency_s, pings());
    for (int64_t bytes = 256 << 10;; bytes *= 2) {
      double there = message_seconds(bytes, leads_), back = message_seconds(bytes, !leads_);
      there = std::min(there, message_seconds(bytes, leads_));
      back = std::min(back, message_seconds(bytes, !leads_));
      time.bytes_per_s[0] = rate(bytes, there, time.latency_s);
      time.bytes_per_s[1] = rate(bytes, back, time.latency_s);
      at::Tensor done = message(1);
      done.fill_(bytes >= kMostBytes || std::min(there, back) >= kLongEnough ? 1 : 0);
      leads_ ? send(done) : receive(done);
      if (done.item<uint8_t>() != 0) return time;
    }
  }

 private:
  void send(const at::Tensor& tensor) const { group_.send(tensor, other_, "netcheck").wait(); }
  void receive(const at::Tensor& tensor) const { group_.receive(tensor, other_, "netcheck").wait(); }

  static double rate(int64_t bytes, double seconds, double latency_s) {
    return static_cast<double>(bytes) / std::max(seconds - 2.0 * latency_s, 1e-9);
  }

  double pings() const {
    const at::Tensor ball = message(1);
    const auto start = Clock::now();
    for (int i = 0; i < kPings; ++i) {
      leads_ ? send(ball) : receive(ball);
      leads_ ? receive(ball) : send(ball);
    }
    return seconds_since(start) / (2.0 * kPings);
  }

  /// Time of a message in one direction, with an answer.
  double message_seconds(int64_t bytes, bool sends) const {
    const at::Tensor data = message(bytes), answer = message(1);
    if (!leads_ && sends) receive(answer);  // the leading side is ready
    const auto start = Clock::now();
    if (leads_ && !sends) send(answer);
    sends ? send(data) : receive(data);
    if (leads_) {
      if (sends) receive(answer);
    } else if (!sends) {
      send(answer);
    }
    return seconds_since(start);
  }

  const Group& group_;
  int other_;
  bool leads_;
};

PairTime measure_pair(const Group& all, int first, int second) {
  const bool leads = all.rank() == first;
  PairTime time = Side(all, leads ? second : first, leads).measure();
  time.first = first;
  time.second = second;
  return time;
}

}  // namespace

double four_digits(double value) { return std::stod(fmt::format("{:.4g}", value)); }

double time_of(const Group& group, const std::function<void()>& call, int calls) {
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(calls));
  for (int i = 0; i <= calls; ++i) {
    group.barrier("profile").wait();
    const Clock::time_point start = Clock::now();
    call();
    if (i > 0) seconds.push_back(seconds_since(start));
  }
  group.barrier("profile").wait();  // a group must end with nothing in flight
  return median(std::move(seconds));
}

std::vector<double> mean_over_ranks(std::vector<double> values, const Group& group, at::Device device) {
  at::Tensor table = at::empty({static_cast<int64_t>(values.size())}, at::TensorOptions(at::kDouble));
  std::copy(values.begin(), values.end(), table.data_ptr<double>());
  table = table.to(device);
  group.all_reduce(table, ReduceOp::sum, "profile").wait();
  table = table.cpu();
  for (size_t i = 0; i < values.size(); ++i) values[i] = four_digits(table.const_data_ptr<double>()[i] / group.size());
  return values;
}

/// Computes for this long, on the threads that operations use.
void compute_for(double seconds, const at::Tensor& matrix, at::Tensor& product) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) at::mm_out(product, matrix, matrix);
}

/// Seconds per all-reduce as in a training step: started early, and awaited after computing for half as long as it takes alone.
/// This includes waits for cores, if message threads have no cores of their own.
double seconds_in_a_row(const Group& group, int64_t numel, double alone_s) {
  constexpr int64_t kRows = 192;
  const at::TensorOptions floats(at::kFloat);
  alone_s = mean_over_ranks({alone_s}, group, at::kCPU)[0];  // the same number of calls on all ranks
  const int calls = static_cast<int>(std::clamp(2.0 / std::max(alone_s, 1e-6), 4.0, 24.0));
  const at::Tensor buffers[] = {at::zeros({numel}, floats), at::zeros({numel}, floats)};
  const at::Tensor matrix = at::ones({kRows, kRows}, floats);
  at::Tensor product = at::empty_like(matrix);
  const auto call = [&](int number) { return group.all_reduce(buffers[number % 2], ReduceOp::sum, "profile"); };
  compute_for(0.1, matrix, product);
  group.barrier("profile").wait();
  const Clock::time_point start = Clock::now();
  Work ahead = call(0);
  for (int i = 1; i < calls; ++i) {
    Work next = call(i);
    compute_for(0.5 * alone_s, matrix, product);
    ahead.wait();
    ahead = std::move(next);
  }
  ahead.wait();
  const double seconds = seconds_since(start) / calls;
  group.barrier("profile").wait();
  return seconds;
}

// Latency is per round: an all-reduce has `rounds` of them.
Link measure_link(const Group& group, at::Device device, int rounds, bool beside) {
  constexpr int64_t kShort = 1 << 10;  // elements
  const int64_t kLong = beside ? 1 << 20 : 4 << 20;
  const auto seconds = [&](int64_t numel) {
    const at::Tensor buffer = at::zeros({numel}, at::TensorOptions(at::kFloat).device(device));
    return time_of(group, [&] {
      group.all_reduce(buffer, ReduceOp::sum, "profile").wait();
      if (!device.is_cpu()) buffer[0].item<float>();
    });
  };
  const double n = group.size();
  const double bytes = 2.0 * (n - 1.0) / n * 4.0;  // per element
  const double brief = seconds(kShort), alone = seconds(kLong);
  const double lengthy = beside ? seconds_in_a_row(group, kLong, alone) : alone;
  const double rate = bytes * static_cast<double>(kLong - kShort) / std::max(lengthy - brief, 1e-9);
  return {.latency_s = std::max(0.0, brief - bytes * kShort / rate) / rounds, .bytes_per_s = rate};
}

int ranks_per_host(const World& world) {
  int longest = 1;
  for (int rank = 1, run = 1; rank < world.size(); ++rank) {
    run = world.host(rank) == world.host(rank - 1) ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  return longest;
}

bool are_hosts_even(const World& world, int per_host) {
  if (world.size() % per_host != 0) return false;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (world.host(rank) != world.host(rank - rank % per_host)) return false;
  }
  return true;
}

void measure_links(Hardware& hardware, const World& world, const GroupOptions& options) {
  hardware.ranks_per_host = ranks_per_host(world);
  for (Link* link : {&hardware.intra_host, &hardware.inter_host, &hardware.offload}) link->is_known = false;
  if (world.size() == 1) return;
  const int per_host = are_hosts_even(world, hardware.ranks_per_host) ? hardware.ranks_per_host : 1;
  const Mesh hosts(world, {{"host", world.size() / per_host}, {"local", per_host}});
  const Group all = hosts.group(hosts.join({"host", "local"}), options);
  hardware.two_levels = options.device.is_cpu();  // comm/two_level
  const auto measured = [&](const char* axis, int rounds, bool beside) {
    const Link link = measure_link(hosts.group(hosts.axis(axis), options), options.device, rounds, beside);
    const std::vector<double> mean = mean_over_ranks({link.latency_s, link.bytes_per_s}, all, options.device);
    return Link{.latency_s = mean[0], .bytes_per_s = mean[1]};
  };
  const int num_hosts = hosts.size("host");
  if (per_host > 1) hardware.intra_host = measured("local", 2 * (per_host - 1), /*beside=*/false);
  if (num_hosts > 1) hardware.inter_host = measured("host", hardware.two_levels ? 2 : 2 * (num_hosts - 1), hardware.two_levels);
}

std::vector<PairTime> measure_pairs(const World& world, const Group& all) {
  const std::vector<std::string> hosts = hosts_of(world);
  constexpr int64_t kColumns = 4;  // latency, bytes per second there and back, shares cores
  const std::vector<std::vector<RankPair>> rounds = pair_rounds(hosts);
  std::vector<PairTime> pairs;
  for (const std::vector<RankPair>& round : rounds) {
    for (const auto& [first, second] : round) pairs.push_back({first, second, hosts[first] == hosts[second]});
  }
  std::sort(pairs.begin(), pairs.end(),
            [](const PairTime& a, const PairTime& b) { return RankPair(a.first, a.second) < RankPair(b.first, b.second); });
  std::map<RankPair, int64_t> rows;
  for (const PairTime& pair : pairs) rows.emplace(RankPair(pair.first, pair.second), static_cast<int64_t>(rows.size()));
  const bool shares_cores = world.local_size() > available_cores();
  at::Tensor table = at::zeros({static_cast<int64_t>(pairs.size()), kColumns}, at::kDouble);
  for (const std::vector<RankPair>& round : rounds) {
    for (const auto& [first, second] : round) {
      if (all.rank() != first && all.rank() != second) continue;
      const PairTime time = measure_pair(all, first, second);
      if (all.rank() != first) continue;
      double* row = table.data_ptr<double>() + kColumns * rows.at({first, second});
      row[0] = time.latency_s, row[1] = time.bytes_per_s[0], row[2] = time.bytes_per_s[1];
      row[3] = hosts[first] == hosts[second] && shares_cores ? 1 : 0;
    }
    all.barrier("netcheck's round").wait();  // one deadline per round
  }
  all.all_reduce(table, ReduceOp::sum, "netcheck's times").wait();
  for (size_t i = 0; i < pairs.size(); ++i) {
    const double* row = table.const_data_ptr<double>() + kColumns * i;
    pairs[i].latency_s = four_digits(row[0]);
    pairs[i].bytes_per_s[0] = four_digits(row[1]);
    pairs[i].bytes_per_s[1] = four_digits(row[2]);
    pairs[i].shares_cores = row[3] != 0;
  }
  return pairs;
}

std::vector<std::string> slow_links(const std::vector<PairTime>& pairs, const std::vector<std::string>& hosts, double share) {
  std::vector<std::string> lines;
  std::set<std::string> slow_hosts;
  const auto place = [&](int rank) { return fmt::format("rank {} on {}", rank, hosts[rank]); };
  for (const bool inside : {false, true}) {
    std::vector<double> rates, latencies;
    std::map<std::string, std::vector<double>> of_host;
    for (const PairTime& pair : pairs) {
      if (pair.one_host != inside || pair.shares_cores) continue;
      rates.push_back(pair.slower());
      latencies.push_back(pair.latency_s);
      for (const int rank : {pair.first, pair.second}) of_host[hosts[rank]].push_back(pair.slower());
    }
    const double rate = median(rates), latency = median(latencies);
    for (const auto& [host, own] : of_host) {
      const double most = *std::max_element(own.begin(), own.end());
      if (own.size() < 2 || of_host.size() < 3 || most >= share * rate) continue;
      slow_hosts.insert(host);
      lines.push_back(fmt::format("host {}: no link {} exceeds {}/s, where the median is {}/s", host,
                                  inside ? "inside" : "to other hosts", format_bytes(static_cast<int64_t>(most)),
                                  format_bytes(static_cast<int64_t>(rate))));
    }
    for (const PairTime& pair : pairs) {
      if (pair.one_host != inside || pair.shares_cores) continue;
      if (slow_hosts.count(hosts[pair.first]) + slow_hosts.count(hosts[pair.second]) > 0) continue;
      const bool back = pair.bytes_per_s[1] < pair.bytes_per_s[0];
      if (pair.slower() < share * rate) {
        lines.push_back(fmt::format("{} to {}: {}/s, where the median is {}/s", place(back ? pair.second : pair.first),
                                    place(back ? pair.first : pair.second), format_bytes(static_cast<int64_t>(pair.slower())),
                                    format_bytes(static_cast<int64_t>(rate))));
      } else if (!inside && pair.latency_s * share > latency) {
        lines.push_back(fmt::format("{} and {}: latency {}, where the median is {}", place(pair.first), place(pair.second),
                                    format_duration(pair.latency_s), format_duration(latency)));
      }
    }
  }
  return lines;
}

// A slow network's large calls are made less often: each rank knows their duration from the previous size.
void measure_calls(const Group& all, int64_t most_bytes, const std::function<void(const CallTimes&)>& report) {
  constexpr int64_t kGrowth = 16;
  constexpr double kEnough_s = 2.0;
  CallTimes before;
  for (int64_t bytes = 4 << 10; bytes <= most_bytes; bytes *= kGrowth) {
    const int64_t numel = bytes / 4;
    const at::Tensor whole = all.allocate(numel, at::kFloat, "netcheck");
    const ShardRange own = shard_range(numel, all.size(), all.rank());
    const at::Tensor shard = at::zeros({own.end - own.begin}, at::kFloat);
    CallTimes now{.bytes = bytes};
    const auto measure = [&](double CallTimes::*time, const std::function<void()>& call) {
      const double expected_s = std::max(static_cast<double>(kGrowth) * before.*time, 1e-6);
      const int calls = static_cast<int>(std::clamp(kEnough_s / expected_s, 3.0, 9.0));
      now.*time = mean_over_ranks({time_of(all, call, calls)}, all, at::kCPU)[0];
    };
    measure(&CallTimes::all_reduce, [&] { all.all_reduce(whole, ReduceOp::sum, "netcheck").wait(); });
    measure(&CallTimes::reduce_scatter, [&] { all.reduce_scatter(shard, whole, ReduceOp::sum, "netcheck").wait(); });
    measure(&CallTimes::all_gather, [&] { all.all_gather(whole, shard, "netcheck").wait(); });
    report(now);
    before = now;
  }
}

}  // namespace weft
