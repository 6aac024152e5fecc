#include "weft/plan/search/simpler_layouts.h"

#include <tuple>

namespace weft {

namespace {

Approach approach_of(const LayoutChoice& choice, const StateChoice& states) {
  return weft::approach_of(
      {.pp = choice.pipeline.pp, .dp = states.dp, .shard = states.shard, .cp = choice.blocks.cp, .tp = choice.blocks.tp},
      states.level);
}

}  // namespace

bool Fitting::operator<(const Fitting& other) const {
  const auto key = [](const Fitting& x) { return std::tuple(x.step_s, complexity(x.choice), x.choice); };
  return key(*this) < key(other);
}

SimplerLayouts::Kind SimplerLayouts::kind_of(const LayoutChoice& choice) {
  return {approach_of(choice, choice.states), choice.states.offloads()};
}

bool SimplerLayouts::is_faster(const Fitting& layout) const {
  const auto found = fastest_.find(kind_of(layout.choice));
  return found == fastest_.end() || layout < found->second;
}

const Fitting* SimplerLayouts::than(const Fitting& fastest) const {
  const auto [least, may_offload] = kind_of(fastest.choice);
  for (const auto& [kind, layout] : fastest_) {
    const auto [approach, offloads] = kind;
    if (approach < least && (may_offload || !offloads) && layout.step_s <= longest_s(fastest)) return &layout;
  }
  return nullptr;
}

bool SimplerLayouts::may_hold(const LayoutChoice& choice, bool has_states, double bound_s, const Fitting& fastest) const {
  if (has_states && choice.states.offloads() && !fastest.choice.states.offloads()) return false;
  const Fitting* found = than(fastest);
  constexpr StateChoice kReplicas{.dp = 2};  // the simplest states
  const Approach least = approach_of(choice, has_states ? choice.states : kReplicas),
                 most = kind_of(found ? found->choice : fastest.choice).first;
  return least < most || (found && least == most && bound_s <= found->step_s);
}

}  // namespace weft
