#include "weft/train/compare/compare_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"
#include "weft/train/trainer/agreement.h"

namespace weft {

namespace {

using Switches = std::vector<LayoutSwitch>;

constexpr double kSpacing = 0x1p-23;
constexpr double kUlps = 4 * kSpacing;  ///< units in the last place of a parameter's largest element
constexpr double kNoise = 4.0;          ///< factor on the deviation that per-block rounding noise causes
constexpr double kAtKinks = 4.0;        ///< factor on the effect of wider noise from which kinks have caused it
constexpr int kNoiseRuns = 3;           ///< several: a single number's noise has the same sign in half of the runs

/// Chooses the runs, on rank 0.
class ComparedRuns {
 public:
  ComparedRuns(const LayoutsToCompare& compared, LayoutRuns& runs)
      : compared_(compared), runs_(runs), switches_(layout_switches(compared.layout)) {
    result_.layout = text_of(compared.layout, switches_);
    result_.steps = compared.trained.steps;
  }

  LayoutComparison operator()() {
    announce(one_device());
    runs_.make_reference(one_device());
    result_.parameters = runs_.num_parameters();
    result_.may_promise = may_promise();
    result_.exact = compared_.exact || (result_.may_promise && compared_.layout.options.reproducible_slots > 0);
    result_.deviations = made(run_without({}));
    result_.match = judge(result_.deviations);
    if (result_.match == LayoutMatch::different) separate_rounding_from_mistakes();
    if (result_.match != LayoutMatch::different && result_.repeats && rest_promises_bits()) compare_with_sums_split();
    note_non_repeating_part();
    return result_;
  }

 private:
  /// Reports a block whose results vary between calls: a bug, even if these runs have equal bits.
  void note_non_repeating_part() {
    result_.not_repeated = runs_.not_repeated();
    if (result_.not_repeated.at_once) result_.match = LayoutMatch::different;
  }

  /// Formats "pp 2 x dp 2 with layout.recompute".
  static std::string text_of(const LayoutSettings& settings, const Switches& on) {
    std::vector<std::string> choices;
    for (const LayoutSwitch& part : on) {
      if (!part.is_axis) choices.push_back(part.name);
    }
    return settings.text() + (choices.empty() ? "" : fmt::format(" with {}", fmt::join(choices, ", ")));
  }

  bool is_on(const char* name) const {
    return std::any_of(switches_.begin(), switches_.end(), [name](const LayoutSwitch& part) { return part.name == name; });
  }
  /// Returns true if reproducible slots could give the bits of one device, not counting parts that split sums.
  bool rest_may_promise() const { return compared_.layout.options.layout.precision != Precision::fp16; }
  bool may_promise() const {
    const bool splits = is_on("tp") && compared_.layout.options.reproducible_tp == 0;
    return !splits && !is_on("cp") && !is_on("layout.loss_chunk") && rest_may_promise();
  }

  /// Returns true if the switch splits a sum that one device computes whole, which rounds differently.
  bool splits_sums(const LayoutSwitch& part) const {
    const auto is = [&part](const char* name) { return part.name == name; };
    const bool of_tp = is("tp") || is("layout.sequence_parallel") || is("layout.tp_chunks");
    return (of_tp && compared_.layout.options.reproducible_tp == 0) || is("cp") || is("layout.context_attention") ||
           is("layout.loss_chunk");
  }

  bool rest_promises_bits() const {
    const auto splits = [this](const LayoutSwitch& part) { return splits_sums(part); };
    const bool splits_all = std::all_of(switches_.begin(), switches_.end(), splits);
    const bool splits_none = std::none_of(switches_.begin(), switches_.end(), splits);
    return !splits_all && !splits_none && rest_may_promise() && compared_.layout.options.reproducible_slots > 0 &&
           !result_.exact;  // exact already says so
  }

  /// With the parts that split sums unchanged, nothing else may change a bit.
  void compare_with_sums_split() {
    const auto rest = std::stable_partition(switches_.begin(), switches_.end(),
                                            [this](const LayoutSwitch& part) { return !splits_sums(part); });
    const Switches splitting(rest, switches_.end());
    switches_.erase(rest, switches_.end());
    const LayoutRun only_split = run_without(switches_);
    result_.rest_as = text_of(only_split.settings, splitting);
    announce(only_split);
    runs_.make_reference(only_split);
    std::vector<Deviation> deviations = made(run_without({}));
    if (deviations.empty()) return;
    result_.against = result_.rest_as;
    result_.exact = true;
    result_.deviations = std::move(deviations);
    result_.match = judge(result_.deviations);
    result_.repeats = made(only_split).empty();
    if (result_.repeats) find_causes();
  }

  LayoutRun run_without(const Switches& off) const { return {.settings = without(compared_.layout, off), .off = off}; }
  LayoutRun one_device() const { return run_without(switches_); }  ///< initially switches_ are all switches of the layout

  void announce(const LayoutRun& run) const {
    if (compared_.on_run) compared_.on_run(run.text());
  }
  std::vector<Deviation> made(const LayoutRun& run) {
    announce(run);
    return runs_.compare(run);
  }

  void separate_rounding_from_mistakes() {
    announce(one_device());
    result_.repeats = runs_.repeat(one_device()).empty();
    for (const NoiseWidth width : {NoiseWidth::spacing, NoiseWidth::wide}) {
      if (result_.exact || result_.match != LayoutMatch::different) break;
      if (width == NoiseWidth::wide && compared_.layout.options.layout.precision != Precision::fp32) break;  // wide as it is
      measure_noise(width);
      result_.match = judge(result_.deviations);
    }
    if (result_.match == LayoutMatch::different && result_.repeats) find_causes();
  }

