#include "weft/train/watch/stragglers.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/median.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr double kLeastDifference = 1e-3;

/// Medians of several times, component by component.
OwnTime medians(const std::vector<OwnTime>& times) {
  std::vector<double> data, compute;
  for (const OwnTime& time : times) {
    data.push_back(time.data_s);
    compute.push_back(time.compute_s);
  }
  return {.data_s = median(std::move(data)), .compute_s = median(std::move(compute))};
}

/// Empty for a rank alone in its class.
std::optional<Straggler> beside_others(size_t rank, const std::vector<OwnTime>& ranks, const std::vector<int>& classes) {
  std::vector<OwnTime> others;
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (other != rank && classes[other] == classes[rank]) others.push_back(ranks[other]);
  }
  if (others.empty()) return std::nullopt;
  const OwnTime own = ranks[rank], usual = medians(others);
  return Straggler{.rank = static_cast<int>(rank),
                   .times = own.total_s() / std::max(usual.total_s(), 1e-9),
                   .in_data = own.data_s - usual.data_s > own.compute_s - usual.compute_s,
                   .own = own,
                   .others = usual};
}

}  // namespace

std::vector<Straggler> find_stragglers(const std::vector<OwnTime>& ranks, const std::vector<int>& classes, double factor) {
  std::vector<Straggler> found;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::optional<Straggler> compared = beside_others(rank, ranks, classes);
    if (!compared || compared->own.total_s() < factor * compared->others.total_s() ||
        compared->own.total_s() - compared->others.total_s() < kLeastDifference)
      continue;
    found.push_back(*compared);
  }
  return found;
}

std::string straggler_text(const Straggler& straggler, const std::string& host) {
  return fmt::format("rank {} on host {} is behind: its steps take {:.2f}x the others' median ({} vs {}), {}", straggler.rank,
                     host, straggler.times, format_duration(straggler.own.total_s()),
                     format_duration(straggler.others.total_s()), straggler.in_data ? "waiting for samples" : "in compute");
}

StragglerWatch::StragglerWatch(const Mesh& mesh, const Group& all, at::Device device)
    : world_(mesh.world()),
      all_(all),
      device_(device),
      links_(world_, all, device),
      reported_(static_cast<size_t>(mesh.world().size())) {
  const int columns = world_.size() / mesh.size("pp");  // pp is outermost
  for (int rank = 0; rank < world_.size(); ++rank) classes_.push_back(rank / columns);
}

std::vector<std::string> StragglerWatch::add(const OwnTime& step, double communicated_s) {
  steps_.push_back(step);
  steps_s_ += step.total_s() + communicated_s;
  communicated_s_ += communicated_s;
  if (world_.size() == 1 || static_cast<int>(steps_.size()) < kWindow) return {};
  const OwnTime own = medians(steps_);
  steps_.clear();
  const int64_t ranks = world_.size();
  constexpr int kColumns = 4;
  at::Tensor table = at::zeros({ranks, kColumns}, at::kDouble);
  double* row = table.data_ptr<double>() + static_cast<ptrdiff_t>(kColumns) * world_.rank();
  row[0] = own.data_s;
  row[1] = own.compute_s;
  row[2] = std::exchange(communicated_s_, 0.0) / std::max(std::exchange(steps_s_, 0.0), 1e-9);
  row[3] = world_.rank() == 0 && links_.is_due() ? 1.0 : 0.0;  // one clock decides for all
  table = table.to(device_);
  all_.all_reduce(table, ReduceOp::sum, "times of steps").wait();
  table = table.cpu();
  std::vector<OwnTime> times;
  std::vector<double> waiting;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const double* at = table.const_data_ptr<double>() + kColumns * rank;
    times.push_back({.data_s = at[0], .compute_s = at[1]});
    waiting.push_back(at[2]);
  }
  const auto most = std::max_element(times.begin(), times.end(),
                                     [](const OwnTime& a, const OwnTime& b) { return a.total_s() < b.total_s(); });
  slowest_ = beside_others(static_cast<size_t>(most - times.begin()), times, classes_);
  std::vector<std::string> lines;
  std::vector<bool> behind(reported_.size());
  for (const Straggler& straggler : find_stragglers(times, classes_)) {
    behind[straggler.rank] = true;
    if (!reported_[straggler.rank]) lines.push_back(straggler_text(straggler, world_.host(straggler.rank)));
  }
  reported_ = behind;
  if (table.const_data_ptr<double>()[3] == 0.0) return lines;
  for (const std::string& line : links_.look(median(std::move(waiting)))) lines.push_back(line);
  return lines;
}

}  // namespace weft
