// weft netcheck: times of messages and collectives between a job's ranks, slow links, and a hardware file from both.
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "weft/base/error.h"
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
#include "weft/comm/mesh.h"
#include "weft/comm/world_hosts.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/train/measure/link_times.h"

namespace weft {

namespace {

struct NetcheckArguments {
  std::optional<int> num_ranks;
  std::string devices;  ///< a hardware file
  std::string output;
  double timeout_s = 60.0;
  int64_t most_mb = 16;
};

std::string pairs_table(const World& world, const std::vector<PairTime>& pairs) {
  constexpr size_t kMostRows = 64;
  std::string text =
      fmt::format("  {:>5} {:>5}  {:<24}  {:>10}  {:>12}  {:>12}\n", "from", "to", "hosts", "latency", "there", "back");
  for (size_t i = 0; i < pairs.size() && i < kMostRows; ++i) {
    const PairTime& pair = pairs[i];
    const std::string hosts =
        pair.one_host ? world.host(pair.first) : fmt::format("{} {}", world.host(pair.first), world.host(pair.second));
    const auto rate = [&](int way) { return format_bytes(static_cast<int64_t>(pair.bytes_per_s[way])) + "/s"; };
    text += fmt::format("  {:>5} {:>5}  {:<24}  {:>10}  {:>12}  {:>12}\n", pair.first, pair.second, shortened(hosts, 24),
                        format_duration(pair.latency_s), rate(0), rate(1));
  }
  if (pairs.size() > kMostRows)
    text += fmt::format("  and {} more\n", counted(static_cast<int64_t>(pairs.size() - kMostRows), "pair"));
  return text;
}

std::string slow_text(const std::vector<PairTime>& pairs, const std::vector<std::string>& hosts) {
  std::string text;
  for (const std::string& line : slow_links(pairs, hosts)) text += "  " + line + "\n";
  if (!text.empty()) return "\nslow:\n" + text;
  if (std::all_of(pairs.begin(), pairs.end(), [](const PairTime& pair) { return pair.shares_cores; }))
    return "\nranks share cores, so links are not compared\n";
  const bool compares = std::set<std::string>(hosts.begin(), hosts.end()).size() != 2;
  return compares ? "\nno link is slower than the others\n"
                  : "\nno link is slower than the others; the only link between the two hosts cannot be compared\n";
}

/// Prints results as they are measured, on rank 0.
class Report {
 public:
  explicit Report(const World& world) : world_(world), hosts_(hosts_of(world)) {}

  void pairs(const std::vector<PairTime>& pairs) const {
    say(fmt::format("pairs of ranks, one at a time per host\n{}{}\n", pairs_table(world_, pairs), slow_text(pairs, hosts_)));
  }
  void begin_calls() const {
    say(fmt::format("collectives over all {}\n  {:>10}  {:>12}  {:>14}  {:>12}\n", counted(world_.size(), "rank"), "bytes",
                    "all_reduce", "reduce_scatter", "all_gather"));
  }
  void call(const CallTimes& times) const {
    say(fmt::format("  {:>10}  {:>12}  {:>14}  {:>12}\n", format_bytes(times.bytes), format_duration(times.all_reduce),
                    format_duration(times.reduce_scatter), format_duration(times.all_gather)));
  }
  void file(const std::string& path, const Hardware& hardware) const {
    say(fmt::format("\nwrote {}\n", printable(path)));
    const std::set<std::string> names(hosts_.begin(), hosts_.end());
    if (static_cast<int>(names.size()) * hardware.ranks_per_host == world_.size()) return;
    say("links in the file are means over all ranks: it cannot describe hosts with different numbers of ranks, or whose ranks "
        "are not consecutive\n");
  }

 private:
  void say(const std::string& text) const {
    if (world_.rank() == 0) write_out(text);
  }

