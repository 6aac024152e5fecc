#include <algorithm>
#include <array>

#include "weft/program/draw/bars.h"

namespace weft {
namespace {

/// Neighbours that become one bar.
class JoinedBar {
 public:
  bool is_empty() const { return bar_.joined == 0; }
  double start_s() const { return bar_.start_s; }

  void add(const Bar& bar) {
    double& seconds = seconds_[static_cast<size_t>(bar.kind)];
    seconds += bar.end_s - bar.start_s;
    const int joined = bar_.joined + bar.joined;
    if (bar_.joined == 0) {
      bar_ = bar;
    } else {
      bar_.end_s = std::max(bar_.end_s, bar.end_s);
      bar_.first = std::min(bar_.first, bar.first);
      bar_.last = std::max(bar_.last, bar.last);
      if (bar_.micro != bar.micro) bar_.micro = -1;
      bar_.edges_s.clear();
    }
    bar_.joined = joined;
    if (seconds < most_s_) return;
    most_s_ = seconds;
    bar_.kind = bar.kind;
    bar_.chunk = bar.chunk;
  }

  Bar take() {
    const Bar bar = bar_;
    *this = JoinedBar();
    return bar;
  }

 private:
  Bar bar_ = {.joined = 0};
  std::array<double, kBarKinds.size()> seconds_{};
  double most_s_ = 0.0;
};

}  // namespace

std::vector<Bar> joined_bars(std::vector<Bar> bars, double least_s) {
  std::stable_sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) { return a.start_s < b.start_s; });
  std::vector<Bar> result;
  JoinedBar open;
  const auto close = [&] {
    if (!open.is_empty()) result.push_back(open.take());
  };
  for (const Bar& bar : bars) {
    if (bar.end_s - bar.start_s >= least_s) {
      close();
      result.push_back(bar);
      continue;
    }
    if (!open.is_empty() && bar.end_s - open.start_s() > least_s) close();
    open.add(bar);
  }
  close();
  return result;
}

}  // namespace weft
