#include "weft/train/check/check_machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/world_hosts.h"
#include "weft/train/check/collective_checks.h"
#include "weft/train/check/device_checks.h"
#include "weft/train/check/host_checks.h"
#include "weft/train/check/layout_checks.h"
#include "weft/train/check/link_checks.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/trainer/gathered_texts.h"

namespace weft {

namespace {

constexpr char kOneRank[] = "one rank; give -n 2 or more, or --hosts";

BackendKind backend_of(const CheckOptions& options) { return kBackends.value_of(options.backend, "layout.backend"); }

/// This rank's device. Throws InputError if there is none for the options, or the back end cannot connect these ranks.
at::Device checked_device_of(const World& world, const CheckOptions& options) {
  const at::Device device = device_of(recipe_of(checked_layouts().front(), world.size(), options), world);
  if (backend_of(options) == BackendKind::shm && !on_one_host(hosts_of(world)))
    throw InputError("--backend shm needs all ranks on one host; leave it out, or use gloo");
  return device;
}

class MachineCheck {
 public:
  MachineCheck(const World& world, const CheckOptions& options, at::Device device)
      : world_(world), options_(options), device_(device) {}

  std::vector<CheckLine> operator()() {
    part("hosts", [this] { check_hosts(); });
    part("host clocks", [this] { add(check_clocks(world_, options_.timeout)); });
    part("collectives", [this] {
      if (world_.size() == 1) return add(not_checked("collectives", kOneRank));
      for (const CheckLine& line : check_groups(world_, backend(), device_, options_.timeout)) add(line);
    });
    std::vector<std::string> left_out;
    for (const CheckedLayout& layout : checked_layouts()) {
      if ((layout.shares && world_.size() == 1) || world_.size() % layout.divides != 0) {
        left_out.push_back(layout.name);
      } else {
        part("layout " + layout.name, [&] { check(layout); });
      }
    }
    if (!left_out.empty()) {
      add(not_checked("layouts", fmt::format("{}: {}", fmt::join(left_out, ", "),
                                             world_.size() == 1 ? kOneRank : "they need an even number of ranks")));
    }
    part("links", [this] {
      if (world_.size() == 1) return add(not_checked("links", kOneRank));
      for (const CheckLine& line : check_links(world_, backend(), device_, options_.timeout)) add(line);
    });
    if (broken_) std::rethrow_exception(broken_);
    return lines_;
  }

 private:
  BackendKind backend() const { return backend_of(options_); }

  void add(const CheckLine& line) {
    if (world_.rank() != 0) return;
    lines_.push_back(line);
    if (options_.on_line) options_.on_line(line);
  }

  /// Runs a part. An error leaves ranks in different places: nothing after it can be checked.
  void part(const std::string& name, const std::function<void()>& run) {
    if (broken_) return add(not_checked(name, "an earlier check did not end"));
    try {
      run();
    } catch (const std::exception& error) {
      if (world_.rank() != 0) throw;
      broken_ = std::current_exception();
      const std::string text = error.what();  // LibTorch's have a stack trace below the first line
      const bool is_input = dynamic_cast<const InputError*>(&error) != nullptr;
      add(check_failed(name, text.substr(0, text.find('\n')),
                       is_input ? "change the options" : "check that rank's host alone, then its network"));
    }
  }

  /// What each rank finds about its host and device alone.
  void check_hosts() {
    std::vector<CheckLine> own;
    if (world_.local_rank() == 0) {
      const int threads = omp_num_threads().value_or(threads_per_rank(available_cores(), world_.local_size()));
      own = check_host({.ranks = world_.local_size(), .threads = threads, .on_gpus = !device_.is_cpu()});
      own.insert(own.begin(), check_versions(options_.weft));
    }
    for (const CheckLine& line : check_device(device_, world_)) own.push_back(line);
    const std::vector<std::string> texts = gathered_texts(world_, "hosts", write_check_lines(own), options_.timeout);
    if (world_.rank() != 0) return;
    std::vector<std::string> places;
    std::vector<std::vector<CheckLine>> lines;
    for (size_t rank = 0; rank < texts.size(); ++rank) {
      places.push_back(fmt::format("rank {} on {}", rank, world_.host(static_cast<int>(rank))));
      lines.push_back(read_check_lines(texts[rank]));
    }
    for (const CheckLine& line : joined_check_lines(places, lines)) add(line.name == "versions" ? agreeing(line, lines) : line);
  }

  /// The line of versions, failed unless they are the same on all hosts.
  static CheckLine agreeing(const CheckLine& line, const std::vector<std::vector<CheckLine>>& of_ranks) {
    std::set<std::string> versions;
    for (const std::vector<CheckLine>& lines : of_ranks) {
      for (const CheckLine& one : lines) {
        if (one.name == line.name) versions.insert(one.text);
      }
    }
    if (versions.size() < 2 || line.verdict == CheckVerdict::failed) return line;
    return check_failed(line.name, "hosts have different ones: " + line.text, "install the same on all hosts");
  }

  void check(const CheckedLayout& layout) {
    const Recipe recipe = recipe_of(layout, world_.size(), options_);
    add(check_layout(layout, recipe, world_, device_));
  }

  const World& world_;
  const CheckOptions& options_;
  at::Device device_;
  std::vector<CheckLine> lines_;
  std::exception_ptr broken_;
};

}  // namespace

void check_names(const CheckOptions& options) { recipe_of(checked_layouts().front(), 1, options); }

std::vector<CheckLine> check_machine(const World& world, const CheckOptions& options) {
  std::optional<at::Device> device;
  try {
    device = checked_device_of(world, options);
  } catch (const InputError& error) {
    if (world.rank() == 0 && options.on_line) {
      options.on_line(check_failed("devices", error.what(), "give --device cpu or --backend auto"));
    }
    throw;
  }
  return MachineCheck(world, options, *device)();
}

std::string check_heading(const World& world) {
  const std::vector<std::string> all = hosts_of(world);
  const std::set<std::string> hosts(all.begin(), all.end());
  return fmt::format("{} on {} ({}{})", counted(world.size(), "rank"), counted(std::ssize(hosts), "host"), all.front(),
                     hosts.size() > 1 ? ", ..." : "");
}

}  // namespace weft