  void measure_noise(NoiseWidth width) {
    LayoutRun run = one_device();
    run.noise_width = width;
    std::map<std::string, double> found;
    for (run.noise = 1; run.noise <= kNoiseRuns; ++run.noise) {
      for (const Deviation& deviation : made(run)) {
        double& noise = found[deviation.what];
        noise = std::max(noise, deviation.relative);
      }
    }
    // Without kinks, wide noise has as much more effect as it is wider, and says nothing new. A kink that one parameter shows
    // changes the gradients of all before it.
    const auto shows_kinks = [this](const auto& effect) {
      return effect.second > kAtKinks * kWideNoise * std::max(noise_[effect.first], kSpacing);
    };
    if (width == NoiseWidth::wide && std::none_of(found.begin(), found.end(), shows_kinks)) return;
    for (const auto& [what, noise] : found) noise_[what] = std::max(noise_[what], noise);
  }

  double allowed(const Deviation& deviation) const {
    if (result_.exact || deviation.what == kTargetCount) return 0.0;
    const double own = deviation.is_weight ? kUlps + compared_.tolerance * deviation.changed : compared_.tolerance;
    const auto noise = noise_.find(deviation.what);
    return noise == noise_.end() ? own : std::max(own, kNoise * noise->second);
  }

  LayoutMatch judge(std::vector<Deviation>& deviations) const {
    LayoutMatch match = LayoutMatch::bit_identical;
    for (Deviation& deviation : deviations) {
      deviation.allowed = allowed(deviation);
      match = std::max(match, deviation.is_rounding() ? LayoutMatch::within_rounding : LayoutMatch::different);
    }
    return match;
  }

  /// Returns true if the difference disappears with these off. Does not run with all off: that is the reference run.
  bool is_gone_without(const Switches& off) {
    const LayoutRun run = run_without(off);
    SwitchedOff tried{.names = {}, .match = LayoutMatch::bit_identical, .not_run = {}};
    for (const LayoutSwitch& part : off) tried.names.push_back(part.name);
    if (off.size() < switches_.size()) {
      tried.not_run = runs_.refusal(run);
      tried.match = LayoutMatch::different;
      if (tried.not_run.empty()) {
        std::vector<Deviation> deviations = made(run);
        tried.match = judge(deviations);
      }
    }
    result_.tried.push_back(tried);
    return tried.match != LayoutMatch::different;
  }

  void find_causes() {
    for (const LayoutSwitch& part : switches_) {
      if (is_gone_without({part})) result_.causes.push_back(part.name);
    }
    if (!result_.causes.empty() || switches_.size() < 2) return;
    result_.together = true;
    for (const LayoutSwitch& part : smallest_set()) result_.causes.push_back(part.name);
  }

  /// Switches off more and more parts until the difference disappears, then switches on again each part that need not be off.
  Switches smallest_set() {
    Switches off = {switches_[0]};
    while (off.size() < switches_.size()) {
      off.push_back(switches_[off.size()]);
      if (is_gone_without(off)) break;
    }
    size_t needed = 0;
    while (needed < off.size() && off.size() > 2) {
      Switches fewer = off;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(needed));
      if (is_gone_without(fewer)) {
        off = std::move(fewer);
      } else {
        ++needed;
      }
    }
    return off;
  }

  const LayoutsToCompare& compared_;
  LayoutRuns& runs_;
  Switches switches_;
  std::map<std::string, double> noise_;  ///< by parameter, loss, norm: largest relative difference from the noise
  LayoutComparison result_;
};

void check(const World& world, const LayoutsToCompare& compared) {
  if (compared.trained.steps < 1) {
    throw InputError(fmt::format("comparing layouts: {} steps; must be at least 1", compared.trained.steps));
  }
  const Mesh mesh(world, compared.layout.axes);  // throws unless it fits the world
}

LayoutComparison lead(const LayoutsToCompare& compared, LayoutRuns& runs) {
  LayoutComparison result = ComparedRuns(compared, runs)();
  runs.end(std::string(name(result.match)));
  return result;
}

LayoutComparison follow(const LayoutsToCompare& compared, LayoutRuns& runs) {
  const Switches switches = layout_switches(compared.layout);
  const std::string match = runs.follow([&](const std::vector<std::string>& names) {
    Switches off;
    for (const LayoutSwitch& part : switches) {
      if (std::find(names.begin(), names.end(), part.name) != names.end()) off.push_back(part);
    }
    return LayoutRun{.settings = without(compared.layout, off), .off = off};
  });
  return {.layout = compared.layout.text(),
          .steps = compared.trained.steps,
          .match = kLayoutMatches.value_of(match, "what rank 0 found")};
}

std::string agreement(const LayoutsToCompare& compared) {
  return fmt::format("steps to compare: {}\nlayout to compare: {}, {}\n{}", compared.trained.steps, compared.layout.text(),
                     compared.exact ? "bit by bit" : "up to rounding", compared.layout.options.agreement);
}

}  // namespace

LayoutComparison compare_layouts(const World& world, const LayoutsToCompare& compared) {
  check(world, compared);
  const std::chrono::milliseconds timeout = compared.layout.options.communication.timeout;
  if (world.size() == 1) {
    LayoutRuns alone(world, compared.trained, std::nullopt, timeout);
    return lead(compared, alone);
  }
  check_agreement(world, agreement(compared), timeout);
  Store store = world.next_group_store();
  try {
    LayoutRuns runs(world, compared.trained, store, timeout);
    return world.rank() == 0 ? lead(compared, runs) : follow(compared, runs);
  } catch (const std::bad_alloc&) {
    report_failure(store, MemoryError(fmt::format("rank {} ran out of memory while layouts were compared", world.rank())));
    throw;
  } catch (const Error& error) {
    report_failure(store, error);
    throw;
  }
}

}  // namespace weft
