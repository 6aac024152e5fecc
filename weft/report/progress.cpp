#include "weft/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/report/skipped_data.h"

namespace weft {

namespace {

constexpr int kLeastBar = 10, kMostBar = 40;
constexpr const char* kEraseToEnd = "\x1b[K";

std::string rate(double samples_per_s, double tokens_per_s) {
  if (tokens_per_s > 0) return fmt::format("{} tokens/s", format_count(tokens_per_s));
  return fmt::format("{} samples/s", format_count(samples_per_s));
}

/// Whole seconds: tenths would flicker.
std::string time_left(const StepReport& report) {
  if (report.seconds_left < 0 || report.step >= report.steps) return "";
  const double seconds = std::ceil(report.seconds_left);
  return seconds < 100.0 ? fmt::format("{:.0f} s left", seconds) : fmt::format("{} left", format_duration(seconds));
}

/// 1, 2 or 5 times a power of ten, at most `most`, and at least 1.
int64_t round_number(double most) {
  double power = 1.0;
  while (power * 10.0 <= most) power *= 10.0;
  for (const double factor : {5.0, 2.0}) {
    if (factor * power <= most) return static_cast<int64_t>(factor * power);
  }
  return static_cast<int64_t>(power);
}

/// Four decimals, or four digits for large losses.
std::string loss_text(double loss) {
  return std::fabs(loss) < 1e4 ? fmt::format("loss {:.4f}", loss) : fmt::format("loss {:.4g}", loss);
}

std::string counter(const StepReport& report) {
  const std::string steps = std::to_string(report.steps);
  return fmt::format("{:>{}}/{}", report.step, steps.size(), steps);
}

std::string bar(const StepReport& report, int inside) {
  const double share = report.steps > 0 ? static_cast<double>(report.step) / static_cast<double>(report.steps) : 0.0;
  const int filled = std::clamp(static_cast<int>(share * inside), 0, inside);
  std::string text(static_cast<size_t>(filled), '=');
  if (filled < inside) text += '>';
  text.resize(static_cast<size_t>(inside), ' ');
  return "[" + text + "]";
}

size_t columns_of(const std::vector<std::string>& parts) {
  size_t columns = 0;
  for (const std::string& part : parts) {
    if (!part.empty()) columns += part.size() + (columns > 0 ? 2 : 0);
  }
  return columns;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : "  ") + part;
  }
  return text;
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

/// Metrics of an evaluation besides the loss.
std::string beside_loss(const EvaluationReport& report) {
  return joined({report.perplexity ? fmt::format("perplexity {:.4g}", *report.perplexity) : "",
                 report.accuracy ? "accuracy " + percent(*report.accuracy) : "",
                 report.top5 ? "top-5 " + percent(*report.top5) : ""});
}

std::string best_text(const BestEvaluation& best, bool by_accuracy) {
  if (by_accuracy && best.accuracy)
    return fmt::format("accuracy {} after step {}", percent(best.accuracy->value), best.accuracy->step);
  return fmt::format("loss {:.4f} after step {}", best.loss->value, best.loss->step);
}

void add_evaluations(const FinalReport& report, std::vector<std::pair<std::string, std::string>>& rows) {
  if (!report.evaluation) return;
  const EvaluationReport& own = *report.evaluation;
  rows.emplace_back("evaluation",
                    joined({fmt::format("loss {:.4f}", own.loss), own.averaged ? "(of the average of the weights)" : ""}));
  if (own.perplexity) rows.emplace_back("perplexity", fmt::format("{:.4g}", *own.perplexity));
  if (own.accuracy) rows.emplace_back("accuracy", percent(*own.accuracy));
  if (own.top5) rows.emplace_back("top-5", percent(*own.top5));
  // For token models, rank by loss.
  if (report.best.loss) rows.emplace_back("best", best_text(report.best, !own.perplexity));
  for (const EvaluationReport& other : report.other_evaluations) {
    rows.emplace_back(printable(name_beside(own, other)), joined({fmt::format("loss {:.4f}", other.loss), beside_loss(other)}));
  }
}

/// The range of the ranks' peaks, in MiB.
std::string memory(const std::vector<double>& peak_mb) {
  if (peak_mb.empty()) return "unknown";
  const auto [least, most] = std::minmax_element(peak_mb.begin(), peak_mb.end());
  if (fmt::format("{:.0f}", *least) == fmt::format("{:.0f}", *most)) return fmt::format("{:.0f} MB per rank", *most);
  return fmt::format("{:.0f} to {:.0f} MB per rank", *least, *most);
}

/// ", predicted 500 MB (+3 %)": by how much the prediction is above what was measured.
std::string beside_predicted(const std::string& predicted, double predicted_value, double measured) {
  if (measured <= 0.0) return ", predicted " + predicted;
  return fmt::format(", predicted {} ({:+.0f} %)", predicted, 100.0 * (predicted_value / measured - 1.0));
}

std::string step_text(const FinalReport& report) {
  const double measured_s = 1e-3 * report.step_ms_p50;
  return format_duration(measured_s) +
         beside_predicted(format_duration(report.predicted->step_s), report.predicted->step_s, measured_s);
}

/// Peaks of the ranks beside what was predicted for the fullest.
std::string memory_text(const FinalReport& report, const std::vector<double>& peak_mb) {
  if (!report.predicted || peak_mb.empty()) return memory(peak_mb);
  const double predicted_mb = report.predicted->memory_mb;
  return memory(peak_mb) + beside_predicted(fmt::format("{:.0f} MB", predicted_mb), predicted_mb,
                                            *std::max_element(peak_mb.begin(), peak_mb.end()));
}

std::string communication(const FinalReport& report) {
  if (report.world == 1) return "none (one rank)";
  int64_t most = 0;
  for (const int64_t bytes : report.traffic_bytes) most = std::max(most, bytes);
  return fmt::format("{:.1f} % of the time, {} per rank over {}", 100.0 * report.communication_share, format_bytes(most),
                     report.backend);
}

std::string waits_for_data(const FinalReport& report) {
  constexpr double kMuch = 0.05;
  return fmt::format("steps waited for it {:.1f} % of the time{}", 100.0 * report.data_wait_share,
                     report.data_wait_share > kMuch ? "; more data.workers may help, or a faster disk" : "");
}

std::string target_text(const FinalReport& report) {
  if (report.target_step) return fmt::format("{}: reached after step {}", report.target, *report.target_step);
  return fmt::format("{}: not reached in {}", report.target, counted(report.steps_done, "step"));
}

std::string critical_batch(const NoiseEstimate& noise) {
  const std::string steps = counted(noise.steps, "step");
  if (!noise.batch) return fmt::format("unknown after {}: their gradients were all noise, or had none; measure longer", steps);
  const std::string spread = noise.spread ? fmt::format(" +- {}", format_count(*noise.spread)) : "";
  return fmt::format("{}{} samples, from the gradient noise scale over {}", format_count(*noise.batch), spread, steps);
}

std::string steps_text(const FinalReport& report) {
  const int64_t here = report.steps_done - report.resumed_from;
  if (report.resumed_from == 0 && !report.stopped) {
    return report.target_step ? fmt::format("{} of {} steps", report.steps_done, report.steps) : counted(report.steps, "step");
  }
  return fmt::format("{} here, {} of {} in all", counted(here, "step"), report.steps_done, report.steps);
}

}  // namespace

