#include "weft/report/page/page_charts.h"

#include <algorithm>
#include <iterator>

namespace weft {

std::vector<PageChart> charts_of(const std::vector<const RunHistory*>& runs) {
  std::vector<std::string> names;
  const auto add_name = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  std::vector<std::string> sets;
  for (const RunHistory* run : runs) {
    for (const MetricColumn& column : run->metrics().columns) add_name(column.name);
    for (const EvaluationRecord& evaluation : run->metrics().evaluations) {
      for (const RecordValue& value : evaluation.values) {
        const std::string name = evaluation.set + "/" + value.name;
        if (value.name != "seconds" && std::find(sets.begin(), sets.end(), name) == sets.end()) sets.push_back(name);
      }
    }
  }
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const auto all_of = [&](const std::string& prefix) {
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found),
                 [&](const std::string& name) { return name.starts_with(prefix); });
    return found;
  };
  std::vector<PageChart> charts = {{"Loss", {"loss"}, true}};
  for (const std::string& set : sets) charts.push_back({"Evaluation: " + set, {set}});
  charts.push_back(
      {has("tokens_per_s") ? "Tokens a second" : "Samples a second", {has("tokens_per_s") ? "tokens_per_s" : "samples_per_s"}});
  charts.push_back({"Learning rate", {"lr"}});
  charts.push_back({"Gradient norm", {"grad_norm"}});
  charts.push_back({"Share of the peak rate (MFU)", {"mfu"}});
  charts.push_back({"Critical batch, samples", {"critical_batch"}});
  charts.push_back({"Loss scale (fp16)", {"loss_scale"}});
  charts.push_back({"Parts of a step, seconds", all_of("time/")});
  charts.push_back({"Exposed communication by axis, seconds", all_of("communication/")});
  charts.push_back({"Memory by category, bytes", all_of("memory/")});
  charts.push_back({"Slowest rank: its own work over the others' median", {"ranks/slowest_times"}});
  const auto is_empty = [&](const PageChart& chart) {
    return std::none_of(chart.names.begin(), chart.names.end(), [&](const std::string& name) {
      return has(name) || std::find(sets.begin(), sets.end(), name) != sets.end();
    });
  };
  charts.erase(std::remove_if(charts.begin(), charts.end(), is_empty), charts.end());
  return charts;
}

}  // namespace weft