  const World& world_;
  std::vector<std::string> hosts_;
};

void check_here(const World& world, const NetcheckArguments& arguments) {
  if (world.size() == 1) throw InputError("netcheck: one rank has no links; give -n, or start it on the job's ranks");
  if (world.rank() == 0 && !arguments.output.empty()) check_writable(arguments.output);
  const GroupOptions options{.timeout = time_limit(arguments.timeout_s)};
  const Mesh mesh(world, {{"all", world.size()}});
  const Group all = mesh.group(mesh.axis("all"), options);
  const Report report(world);
  report.pairs(measure_pairs(world, all));
  report.begin_calls();
  measure_calls(all, arguments.most_mb << 20, [&](const CallTimes& times) { report.call(times); });
  const at::Tensor wanted = at::full({1}, arguments.output.empty() ? 0.0F : 1.0F, at::kFloat);
  all.all_reduce(wanted, ReduceOp::sum, "netcheck").wait();  // --output may be known to rank 0 only
  if (wanted.item<float>() == 0.0F) return;
  Hardware hardware = arguments.devices.empty() ? Hardware{} : load_hardware(arguments.devices);
  hardware.name = "links measured by weft netcheck" + (arguments.devices.empty() ? "" : ", devices of " + hardware.name);
  measure_links(hardware, world, options);
  if (world.rank() != 0 || arguments.output.empty()) return;
  write_file(arguments.output, hardware_text(hardware));
  report.file(arguments.output, hardware);
}

int run_netcheck(const NetcheckArguments& arguments) {
  if (arguments.num_ranks) leave_outer_place();
  check_different_files({{"--hardware", arguments.devices}, {"--output", arguments.output}});
  if (!arguments.devices.empty()) load_hardware(arguments.devices);
  if (arguments.num_ranks.value_or(1) > 1) {
    LaunchOptions options;
    options.num_ranks = *arguments.num_ranks;
    options.command = {this_executable(), "netcheck",
                       "--timeout",       fmt::to_string(arguments.timeout_s),
                       "--largest-mb",    fmt::to_string(arguments.most_mb)};
    if (!arguments.devices.empty()) options.command.insert(options.command.end(), {"--hardware", arguments.devices});
    if (!arguments.output.empty()) options.command.insert(options.command.end(), {"--output", arguments.output});
    return launch_ranks(std::move(options), no_restarts(*arguments.num_ranks));
  }
  const auto timeout = time_limit(arguments.timeout_s);
  check_here(arguments.num_ranks ? World() : World::from_environment(timeout), arguments);
  return 0;
}

}  // namespace

void add_netcheck(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("netcheck", "Measure the links between a job's ranks and name the slow ones");
  auto arguments = std::make_shared<NetcheckArguments>();
  command->add_option("-n,--ranks", arguments->num_ranks,
                      "Ranks to start on this machine. Default: join a job as one of its ranks");
  CLI::Option* output =
      add_output(*command, "-o,--output", arguments->output, "Hardware file (TOML) to write, for weft simulate");
  add_hardware(*command, arguments->devices, "Hardware file from weft profile, whose devices go into the output")
      ->check(CLI::ExistingFile)
      ->needs(output);
  command->add_option("--timeout", arguments->timeout_s, "Seconds that a rank waits for a peer")
      ->capture_default_str()
      ->check(number_range(1.0, 3600.0));
  command->add_option("--largest-mb", arguments->most_mb, "Size of the largest collective, in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->footer(
      "Measures latency and bandwidth in each direction for every pair of ranks (with\n"
      "more than 64 ranks: one pair per host pair, and all pairs inside hosts), then\n"
      "collectives over all ranks, as training calls them. Names each link below 0.6 of\n"
      "the median of its kind, and each host whose links all are.\n"
      "\n"
      "Examples:\n"
      "  weft netcheck -n 4\n"
      "  weft run --hosts a:2,b:2 -- weft netcheck\n"
      "  srun weft netcheck --hardware device.toml -o here.toml\n"
      "  weft simulate recipes/gpt.toml -n 8 --hardware here.toml");
  command->callback([arguments, &status] { status = run_netcheck(*arguments); });
}

}  // namespace weft
