#include "weft/program/simulate/hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/nearest.h"
#include "weft/base/printable.h"
#include "weft/base/target_device.h"

namespace weft {
namespace {

void check_positive(const Hardware& hardware, const char* what, double value) {
  if (value > 0.0) return;
  throw InputError(fmt::format("{}: {} is {}, must be above 0", named(hardware), what, value));
}

void check_rate(const Hardware& hardware, const char* what, double value) {
  if (value == kFree || (value >= kMinRate && value <= kMaxRate)) return;
  throw InputError(fmt::format("{}: {} is {}, must be at least {} and at most {}, or inf", named(hardware), what, value,
                               kMinRate, kMaxRate));
}

void check_time(const Hardware& hardware, const std::string& what, std::optional<double> value) {
  if (!value || (*value >= 0.0 && std::isfinite(*value))) return;
  throw InputError(fmt::format("{}: {} is {}, must be at least 0 and finite", named(hardware), what, *value));
}

bool matches(const BlockTime& time, std::string_view block) {
  if (time.name == block) return true;
  return time.name.ends_with('*') && block.starts_with(std::string_view(time.name).substr(0, time.name.size() - 1));
}

/// A name without its trailing number; empty if it has no trailing number.
std::string_view stem(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  if (last == std::string_view::npos || last + 1 == name.size()) return {};
  return name.substr(0, last + 1);
}

bool are_of_one_row(std::string_view a, std::string_view b) { return !stem(a).empty() && stem(a) == stem(b); }

/// Checks costs of operators, collectives and software, and that they go together.
void check_parts(const Hardware& hardware) {
  if (hardware.operators) check_costs(*hardware.operators, named(hardware));
  if (hardware.collectives) check_costs(*hardware.collectives, named(hardware));
  if (hardware.software) check_costs(*hardware.software, named(hardware));
  if (hardware.software && !hardware.operators) {
    throw InputError(fmt::format("{}: [software] needs [products], [attention] and [memory_bound]", named(hardware)));
  }
  const bool changes_calls =
      hardware.software && (hardware.software->calls_per_block != 1.0 || hardware.software->gradient_traffic != 1.0 ||
                            hardware.software->hidden_gathers != 0.0);
  if (changes_calls && !hardware.collectives) {
    throw InputError(
        fmt::format("{}: calls_per_block, gradient_traffic and hidden_gathers of [software] need [collectives]: add it, or "
                    "leave them out",
                    named(hardware)));
  }
  if (hardware.software && hardware.host_launch_s) {
    throw InputError(fmt::format("{}: host_launch_s is for weft's own launches: remove it beside [software]", named(hardware)));
  }
  if (hardware.operators && !hardware.operators->rates.of.empty() && hardware.kind.empty()) {
    throw InputError(fmt::format("{}: rates of operators are of one kind of device: add kind to [device]", named(hardware)));
  }
  if (hardware.operators && hardware.operators->rates.of.empty() && hardware.kind != kTargetDevices.of(TargetDevice::gpu)) {
    throw InputError(
        fmt::format("{}: costs of operators are for devices whose launches are counted: add kind = \"{}\" to "
                    "[device]",
                    named(hardware), kTargetDevices.of(TargetDevice::gpu)));
  }
}

}  // namespace

std::string named(const Hardware& hardware) { return fmt::format("hardware '{}'", shortened(hardware.name)); }

Hardware nominal_hardware() {
  return {.name = "nominal hardware: 100 TFLOP/s, 1 TB/s of memory, 8 ranks per host",
          .flops = 100e12,
          .narrow_flops = 100e12,
          .memory_bytes_per_s = 1e12,
          .ranks_per_host = 8,
          .intra_host = {.latency_s = 5e-6, .bytes_per_s = 100e9},
          .inter_host = {.latency_s = 10e-6, .bytes_per_s = 25e9},
          .offload = {.latency_s = 10e-6, .bytes_per_s = 25e9}};
}

Hardware counted_operations() { return {.name = "counted operations", .flops = 1e12, .narrow_flops = 1e12}; }

const BlockTime* find_block_time(const Hardware& hardware, std::string_view block) {
  const BlockTime* best = nullptr;
  for (const BlockTime& time : hardware.blocks) {
    if (time.name == block) return &time;
    if (matches(time, block) && (best == nullptr || time.name.size() > best->name.size())) best = &time;
  }
  return best;
}

void check_known(const Hardware& hardware, const Link& link, std::string_view section, std::string_view user) {
  if (link.is_known) return;
  throw InputError(fmt::format("{} has no {}, which {} needs: add [{}] with latency_s and bytes_per_s (inf: free)",
                               named(hardware), section, user, section));
}

void check_block_times(const Hardware& hardware, const std::vector<std::string>& block_names) {
  for (const BlockTime& time : hardware.blocks) {
    const auto is_meant = [&time](const std::string& block) {
      return matches(time, block) || are_of_one_row(time.name, block);
    };
    if (std::any_of(block_names.begin(), block_names.end(), is_meant)) continue;
    throw InputError(fmt::format("{}: [[block]] gives times of block '{}', which the model does not have; did you mean '{}'?",
                                 named(hardware), shortened(time.name), nearest(time.name, block_names)));
  }
}

std::string untimed_blocks_text(const Hardware& hardware, const std::vector<std::string>& block_names) {
  std::vector<std::string> parts;
  const std::string* before = nullptr;  // the previous block, if it has no time either
  std::string first;
  size_t untimed = 0;
  for (const std::string& name : block_names) {
    if (find_block_time(hardware, name) != nullptr) {
      before = nullptr;
      continue;
    }
    ++untimed;
    if (before != nullptr && are_of_one_row(*before, name)) {
      parts.back() = first + " to " + name;
    } else {
      parts.push_back(first = name);
    }
    before = &name;
  }
  if (untimed == 0 || untimed == block_names.size()) return "";
  return fmt::format("no times of block{} {}: counted operations", untimed == 1 ? "" : "s", fmt::join(parts, ", "));
}

void check_hardware(const Hardware& hardware) {
  check_rate(hardware, "flops", hardware.flops);
  check_rate(hardware, "narrow_flops", hardware.narrow_flops);
  check_rate(hardware, "memory_bytes", hardware.memory_bytes);
  check_rate(hardware, "memory_bytes_per_s", hardware.memory_bytes_per_s);
  check_positive(hardware, "ranks_per_host", hardware.ranks_per_host);
  check_positive(hardware, "efficiency", hardware.efficiency);
  if (hardware.efficiency > 1.0) {
    throw InputError(fmt::format("{}: efficiency is {}, must be at most 1", named(hardware), hardware.efficiency));
  }
  check_time(hardware, "launch_s", hardware.launch_s);
  check_time(hardware, "host_launch_s", hardware.host_launch_s);
  check_time(hardware, "graph_launch_s", hardware.graph_launch_s);
  check_time(hardware, "host_wait_s", hardware.host_wait_s);
  if (hardware.host_launch_s && hardware.kind != kTargetDevices.of(TargetDevice::gpu)) {
    throw InputError(fmt::format("{}: host_launch_s is for devices whose launches are counted: add kind = \"{}\" to [device]",
                                 named(hardware), kTargetDevices.of(TargetDevice::gpu)));
  }
  if (!hardware.host_launch_s && (hardware.graph_launch_s || hardware.host_wait_s)) {
    throw InputError(fmt::format("{}: graph_launch_s and host_wait_s need host_launch_s: add it to [device]", named(hardware)));
  }
  check_parts(hardware);
  if (hardware.cores.per_host < 0) check_positive(hardware, "cores.per_host", static_cast<double>(hardware.cores.per_host));
  check_time(hardware, "cores.thread_power", hardware.cores.thread_power);
  check_time(hardware, "cores.network_share", hardware.cores.network_share);
  check_time(hardware, "loss_s", hardware.loss_s);
  check_time(hardware, "update_s_per_element", hardware.update_s_per_element);
  const std::pair<const char*, const Link*> links[] = {
      {"intra_host", &hardware.intra_host}, {"inter_host", &hardware.inter_host}, {"offload", &hardware.offload}};
  for (const auto& [name, link] : links) {
    check_rate(hardware, fmt::format("{}.bytes_per_s", name).c_str(), link->bytes_per_s);
    check_time(hardware, fmt::format("{}.latency_s", name), link->latency_s);
  }
  for (const BlockTime& time : hardware.blocks) {
    for (const auto& value : {time.forward_s, time.backward_s, time.input_s, time.weight_s}) {
      check_time(hardware, fmt::format("a time of block '{}'", shortened(time.name)), value);
    }
  }
}

void check_micro_batch(const Hardware& hardware, int64_t micro_batch) {
  if (!hardware.micro_batch || *hardware.micro_batch == micro_batch) return;
  throw InputError(
      fmt::format("{}: its times are for micro-batches of {} samples, but these have {}; measure with "
                  "`weft profile --set batch.micro={}`",
                  named(hardware), *hardware.micro_batch, micro_batch, micro_batch));
}

}  // namespace weft