std::string progress_bar(const StepReport& report, int width) {
  // Leaves the last column free: some terminals wrap when it is written.
  const size_t room = static_cast<size_t>(std::max(width - 1, 1));
  std::vector<std::string> parts = {counter(report),
                                    "",
                                    loss_text(report.loss),
                                    rate(report.samples_per_s, report.tokens_per_s),
                                    fmt::format("lr {:.3g}", report.lr),
                                    time_left(report)};
  constexpr size_t kFrame = 4;  // two spaces, two brackets
  if (columns_of(parts) + kFrame + kLeastBar > room) parts[4].clear();
  for (const size_t least : {3, 5, 2}) {
    if (columns_of(parts) > room) parts[least].clear();
  }
  const size_t used = columns_of(parts) + kFrame;
  if (used + kLeastBar <= room) parts[1] = bar(report, static_cast<int>(std::min<size_t>(room - used, kMostBar)));
  return joined(parts).substr(0, room);
}

std::string progress_line(const StepReport& report) {
  constexpr size_t kColumns = 80;
  std::vector<std::string> parts = {fmt::format("step {}", counter(report)),
                                    loss_text(report.loss),
                                    report.norm > 0.0 ? fmt::format("norm {:.3g}", report.norm) : "",
                                    rate(report.samples_per_s, report.tokens_per_s),
                                    fmt::format("lr {:.3g}", report.lr),
                                    time_left(report)};
  for (const size_t least : {5, 4}) {
    if (columns_of(parts) > kColumns) parts[least].clear();
  }
  return joined(parts);
}

std::string evaluation_line(const EvaluationReport& report) {
  const std::string set = report.set.empty() ? "" : (report.averaged ? " on " : " of ") + printable(report.set);
  const std::string when = report.step < 0 ? "" : fmt::format(" after step {}", report.step);
  return joined({fmt::format("evaluation{}{}{}: loss {:.4f}", report.averaged ? " of the average" : "", set, when, report.loss),
                 beside_loss(report), fmt::format("({})", format_duration(report.seconds))});
}

std::string save_line(const SaveReport& report) {
  const std::string waited =
      report.waited_s < 0.0005 ? "" : fmt::format(", and {} for the previous save", format_duration(report.waited_s));
  return fmt::format("saved {}: {} in {}, steps paused for {}{}{}", printable(report.path), format_bytes(report.bytes),
                     format_duration(report.seconds), format_duration(report.copied_s), waited,
                     report.note.empty() ? "" : "; but then: " + report.note);
}

