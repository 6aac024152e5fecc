// weft runs: the runs below a folder, with what differs between them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/repeatable.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/run_index.h"
#include "weft/report/history/figure_text.h"
#include "weft/report/history/run_history.h"
#include "weft/report/history/text_table.h"

namespace weft {

namespace {

struct RunsArguments {
  std::string folder;
  RunQuery query;
  bool json = false;
};

std::string value_of_key(const IndexedRun& run, const std::string& key) {
  const auto found = std::find_if(run.keys.begin(), run.keys.end(), [&](const auto& one) { return one.first == key; });
  return found == run.keys.end() ? "-" : found->second;
}

/// For each run, the first run with the same value.
using Pattern = std::vector<size_t>;

Pattern pattern_of(const std::vector<IndexedRun>& runs, const std::string& key) {
  std::map<std::string, size_t> firsts;
  Pattern pattern;
  for (size_t i = 0; i < runs.size(); ++i) pattern.push_back(firsts.try_emplace(value_of_key(runs[i], key), i).first->second);
  return pattern;
}

/// Keys that tell the runs apart: recipe keys, then what was planned where no recipe key tells the same. Names and places say
/// nothing of what a run does, nor do seeds where each run has its own, unless nothing else differs.
std::vector<std::string> differing_keys(const std::vector<IndexedRun>& runs) {
  constexpr std::string_view kPlanned = "planned.", kSeed = "run.seed";
  std::set<std::string> all;
  for (const IndexedRun& run : runs) {
    for (const auto& [key, value] : run.keys) all.insert(key);
  }
  Pattern own(runs.size());
  std::iota(own.begin(), own.end(), size_t{0});
  std::set<Pattern> seen;
  std::vector<std::string> keys;
  bool has_own_seeds = false;
  const auto add = [&](const std::string& key, bool only_new) {
    const Pattern pattern = pattern_of(runs, key);
    if (std::count(pattern.begin(), pattern.end(), size_t{0}) == static_cast<std::ptrdiff_t>(runs.size())) return;
    if (key == kSeed && pattern == own) {
      has_own_seeds = true;
    } else if (seen.insert(pattern).second || !only_new) {
      keys.push_back(key);
    }
  };
  for (const bool planned : {false, true}) {
    for (const std::string& key : all) {
      if (key.starts_with(kPlanned) == planned && !names_a_run(key)) add(key, planned);
    }
  }
  if (keys.empty() && has_own_seeds) keys.emplace_back(kSeed);
  return keys;
}

std::string table_of(const std::vector<IndexedRun>& runs) {
  constexpr size_t kMostKeys = 4;
  std::vector<std::string> keys = differing_keys(runs);
  const size_t all = keys.size();
  keys.resize(std::min(all, kMostKeys));
  const auto has = [&](auto member) {
    return std::any_of(runs.begin(), runs.end(), [&](const IndexedRun& run) { return run.*member; });
  };
  const bool evaluated = has(&IndexedRun::evaluation_loss), accurate = has(&IndexedRun::accuracy);
  std::vector<std::vector<std::string>> rows(1);
  rows[0] = {"run", "state", "started", "steps", "loss"};
  if (evaluated) rows[0].emplace_back("best evaluation");
  if (accurate) rows[0].emplace_back("best accuracy");
  rows[0].emplace_back("samples/s");
  rows[0].insert(rows[0].end(), keys.begin(), keys.end());
  for (const IndexedRun& run : runs) {
    std::vector<std::string> row = {
        printable(run.path), run.standing, run.started,
        run.steps_in_all > 0 ? fmt::format("{}/{}", run.steps, run.steps_in_all) : std::to_string(run.steps),
        run.loss ? figure_text(*run.loss) : "-"};
    if (evaluated) row.push_back(run.evaluation_loss ? figure_text(*run.evaluation_loss) : "-");
    if (accurate) row.push_back(run.accuracy ? fmt::format("{:.2f} %", 100.0 * *run.accuracy) : "-");
    row.push_back(run.samples_per_s ? format_count(*run.samples_per_s) : "-");
    for (const std::string& key : keys) row.push_back(shortened(value_of_key(run, key), 24));
    rows.push_back(std::move(row));
  }
  std::string text = text_table(rows);
  if (all > kMostKeys) text += fmt::format("and {} more keys that differ: weft compare shows them\n", all - kMostKeys);
  return text;
}

std::string json_of(const std::vector<IndexedRun>& runs) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto or_null = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  for (const IndexedRun& run : runs) {
    nlohmann::ordered_json keys = nlohmann::ordered_json::object();
    for (const auto& [key, value] : run.keys) keys[key] = value;
    all.push_back({{"path", run.path},
                   {"name", run.name},
                   {"standing", run.standing},
                   {"started", run.started},
                   {"steps", run.steps},
                   {"steps_in_all", run.steps_in_all},
                   {"loss", or_null(run.loss)},
                   {"evaluation_loss", or_null(run.evaluation_loss)},
                   {"accuracy", or_null(run.accuracy)},
                   {"samples_per_s", or_null(run.samples_per_s)},
                   {"hours", or_null(run.hours)},
                   {"keys", std::move(keys)}});
  }
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void list_runs(const RunsArguments& arguments) {
  RunIndex index(arguments.folder);
  const int64_t count = index.refresh();
  const std::vector<IndexedRun> runs = index.find(arguments.query);
  if (arguments.json) return write_out(json_of(runs));
  if (!index.note().empty()) write_out(index.note() + "\n");
  if (runs.empty()) {
    write_out(count == 0
                  ? fmt::format("no runs below {}: none of its folders has an events.jsonl\n", printable(arguments.folder))
                  : fmt::format("none of {} is as --where says\n", counted(count, "run")));
    return;
  }
  write_out(table_of(runs));
}

}  // namespace

void add_runs(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("runs", "List the runs below a folder");
  auto arguments = std::make_shared<RunsArguments>();
  command->add_option("folder", arguments->folder, "Folder in which runs keep their records, at any depth")->required();
  repeatable(command->add_option("--where", arguments->query.where, "Only runs with this value of a recipe key; repeatable"),
             "KEY=VALUE");
  command->add_option("--sort", arguments->query.sort, "Column or recipe key to sort by")->capture_default_str();
  command->add_flag("--reverse", arguments->query.reverse, "Greatest first");
  command->add_flag("--json", arguments->json, "Print JSON, with all keys");
  command->footer(
      "Keeps an index in FOLDER/runs.sqlite, which SQLite's shell reads too. It follows\n"
      "from the runs' records and may be removed.\n"
      "\n"
      "Example:\n"
      "  weft runs runs --where optimizer.name=adamw --sort accuracy --reverse");
  command->callback([arguments, &status] {
    list_runs(*arguments);
    status = 0;
  });
}

}  // namespace weft
