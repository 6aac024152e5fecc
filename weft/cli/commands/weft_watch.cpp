// weft watch: runs as curves and figures in the terminal, while they train or afterwards.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/run_reader.h"
#include "weft/report/terminal/watch_page.h"

namespace weft {

namespace {

struct WatchArguments {
  std::vector<std::string> runs;
  std::string by = "step", value = "loss";
  double every_s = 2.0;
  bool once = false;
};

volatile std::sig_atomic_t ended = 0;
void end_on_signal(int) { ended = 1; }

const std::vector<std::pair<std::string, WatchAxis>> kAxes = {
    {"step", WatchAxis::steps}, {"samples", WatchAxis::samples}, {"tokens", WatchAxis::tokens}, {"hours", WatchAxis::hours}};

WatchOptions options_of(const WatchArguments& arguments, bool terminal) {
  WatchOptions options{.value = arguments.value, .now_s = unix_time_s()};
  for (const auto& [name, axis] : kAxes) {
    if (name == arguments.by) options.axis = axis;
  }
  winsize size{};
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    options.width = size.ws_col;
    options.height = size.ws_row;
  }
  options.whole_lines = !terminal;
  options.colors = terminal && std::getenv("NO_COLOR") == nullptr;
  return options;
}

/// Throws InputError for a value that no run has, once there are steps.
void check_value(const std::vector<RunReader>& readers, const std::string& value) {
  std::set<std::string> names;
  for (const RunReader& reader : readers) {
    const Metrics& metrics = reader.run().metrics();
    for (const MetricColumn& column : metrics.columns) names.insert(column.name);
    for (const EvaluationRecord& evaluation : metrics.evaluations) {
      for (const RecordValue& one : evaluation.values) names.insert(evaluation.set + "/" + one.name);
    }
  }
  if (names.empty() || names.count(value) > 0) return;
  throw InputError(fmt::format("--value {}: no run has it; they have {}", printable(value), fmt::join(names, ", ")));
}

/// A file that changes while it is read is read again the next time.
void refresh(RunReader& reader) {
  try {
    reader.refresh();
  } catch (const Error&) {
    reader.forget();
  }
}

std::string page(const std::vector<RunReader>& readers, const WatchOptions& options) {
  std::string text;
  for (const std::string& line : watch_page(histories_of(readers), options)) text += line + "\n";
  return text;
}

/// The terminal without a cursor, however it ends.
class WithoutCursor {
 public:
  WithoutCursor() { write_out("\x1b[?25l\x1b[2J"); }
  ~WithoutCursor() {
    try {
      write_out("\x1b[?25h\n");
    } catch (const Error&) {  // there is no terminal any more
    }
  }
  WithoutCursor(const WithoutCursor&) = delete;
  WithoutCursor& operator=(const WithoutCursor&) = delete;
};

/// Draws over what was drawn before, until a signal ends it.
void follow(std::vector<RunReader>& readers, const WatchArguments& arguments) {
  constexpr const char *kTop = "\x1b[H", *kEraseLine = "\x1b[K", *kEraseBelow = "\x1b[J";
  std::signal(SIGINT, end_on_signal);
  std::signal(SIGTERM, end_on_signal);
  const WithoutCursor screen;
  const auto period = std::chrono::milliseconds(std::lround(1e3 * arguments.every_s));
  while (ended == 0) {
    std::string text;
    std::istringstream lines(page(readers, options_of(arguments, /*terminal=*/true)));
    for (std::string line; std::getline(lines, line);) text += (text.empty() ? kTop : "\n") + std::string(kEraseLine) + line;
    write_out(text + kEraseBelow);
    const auto next = std::chrono::steady_clock::now() + period;
    while (ended == 0 && std::chrono::steady_clock::now() < next) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (RunReader& reader : readers) refresh(reader);
  }
}

void watch(const WatchArguments& arguments) {
  std::vector<RunReader> readers = read_runs(arguments.runs);
  check_value(readers, arguments.value);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (arguments.once || !terminal) {
    write_out(page(readers, options_of(arguments, terminal)));
  } else {
    follow(readers, arguments);
  }
}

}  // namespace

void add_watch(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("watch", "Show runs in the terminal: curves, phases, memory, events");
  auto arguments = std::make_shared<WatchArguments>();
  command->add_option("run", arguments->runs, "Folders or URLs of runs (run.folder or save.folder); several are drawn together")
      ->required();
  std::vector<std::string> axes;
  axes.reserve(kAxes.size());
  for (const auto& [name, axis] : kAxes) axes.push_back(name);
  command->add_option("--by", arguments->by, "What the curves are drawn over")
      ->capture_default_str()
      ->check(CLI::IsMember(axes));
  command->add_option("--value", arguments->value, "Value of the large chart: loss, grad_norm, evaluation/accuracy, ...")
      ->capture_default_str();
  command->add_option("--every", arguments->every_s, "Seconds between redraws")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  command->add_flag("--once", arguments->once, "Print the page once, as where the output is no terminal");
  command->footer(
      "Reads the records that a run keeps in its folder (docs/records.md), also while\n"
      "it trains and over ssh. Ctrl-C ends it.\n"
      "\n"
      "Examples:\n"
      "  weft watch runs/gpt\n"
      "  weft watch runs/gpt-lr1 runs/gpt-lr3 --by tokens --once");
  command->callback([arguments, &status] {
    watch(*arguments);
    status = 0;
  });
}

}  // namespace weft