namespace {

std::string loss_warning(const FinalReport& report) {
  constexpr double kMuch = 10.0;
  if (!(report.late_loss >= kMuch * report.least_loss) || report.least_loss <= 0.0) return "";
  return fmt::format(
      "warning: the loss has risen from {:.3g} to {:.3g}: this training diverges.\n"
      "A lower optimizer.lr, a longer optimizer.warmup or optimizer.clip may help.\n",
      report.least_loss, report.late_loss);
}

}  // namespace

std::string final_table(const FinalReport& report) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"model",
       fmt::format("{}, {} parameters, {} with {} each", report.model, format_count(static_cast<double>(report.parameters)),
                   counted(report.world, "rank"), counted(report.threads_per_rank, "thread"))},
      {"time", fmt::format("{} ({})", format_duration(report.seconds), steps_text(report))},
  };
  if (report.samples_per_s > 0.0) rows.emplace_back("rate", rate(report.samples_per_s, report.tokens_per_s));
  if (report.predicted && report.step_ms_p50 > 0.0) rows.emplace_back("step", step_text(report));
  if (!report.learning_rate_rule.empty()) {
    const bool is_reached = report.largest_rate >= report.learning_rate * (1.0 - 1e-6);
    rows.emplace_back("learning rate",
                      fmt::format("{:.3g} at its peak: {}{}", report.learning_rate, report.learning_rate_rule,
                                  is_reached ? "" : fmt::format("; no step exceeded {:.3g}", report.largest_rate)));
  }
  if (report.noise_scale) rows.emplace_back("critical batch", critical_batch(*report.noise_scale));
  rows.emplace_back("loss", fmt::format("{:.4f}", report.loss));
  add_evaluations(report, rows);
  if (!report.target.empty()) rows.emplace_back("target", target_text(report));
  if (report.saves > 0) {
    rows.emplace_back("saved", fmt::format("{}, steps paused for {}", counted(report.saves, "checkpoint"),
                                           format_duration(report.save_stall_s)));
  }
  if (report.peak_device_mb.empty()) {
    rows.emplace_back("peak memory", memory_text(report, report.peak_rss_mb));
  } else {
    rows.emplace_back("peak on device", memory_text(report, report.peak_device_mb));
    rows.emplace_back("peak on host", memory(report.peak_rss_mb));
  }
  rows.emplace_back("communication", communication(report));
  if (report.data_wait_share >= 0.01) rows.emplace_back("data", waits_for_data(report));
  if (const auto& names = report.skipped_data; !names.empty()) {
    rows.emplace_back("skipped data", skipped_text(names, report.skipped_more));
  }
  if (report.skipped_steps > 0) {
    rows.emplace_back("skipped steps",
                      fmt::format("{} (a gradient was not finite; the loss scale was halved)", report.skipped_steps));
  }
  std::string table;
  for (const auto& [name, value] : rows) table += fmt::format("  {:<14} {}\n", name, value);
  return table + loss_warning(report);
}

bool Progress::line_is_due(const StepReport& report, double now_s) const {
  constexpr double kLines = 20.0;
  if (report.step == first_step_ || report.step == report.steps) return true;
  const double step_s = (now_s - first_s_) / static_cast<double>(report.step - first_step_);
  const double slow = step_s > 0.0 ? options_.longest_gap_s / step_s : HUGE_VAL;
  return report.step % round_number(std::min(static_cast<double>(report.steps) / kLines, slow)) == 0;
}

std::string Progress::redraw(int width) const {
  return drawn_ ? fmt::format("\r{}{}", progress_bar(last_, width), kEraseToEnd) : "";
}

std::string Progress::step(const StepReport& report, double now_s, int width) {
  if (first_step_ == 0) {
    first_step_ = report.step;
    first_s_ = now_s;
  }
  const bool line_due = line_is_due(report, now_s);
  if (!options_.terminal) return line_due ? progress_line(report) + "\n" : "";
  if (drawn_ && now_s - drawn_s_ < options_.redraw_s && !line_due) return "";
  drawn_ = true;
  drawn_s_ = now_s;
  last_ = report;
  return line_due ? line(progress_line(report), width) : redraw(width);
}

std::string Progress::line(const std::string& text, int width) {
  if (!options_.terminal) return text + "\n";
  return fmt::format("\r{}{}\n{}", text, kEraseToEnd, redraw(width));
}

std::string Progress::evaluation(const EvaluationReport& report, int width) { return line(evaluation_line(report), width); }

std::string Progress::end_line() {
  const bool mid_line = options_.terminal && drawn_;
  drawn_ = false;
  return mid_line ? "\n" : "";
}

std::string Progress::finish(const FinalReport& report) { return end_line() + final_table(report); }

}  // namespace weft
