#include "weft/cli/output/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/cli/output/output.h"

namespace weft {

namespace {

/// What texts of the field call an approach, and the rule that leads to it.
struct ApproachText {
  const char* name;
  const char* rule;
};

constexpr std::array<ApproachText, 7> kApproaches = {{
    {"single device", "one device: the model fits it, and there is no second"},
    {"replicas", "replicas: a whole model on each rank, which only sum their gradients"},
    {"sharded states",
     "sharded states (ZeRO-1, ZeRO-2): replicas that share out optimizer state or gradients, for the bytes of replicas"},
    {"sharded", "sharded (ZeRO-3, FSDP): each rank keeps a part of the weights and gathers the rest block by block"},
    {"pipeline",
     "pipeline: each rank holds consecutive blocks and sends activations, which suits slow links; replicas of a stage sum "
     "gradients"},
    {"tensor", "tensor parallel: layers are split over ranks, whose links must be fast: those inside a host"},
    {"hybrid", "hybrid: several of these together: tensor parallel inside hosts, pipeline and replicas across"},
}};

std::string rate_text(const LayoutForecast& layout) {
  return format_count(layout.tokens_per_s > 0.0 ? layout.tokens_per_s : layout.samples_per_s);
}

/// The text in lines, of which the first has its own indent and the others `indent`.
std::string paragraph(const std::string& text, size_t indent) { return wrapped(text, indent) + "\n"; }

std::string indented(const std::string& text) { return paragraph("     " + text, 7); }

std::string layout_rows(const LayoutForecast& layout, size_t place, double fastest_s) {
  std::string text = fmt::format(
      "  {:<2} {:>9}  {:>9}  {:>5.1f} %  {:>9}  {:>9}  {:>5.1f} %", place, format_duration(layout.step_s), rate_text(layout),
      100.0 * layout.mfu, format_bytes(layout.memory_bytes), format_duration(layout.exposed_s), 100.0 * layout.bubble_share);
  if (place > 1) text += fmt::format("  {:>+5.1f} %", 100.0 * (layout.step_s / fastest_s - 1.0));
  text += "\n" + indented(layout.text);
  return layout.limited_by.empty() ? text : text + indented("limit: " + layout.limited_by);
}

}  // namespace

std::string best_layouts_text(const std::vector<LayoutForecast>& best) {
  const bool has_tokens = !best.empty() && best.front().tokens_per_s > 0.0;
  std::string text = fmt::format("  {:<2} {:>9}  {:>9}  {:>7}  {:>9}  {:>9}  {:>7}\n", "", "step",
                                 has_tokens ? "tokens/s" : "samples/s", "MFU", "memory", "exposed", "bubble");
  for (size_t i = 0; i < best.size(); ++i) text += layout_rows(best[i], i + 1, best.front().step_s);
  return text;
}

std::string approach_text(Approach approach) {
  return paragraph(fmt::format("approach: {}", kApproaches[static_cast<size_t>(approach)].rule), 2);
}

std::string simpler_text(const SearchResult& result) {
  if (!result.simpler) return {};
  const LayoutForecast &simpler = *result.simpler, &fastest = result.best.front();
  const auto row = std::find_if(result.best.begin(), result.best.end(), [&](const auto& x) { return x.text == simpler.text; });
  const std::string which =
      row == result.best.end() ? simpler.text : fmt::format("layout {}", std::distance(result.best.begin(), row) + 1);
  return paragraph(fmt::format("simpler, and within {:.0f} %: {} in {} ({:+.1f} %), {}: {}", 100.0 * kAboutAsFast,
                               approach_name(simpler.approach), format_duration(simpler.step_s),
                               100.0 * (simpler.step_s / fastest.step_s - 1.0), format_bytes(simpler.memory_bytes), which),
                   2);
}

std::string approach_name(Approach approach) { return kApproaches[static_cast<size_t>(approach)].name; }

std::string order_text(const OrderCheck& check, size_t shown) {
  const int percent = static_cast<int>(std::lround(100.0 * check.noise));
  if (check.layouts < 2) {
    return paragraph(fmt::format("order: no other layout is within {} % of the first, which stays the first", percent), 2);
  }
  if (check.changes.empty()) {
    return paragraph(
        fmt::format("order: of the {} fastest layouts, the first stays first if any class of the hardware's numbers is "
                    "{} % off",
                    check.layouts, percent),
        2);
  }
  std::string text;
  for (const OrderChange& change : check.changes) {
    const std::string fastest =
        change.fastest < shown ? fmt::to_string(change.fastest + 1) : fmt::format("{} ({})", change.fastest + 1, change.layout);
    text += paragraph(fmt::format("order: with {} {} % {}, layout {} is the fastest; {} measures them", change.numbers, percent,
                                  change.slower > 1.0 ? "worse" : "better", fastest, change.measured_by),
                      2);
  }
  return text;
}

std::string left_out_text(const std::vector<LeftOut>& left_out, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, left_out.size()); ++i) {
    const LeftOut& group = left_out[i];
    text += paragraph(fmt::format("  {} ({}): {}", group.text, counted(group.layouts, "layout"), group.why), 4);
  }
  if (left_out.size() > most) text += fmt::format("  ... and {} more groups\n", left_out.size() - most);
  return text.empty() ? text : "left out:\n" + text;
}

