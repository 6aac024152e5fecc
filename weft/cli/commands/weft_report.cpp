// weft report: runs as one HTML file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/run_parts.h"
#include "weft/cli/output/run_reader.h"
#include "weft/launch/shell_words.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/report/page/report_page.h"
#include "weft/report/records/record_files.h"
#include "weft/study/read_results.h"
#include "weft/study/report_parts.h"

namespace weft {

namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out = "report.html";
};

std::map<std::string, std::string> recipe_of(const RunHistory& run) {
  const auto values = start_details(run, "recipe.");
  return {values.begin(), values.end()};
}

/// A key that names the run or its folders, or needs one.
bool is_of_a_folder(const std::string& key) {
  constexpr std::array<std::string_view, 4> kNeeds = {"run.csv", "run.tensorboard", "run.log_every", "run.histograms_every"};
  return names_a_run(key) || key.starts_with("save.") || std::find(kNeeds.begin(), kNeeds.end(), key) != kNeeds.end();
}

/// What trains the same: without folders, in which the run would go on.
std::string command_of(const RunHistory& run) {
  const std::string ranks = start_detail(run, "ranks");
  std::string text =
      fmt::format("weft train {} -n {}", shell_word(start_detail(run, "recipe")), shell_word(ranks.empty() ? "1" : ranks));
  const std::map<std::string, std::string> usual = recipe_values(Recipe());
  for (const auto& [key, value] : recipe_of(run)) {
    const auto found = usual.find(key);
    if (value != "left out" && !is_of_a_folder(key) && (found == usual.end() || found->second != value))
      text += fmt::format(" \\\n  --set {}", shell_word(fmt::format("{}={}", key, value)));
  }
  return text;
}

constexpr int64_t kLongestResults = int64_t{1} << 26;

/// Adds what a file of weft study or weft scale holds; false: it is no such file.
bool add_results(const std::filesystem::path& file, ReportOptions& options) {
  if (!std::filesystem::is_regular_file(file)) return false;
  const std::string text = read_text_file("results", file, kLongestResults);
  if (file.filename() == kStudyFile) {
    options.parts.push_back(study_part(parse_study(text, file)));
  } else {
    const ScaleStudy study = parse_scale(text, file);
    for (ReportPart& part : scale_parts(study, fmt::format("weft scale of {}.", printable(study.recipe))))
      options.parts.push_back(std::move(part));
  }
  const std::string name = std::filesystem::absolute(file).lexically_normal().parent_path().filename();
  if (options.studies.empty() || options.studies.back() != name) options.studies.push_back(name);
  return true;
}

/// Results in a folder, or the file itself.
bool add_all_results(const std::string& place, ReportOptions& options) {
  const std::filesystem::path path(place);
  if (path.filename() == kStudyFile || path.filename() == kScaleFile) return add_results(path, options);
  const bool has_study = add_results(path / kStudyFile, options);
  return add_results(path / kScaleFile, options) || has_study;
}

ReportOptions report_options(const std::vector<RunReader>& readers, const std::vector<const RunHistory*>& runs) {
  ReportOptions options{.now_s = unix_time_s()};
  for (const auto& [key, value] : recipe_values(Recipe())) options.defaults.emplace_back(key, value);
  if (runs.size() == 1) {
    options.parts = run_parts(readers.front());
    options.command = command_of(*runs.front());
  } else if (runs.size() > 1) {
    if (const std::optional<ScaleStudy> scaling = scaling_of(runs))
      options.parts = scale_parts(*scaling, "These runs differ in the number of ranks alone: the median step of each.");
  }
  return options;
}

void write_report(const ReportArguments& arguments) {
  const std::filesystem::path out(arguments.out);
  if (out.extension() != ".html" && out.extension() != ".htm") {
    throw InputError(
        fmt::format("-o {}: a report is an HTML file; give it a name that ends with .html", printable(arguments.out)));
  }
  check_writable(arguments.out);
  ReportOptions results;
  std::vector<std::string> places;
  for (const std::string& place : arguments.runs) {
    if (!add_all_results(place, results) || has_records(place)) places.push_back(place);
  }
  const std::vector<RunReader> readers = read_runs(places);
  const std::vector<const RunHistory*> runs = histories_of(readers);
  ReportOptions options = report_options(readers, runs);
  std::move(results.parts.begin(), results.parts.end(), std::back_inserter(options.parts));
  options.studies = results.studies;
  const std::string page = report_page(runs, options);
  write_file(arguments.out, page);
  const size_t studies = options.studies.size();
  write_out(
      fmt::format("{}: report of {}{}, {}\n", printable(arguments.out), counted(static_cast<int64_t>(runs.size()), "run"),
                  studies > 0 ? fmt::format(" and {}", studies == 1 ? "1 study" : fmt::format("{} studies", studies)) : "",
                  format_bytes(static_cast<int64_t>(page.size()))));
}

}  // namespace

void add_report(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("report", "Write runs to one HTML page: curves, tables, events, recipe");
  auto arguments = std::make_shared<ReportArguments>();
  command
      ->add_option("run", arguments->runs,
                   "Folders or URLs of runs (run.folder or save.folder), folders of weft study and weft scale")
      ->required();
  command->add_option("-o,--out", arguments->out, "The file to write")->capture_default_str();
  command->footer(
      "The page opens in any browser, without a network. Several runs are drawn over\n"
      "each other; where they differ in the number of ranks alone, it has their scaling.\n"
      "\n"
      "Example:\n"
      "  weft report runs/gpt-lr1 runs/gpt-lr3 -o report.html");
  command->callback([arguments, &status] {
    write_report(*arguments);
    status = 0;
  });
}

}  // namespace weft
