#include "weft/train/compare/layout_switches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft {

namespace {

bool is_normalised_over(const LayoutOptions& layout, const std::string& axis) {
  const AxisSet axes = axes_of(layout.sync_batch_norm);
  return (axis == "dp" && axes.has(kReplicaAxis)) || (axis == "shard" && axes.has(kShardAxis));
}

void switch_off_axis(LayoutSettings& settings, const std::string& name) {
  LayoutOptions& layout = settings.options.layout;
  for (AxisSize& axis : settings.axes) {
    if (axis.name != name) continue;
    if (is_normalised_over(layout, name)) settings.options.micro_batch *= axis.size;
    axis.size = 1;
  }
  if (name == "pp") {
    layout.pipeline = {};
    layout.master = false;
  }
  if (name == "shard") layout.inner_shards = 0;
  if (name == "dp" || name == "shard") layout.pipeline.given = {};  // given for one number of micro-batches per rank
  if (name == "tp") {
    layout.sequence_parallel = false;
    layout.tp_chunks = 1;
  }
  if (name == "cp") layout.attention_over = ContextMethod::automatic;
}

bool has_axis(const LayoutSettings& settings, const std::string& name) {
  return std::any_of(settings.axes.begin(), settings.axes.end(),
                     [&](const AxisSize& axis) { return axis.name == name && axis.size > 1; });
}

/// A choice: its key, the axis it depends on, its state, and how to switch it off.
struct Choice {
  const char* name;
  const char* axis;
  bool (*is_on)(const LayoutOptions& layout);
  void (*off)(LayoutOptions& layout);
};

constexpr Choice kChoices[] = {
    {"layout.style", "pp", [](const LayoutOptions& l) { return l.master; }, [](LayoutOptions& l) { l.master = false; }},
    {"layout.schedule", "pp", [](const LayoutOptions& l) { return l.pipeline.schedule != "1f1b"; },
     [](LayoutOptions& l) { l.pipeline = {}; }},
    {"layout.sequence_parallel", "tp", [](const LayoutOptions& l) { return l.sequence_parallel; },
     [](LayoutOptions& l) { l.sequence_parallel = false; }},
    {"layout.tp_chunks", "tp", [](const LayoutOptions& l) { return l.tp_chunks > 1; },
     [](LayoutOptions& l) { l.tp_chunks = 1; }},
    {"layout.context_attention", "cp", [](const LayoutOptions& l) { return l.attention_over != ContextMethod::automatic; },
     [](LayoutOptions& l) { l.attention_over = ContextMethod::automatic; }},
    {"layout.loss_chunk", "", [](const LayoutOptions& l) { return l.loss_chunk > 0; },
     [](LayoutOptions& l) { l.loss_chunk = 0; }},
    {"layout.shard_level", "", [](const LayoutOptions& l) { return l.shard_level != ShardLevel::none; },
     [](LayoutOptions& l) {
       l.shard_level = ShardLevel::none;
       l.inner_shards = 0;
       l.offload_parameters = Offload::none;
     }},
    {"layout.inner_shards", "", [](const LayoutOptions& l) { return l.inner_shards > 0; },
     [](LayoutOptions& l) { l.inner_shards = 0; }},
    {"layout.prefetch", "", [](const LayoutOptions& l) { return l.prefetch > 0 && l.shard_level >= ShardLevel::gradients; },
     [](LayoutOptions& l) { l.prefetch = 0; }},
    {"layout.recompute", "", [](const LayoutOptions& l) { return l.recompute_every > 0 || l.recompute_parts; },
     [](LayoutOptions& l) {
       l.recompute_every = 0;
       l.recompute_parts = false;
       l.offload_activations = Offload::none;
     }},
    {"layout.offload_optimizer", "", [](const LayoutOptions& l) { return l.offload_optimizer != Offload::none; },
     [](LayoutOptions& l) { l.offload_optimizer = Offload::none; }},
    {"layout.offload_parameters", "", [](const LayoutOptions& l) { return l.offload_parameters != Offload::none; },
     [](LayoutOptions& l) { l.offload_parameters = Offload::none; }},
    {"layout.offload_activations", "", [](const LayoutOptions& l) { return l.offload_activations != Offload::none; },
     [](LayoutOptions& l) { l.offload_activations = Offload::none; }},
};

}  // namespace

int LayoutSettings::ranks() const {
  int product = 1;
  for (const AxisSize& axis : axes) product *= axis.size;
  return product;
}

std::string LayoutSettings::text() const {
  std::vector<std::string> parts;
  for (const AxisSize& axis : axes) {
    if (axis.size > 1) parts.push_back(fmt::format("{} {}", axis.name, axis.size));
  }
  return parts.empty() ? "one device" : fmt::format("{}", fmt::join(parts, " x "));
}

std::vector<LayoutSwitch> layout_switches(const LayoutSettings& settings) {
  std::vector<LayoutSwitch> switches;
  for (const AxisSize& axis : settings.axes) {
    if (axis.size == 1) continue;
    switches.push_back({axis.name, true, [name = axis.name](LayoutSettings& s) { switch_off_axis(s, name); }});
  }
  for (const Choice& choice : kChoices) {
    const std::string axis = choice.axis;
    if ((!axis.empty() && !has_axis(settings, axis)) || !choice.is_on(settings.options.layout)) continue;
    switches.push_back({choice.name, false, [off = choice.off](LayoutSettings& s) { off(s.options.layout); }});
  }
  return switches;
}

LayoutSettings without(LayoutSettings settings, const std::vector<LayoutSwitch>& switches) {
  if (switches.empty()) return settings;
  const std::vector<AxisSize> axes = settings.axes;
  settings.options.program.reset();
  settings.options.program_is_verified = false;
  for (const LayoutSwitch& part : switches) {
    if (is_normalised_over(settings.options.layout, part.name)) settings.whole = axes;
  }
  for (const LayoutSwitch& part : switches) part.off(settings);
  return settings;
}

}  // namespace weft