std::string counts_text(const PlanReport& report) {
  const SearchResult& result = report.result;
  return paragraph(
      fmt::format("searched {} in {}: {} illegal, {} over memory by a lower bound, {} not simulated because their lower bound "
                  "is above the {} fastest, {} simulated{}",
                  counted(result.layouts, "layout"), format_duration(result.seconds), result.illegal,
                  result.over_memory - result.too_large, result.bounded, report.sought, result.simulated,
                  result.too_large > 0 ? fmt::format(", of which {} over memory", result.too_large) : ""),
      2);
}

std::string space_text(const std::vector<std::string>& space) {
  std::string text = "the space:\n";
  for (const std::string& line : space) text += paragraph("  " + line, 4);
  return text;
}

std::string measured_text(const PlanReport& report, const std::string& crowding) {
  std::string text = paragraph(fmt::format("measured here{}:", crowding), 2);
  for (size_t i = 0; i < report.measured.size(); ++i) {
    const MeasuredLayout& measured = report.measured[i];
    const double predicted_s = report.result.best[i].step_s;
    if (!measured.failure.empty()) {
      text += paragraph(fmt::format("  {:<2} {}", i + 1, printable(measured.failure)), 5);
      continue;
    }
    text += fmt::format("  {:<2} {:>9}, predicted {} ({:+.0f} %)\n", i + 1, format_duration(measured.step_s),
                        format_duration(predicted_s), 100.0 * (predicted_s / measured.step_s - 1.0));
  }
  return report.chosen ? text + fmt::format("  the fastest: layout {}\n", *report.chosen + 1) : text;
}

std::string remedies_text(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) return "nothing that was tried makes it fit: see what was left out above\n";
  std::string text = "what would make it fit, the cheapest first:\n";
  for (const Remedy& remedy : remedies) {
    const LayoutForecast& then = remedy.forecast;
    text += paragraph(fmt::format("  {}: {}, step {}, {}", remedy.text, then.text, format_duration(then.step_s),
                                  format_bytes(then.memory_bytes)),
                      4);
  }
  return text;
}

std::string why_none_fits(const PlanReport& report) {
  const SearchResult& result = report.result;
  const std::string path = printable(report.recipe), ranks = counted(report.ranks, "rank");
  const std::string remedy = report.remedies.empty() ? "" : report.remedies.front().text;
  if (result.over_memory > 0) {
    return fmt::format("{}: no layout fits {}; {}", path, ranks,
                       remedy.empty() ? "nothing that was tried makes it fit" : "it would fit " + remedy);
  }
  return fmt::format("{}: no layout is possible on {}: {}{}", path, ranks,
                     result.layouts > 0 ? closest_text(result.left_out) : "the axes that --keep fixes do not divide them",
                     remedy.empty() ? "" : "; one is possible " + remedy);
}

}  // namespace weft
