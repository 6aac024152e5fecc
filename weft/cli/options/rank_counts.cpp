#include "weft/cli/options/rank_counts.h"

#include <fmt/format.h>

#include <cstdint>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"

namespace weft {

namespace {

RankCounts parse_ranks(const std::string& text) {
  const size_t colon = text.find(':');
  const auto most = parse_number<int>(text.substr(colon == std::string::npos ? 0 : colon + 1));
  const auto least = colon == std::string::npos ? most : parse_number<int>(text.substr(0, colon));
  if (!most || !least) throw InputError(fmt::format("-n {}: not a number of ranks", text));
  if (*least < 1) throw InputError(fmt::format("-n {}: the number of ranks must be at least 1", text));
  if (*least > *most) throw InputError(fmt::format("-n {}: the smaller number comes first, as in 2:4", text));
  return {*least, *most};
}

}  // namespace

std::string ranks_misspelt(const std::string& text) {
  const auto is_number = [](const std::string& part) { return parse_number<int64_t>(part).has_value(); };
  const size_t colon = text.find(':');
  const bool good =
      colon == std::string::npos ? is_number(text) : is_number(text.substr(0, colon)) && is_number(text.substr(colon + 1));
  return good ? "" : fmt::format("'{}' is not a number of ranks, or fewest and most as in 2:4", text);
}

RankCounts rank_counts(const std::string& ranks, const HostPlan& plan) {
  if (ranks.empty()) {
    const int places = plan.kind == HostPlan::Kind::ssh ? plan.num_places() : 1;
    return {places, places};
  }
  const RankCounts counts = parse_ranks(ranks);
  const bool by_nodes = plan.kind == HostPlan::Kind::head || plan.kind == HostPlan::Kind::agent;
  if (by_nodes && counts.least < counts.most) {
    throw InputError(
        fmt::format("-n {} with --nodes: -n is this host's number of ranks; for fewest and most hosts use "
                    "--nodes 2:4",
                    ranks));
  }
  return counts;
}

}  // namespace weft
