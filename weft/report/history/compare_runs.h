// compare_runs: what differs between runs: recipes, layouts, versions, curves at equal samples, end values.
#pragma once

#include <string>
#include <vector>

#include "weft/report/history/run_history.h"

namespace weft {

/// Runs that differ in nothing but their seed, name and folder.
struct RunGroup {
  std::string name = {};
  std::vector<const RunHistory*> runs = {};
};
/// Groups in the order of their first runs.
std::vector<RunGroup> grouped_by_seed(const std::vector<const RunHistory*>& runs);

/// A number of several runs: their mean, and the standard deviation of one of them; empty: none has it.
struct SpreadValue {
  double mean = 0.0, spread = 0.0;
  int count = 0;
};
SpreadValue spread_of(const std::vector<double>& values);

/// A key that is not the same in all groups, with each group's value.
struct Difference {
  std::string key;
  std::vector<std::string> values;
};
std::vector<Difference> differences(const std::vector<RunGroup>& groups);

/// The mean of a value over the records up to `samples`, from a twentieth of `whole` before it; NaN: there are none.
double value_near(const RunHistory& run, std::string_view value, double samples, double whole);

/// The values of steps that comparison_text() reads.
std::vector<std::string> compared_values();

/// The comparison as text.
std::string comparison_text(const std::vector<const RunHistory*>& runs, double now_s);

}  // namespace weft
