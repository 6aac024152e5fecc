#include "weft/cli/output/heading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "weft/base/printable.h"
#include "weft/base/units.h"

namespace weft {

namespace {

/// "pp 2 (1f1b) x dp 4 x tp 2"
std::string mesh_text(const ResolvedLayout& layout) {
  std::vector<std::string> axes;
  if (layout.options.master && layout.pp > 1) {
    axes.push_back(fmt::format("master of {}", layout.pp));
  } else if (layout.pp > 1) {
    axes.push_back(fmt::format("pp {} ({})", layout.pp, layout.options.pipeline.schedule));
  }
  if (layout.dp > 1 || layout.world == 1) axes.push_back(fmt::format("dp {}", layout.dp));
  if (layout.shard > 1) axes.push_back(fmt::format("shard {}", layout.shard));
  if (layout.cp > 1) axes.push_back(fmt::format("cp {}", layout.cp));
  if (layout.tp > 1) axes.push_back(fmt::format("tp {}", layout.tp));
  return fmt::format("{}", fmt::join(axes, " x "));
}

/// Describes the ramp's last phase, which has the largest batch and so needs the most memory and time.
std::string ramp_text(const BatchRamp& ramp) {
  if (ramp.empty()) return "";
  std::vector<std::string> phases;
  phases.reserve(ramp.size());
  for (const BatchPhase& phase : ramp)
    phases.push_back(fmt::format("{} of {}", counted(phase.steps, "step"), phase.global_batch));
  return fmt::format("; the last phase of batch.ramp, after {}", fmt::join(phases, ", "));
}

}  // namespace

std::string heading(const Recipe& recipe, const ResolvedLayout& layout) {
  return fmt::format("{} on {}: {}, {} samples per step = {} x {} of {}{}", printable(recipe.path),
                     counted(layout.world, "rank"), mesh_text(layout), layout.global_batch, layout.sample_ranks(),
                     counted(layout.micro_batches * layout.data_ranks() / layout.sample_ranks(), "micro-batch", "es"),
                     layout.micro_batch, layout.slots > 1 ? fmt::format(", {} slots per rank", layout.slots) : "") +
         ramp_text(recipe.batch.ramp);
}

}  // namespace weft
