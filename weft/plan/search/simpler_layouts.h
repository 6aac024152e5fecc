// SimplerLayouts: the layouts that a search has simulated, by approach: whether one is simpler than the fastest, and about as
// fast.
#pragma once

#include <map>
#include <utility>

#include "weft/plan/search/layout_choice.h"
#include "weft/plan/search/layout_text.h"

namespace weft {

inline constexpr double kAboutAsFast = 0.01;  ///< largest share by which a simpler layout's step may be longer than the fastest

/// A simulated layout that fits. Faster ones are less; of equally fast ones, simpler ones.
struct Fitting {
  double step_s = 0.0;
  LayoutChoice choice = {};
  bool operator<(const Fitting& other) const;
};

class SimplerLayouts {
 public:
  /// True if no layout of the same approach, with or without offload alike, was as fast.
  bool is_faster(const Fitting& layout) const;
  /// Adds a layout for which is_faster() is true.
  void add(const Fitting& layout) { fastest_.insert_or_assign(kind_of(layout.choice), layout); }

  /// The longest step of interest.
  static double longest_s(const Fitting& fastest) { return (1.0 + kAboutAsFast) * fastest.step_s; }
  /// The fastest of the simplest approach that has one; null: none. It offloads nothing that the fastest of all does not.
  const Fitting* than(const Fitting& fastest) const;
  /// True if a layout with this bound may be the result of than(). `has_states`: its states are known.
  bool may_hold(const LayoutChoice& choice, bool has_states, double bound_s, const Fitting& fastest) const;

 private:
  using Kind = std::pair<Approach, bool>;  // and whether it offloads
  static Kind kind_of(const LayoutChoice& choice);

  std::map<Kind, Fitting> fastest_;
};

}  // namespace weft
