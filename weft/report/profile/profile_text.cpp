#include "weft/report/profile/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 12, kMostShares = 10, kMostWaits = 8, kMostFaster = 8;
constexpr double kLeast = 0.005;  // of a step: less is not shown

double percent(double part, double whole) { return whole > 0.0 ? 100.0 * part / whole : 0.0; }

std::string steps_text(const std::vector<int64_t>& steps) {
  return steps.size() == 1 ? fmt::format("step {}", steps.front()) : fmt::format("steps {} to {}", steps.front(), steps.back());
}

/// "61.2 GFLOP/s", "8.10 GB/s"; empty: neither is known.
std::string rate_of(const OperatorRow& row) {
  if (row.seconds <= 0.0) return {};
  if (row.flops > 0.0) return format_flops(row.flops / row.seconds) + "/s";
  return row.bytes > 0.0 ? fmt::format("{}B/s", format_count(row.bytes / row.seconds)) : "";
}

std::string title_of(const OperatorRow& row) { return row.shape.empty() ? row.name : row.name + " " + row.shape; }

std::string operators_text(const StepProfile& p) {
  if (p.operators.empty()) return {};
  std::string text = fmt::format("operators, per step and rank: {} in kernels, {:.0f} % of what instructions compute\n",
                                 format_duration(p.kernels_s), percent(p.kernels_s, p.compute_s));
  size_t width = 0;
  for (size_t i = 0; i < std::min(p.operators.size(), kMostRows); ++i) width = std::max(width, title_of(p.operators[i]).size());
  text += fmt::format("  {:<{}} {:<10} {:>6} {:>9} {:>6} {:>14} {:>6}\n", "", width, "in", "calls", "time", "share", "rate",
                      p.hardware.empty() ? "" : "of best");
  double shown = 0.0;
  size_t rows = 0;
  for (const OperatorRow& row : p.operators) {
    if (rows++ == kMostRows) break;
    shown += row.seconds;
    const std::string best = row.best_s > 0.0 ? fmt::format("{:.0f} %", percent(row.best_s, row.seconds)) : "";
    text += fmt::format("  {:<{}} {:<10} {:>6.4g} {:>9} {:>4.0f} % {:>14} {:>6}\n", title_of(row), width, row.kind, row.calls,
                        format_duration(row.seconds), percent(row.seconds, p.compute_s), rate_of(row), best);
  }
  if (p.operators.size() > kMostRows) {
    text += fmt::format("  {:<{}} {:<10} {:>6} {:>9} {:>4.0f} %\n", fmt::format("{} more rows", p.operators.size() - kMostRows),
                        width, "", "", format_duration(p.kernels_s - shown), percent(p.kernels_s - shown, p.compute_s));
  }
  if (!p.hardware.empty()) text += fmt::format("  of best: the time by {}, of the time taken\n", p.hardware);
  return text;
}

std::string path_text(const StepProfile& p) {
  std::string text = fmt::format("critical path of step {}: {}\n", p.step, format_duration(p.step_s));
  size_t rows = 0;
  for (const PathShare& share : p.path) {
    if (rows++ == kMostShares || share.seconds < kLeast * p.step_s) break;
    text += fmt::format("  {:>9} {:>4.0f} %  rank {}: {}\n", format_duration(share.seconds), percent(share.seconds, p.step_s),
                        share.rank, share.what);
  }
  return text;
}

std::string wait_text(const RankWait& wait, double step_s) {
  const double all = wait.late_s + wait.moving_s;
  std::string text =
      fmt::format("  {:>9} {:>4.0f} %  rank {} for {}", format_duration(all), percent(all, step_s), wait.rank, wait.kind);
  if (wait.late_rank < 0) return text + ": bytes\n";
  text += fmt::format(": {} for rank {}", format_duration(wait.late_s), wait.late_rank);
  if (!wait.late_kind.empty()) text += fmt::format(" (in {})", wait.late_kind);
  return text + fmt::format(", {} for bytes\n", format_duration(wait.moving_s));
}

std::string waits_text(const StepProfile& p) {
  std::string text;
  size_t rows = 0;
  for (const RankWait& wait : p.waits) {
    if (rows++ == kMostWaits || wait.late_s + wait.moving_s < kLeast * p.step_s) break;
    text += wait_text(wait, p.step_s);
  }
  return text.empty() ? text : "longest waits:\n" + text;
}

std::string faster_text(const StepProfile& p) {
  std::string text;
  size_t rows = 0;
  const auto won = [&](double seconds) { return std::max(0.0, percent(p.replayed_s - seconds, p.replayed_s)); };
  for (const FasterStep& faster : p.faster) {
    if (rows++ == kMostFaster || won(faster.nothing_s) < 100.0 * kLeast) break;
    text += fmt::format("  {:<36} {:>9} {:>12.0f} % {:>12.0f} %\n", faster.what, format_duration(faster.seconds),
                        won(faster.half_s), won(faster.nothing_s));
  }
  if (text.empty()) return text;
  return fmt::format("the step would be shorter by\n  {:<36} {:>9} {:>14} {:>14}\n", "if this", "takes now", "took half",
                     "took nothing") +
         text;
}

/// Without blanks at the ends of lines.
std::string trimmed(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    begin = end + 1;
  }
  return result;
}

}  // namespace

std::string profile_text(const StepProfile& profile) {
  std::string text = "profile of " + steps_text(profile.steps) + "\n";
  for (const std::string& part : {path_text(profile), waits_text(profile), faster_text(profile), operators_text(profile)}) {
    if (!part.empty()) text += "\n" + part;
  }
  return trimmed(text);
}

std::string profile_json(const StepProfile& profile) {
  Json operators = Json::array(), path = Json::array(), waits = Json::array(), faster = Json::array();
  for (const OperatorRow& x : profile.operators) {
    Json row = {{"name", x.name}, {"in", x.kind}, {"calls", x.calls}, {"seconds", x.seconds}};
    if (!x.shape.empty()) row["shape"] = x.shape;
    if (x.flops > 0.0) row["flops"] = x.flops;
    if (x.bytes > 0.0) row["bytes"] = x.bytes;
    if (x.best_s > 0.0) row["best_s"] = x.best_s;
    operators.push_back(std::move(row));
  }
  for (const PathShare& x : profile.path) path.push_back({{"rank", x.rank}, {"what", x.what}, {"seconds", x.seconds}});
  for (const RankWait& x : profile.waits) {
    Json row = {{"rank", x.rank}, {"for", x.kind}, {"late_s", x.late_s}, {"moving_s", x.moving_s}};
    if (x.late_rank >= 0) row.update({{"late_rank", x.late_rank}, {"late_in", x.late_kind}});
    waits.push_back(std::move(row));
  }
  for (const FasterStep& x : profile.faster) {
    faster.push_back({{"what", x.what}, {"seconds", x.seconds}, {"half_s", x.half_s}, {"nothing_s", x.nothing_s}});
  }
  const Json json = {{"steps", profile.steps},           {"step", profile.step},
                     {"step_s", profile.step_s},         {"replayed_s", profile.replayed_s},
                     {"compute_s", profile.compute_s},   {"kernels_s", profile.kernels_s},
                     {"hardware", profile.hardware},     {"operators", std::move(operators)},
                     {"critical_path", std::move(path)}, {"waits", std::move(waits)},
                     {"faster", std::move(faster)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
