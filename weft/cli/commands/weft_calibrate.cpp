// weft calibrate: measures what training costs on the machine at hand and writes it as a hardware file.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "weft/base/cores.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"
#include "weft/base/time_limit.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/number_range.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/cli/ranks/launch_ranks.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/train/measure/calibrate.h"
#include "weft/train/process/device.h"
#include "weft/train/process/process_memory.h"

namespace weft {

namespace {

struct CalibrateArguments {
  std::optional<int> num_ranks;
  std::optional<int> threads;
  std::string device = "auto";
  std::string output;
  int turns = 5;
  double timeout_s = 60.0;
};

std::string rate_text(double seconds_per_unit) { return seconds_per_unit > 0.0 ? format_count(1.0 / seconds_per_unit) : "-"; }

std::string table(const Calibration& result) {
  std::string text = fmt::format("  {:<20} {:>5}  {:>9}  {:>9}  {:>9}  {:>9}  {:>7}  {:>13}\n", "operators", "bytes", "start",
                                 "work/s", "bytes/s", "extra/s", "samples", "error, most");
  const OperatorRates& rates = result.hardware.operators->rates;
  for (size_t i = 0; i < rates.of.size(); ++i) {
    const OperatorRate& rate = rates.of[i];
    const FitError& error = result.errors[i];
    text += fmt::format("  {:<20} {:>5}  {:>9}  {:>9}  {:>9}  {:>9}  {:>7}  {:>5.1f} %{:>4.0f} %\n", rate.of,
                        rate.element_bytes, format_duration(rate.start_s), rate_text(rate.work_s), rate_text(rate.byte_s),
                        rate_text(rate.extra_s), error.samples, 100.0 * error.median, 100.0 * error.largest);
  }
  return text;
}

void calibrate_here(const World& world, const CalibrateArguments& arguments) {
  keep_and_reuse_memory();
  if (world.rank() == 0) check_writable(arguments.output);  // only rank 0 writes; other ranks may run in another folder
  const int threads = omp_num_threads().value_or(threads_per_rank(available_cores(), world.local_size()));
  at::set_num_threads(arguments.threads.value_or(threads));
  const at::Device device = rank_device(arguments.device, world, BackendKind::automatic);
  const Calibration result = calibrate(world, {.device = device, .timeout = time_limit(arguments.timeout_s)}, arguments.turns);
  if (world.rank() != 0) return;
  write_file(arguments.output, hardware_text(result.hardware));
  write_out(fmt::format("{}\nwrote {}, measured on {} at once\n", table(result), printable(arguments.output),
                        counted(world.size(), "rank")));
}

int run_calibrate(const CalibrateArguments& arguments) {
  if (arguments.num_ranks) {
    leave_outer_place();
    check_writable(arguments.output);
  }
  if (arguments.num_ranks.value_or(1) > 1) {
    LaunchOptions options;
    options.num_ranks = *arguments.num_ranks;
    options.command = {this_executable(), "calibrate",
                       "--output",        arguments.output,
                       "--device",        arguments.device,
                       "--timeout",       fmt::to_string(arguments.timeout_s),
                       "--turns",         fmt::to_string(arguments.turns)};
    if (arguments.threads) options.command.insert(options.command.end(), {"--threads", fmt::to_string(*arguments.threads)});
    return launch_ranks(std::move(options), no_restarts(*arguments.num_ranks));
  }
  const auto timeout = time_limit(arguments.timeout_s);
  calibrate_here(arguments.num_ranks ? World() : World::from_environment(timeout), arguments);
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("calibrate", "Measure what training costs on this machine, for simulate and plan");
  auto arguments = std::make_shared<CalibrateArguments>();
  command->add_option("-n,--ranks", arguments->num_ranks,
                      "Ranks to start on this machine. Default: join a job as one of its ranks");
  add_output(*command, "-o,--output", arguments->output, "Hardware file (TOML) to write")->required();
  command->add_option("--threads", arguments->threads, "Threads per rank; default: as weft train")->check(CLI::Range(1, 1024));
  command->add_option("--device", arguments->device, "Device of each rank: auto, cpu or cuda")->capture_default_str();
  command->add_option("--turns", arguments->turns, "Measurements per operator, whose median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--timeout", arguments->timeout_s, "Seconds that a rank waits for a peer")
      ->capture_default_str()
      ->check(number_range(1.0, 3600.0));
  command->footer(
      "Times products, convolutions, attention and memory-bound operators by size, in\n"
      "float32 and bfloat16, on all ranks at once, and the links between them; fits the\n"
      "rates of each class, and shows by how much they miss the measured times. It takes\n"
      "no recipe: the file prices any model. Start as many ranks as the machine has\n"
      "cores, or GPUs, and leave it idle.\n"
      "\n"
      "Example:\n"
      "  weft calibrate -n 2 -o here.toml\n"
      "  weft simulate recipes/gpt.toml -n 2 --set layout.pp=2 --hardware here.toml");
  command->callback([arguments, &status] { status = run_calibrate(*arguments); });
}

}  // namespace weft
