#include "weft/report/profile/step_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/program/fingerprint.h"

namespace weft {
namespace {

using TimelineJson = nlohmann::ordered_json;

constexpr int kMostTimelineRanks = 64;
constexpr double kNanoseconds = 1e9;

/// Begin and end of each instruction, one after another.
TimelineJson times_json(const std::vector<TimedInstruction>& timed, size_t begin, size_t end) {
  TimelineJson times = TimelineJson::array();
  for (size_t i = begin; i < end; ++i) {
    times.push_back(std::llround(timed[i].start_s * kNanoseconds));
    times.push_back(std::llround(timed[i].end_s * kNanoseconds));
  }
  return times;
}

size_t end_of_rank(const std::vector<TimedInstruction>& timed, size_t begin) {
  size_t end = begin;
  while (end < timed.size() && timed[end].rank == timed[begin].rank) ++end;
  return end;
}

}  // namespace

StepTimeline timeline_of(const Program& program, const std::vector<MeasuredStep>& steps, int64_t step) {
  StepTimeline timeline{.program = fingerprint(program), .step = step};
  const int world = program.world_size(), columns = world / program.mesh.pp;
  for (const MeasuredStep& measured : steps) {
    timeline.steps.push_back(measured.step);
    if (measured.step != step) continue;
    const double origin_s = measured.first_begin_s();
    for (int rank = 0; rank < static_cast<int>(measured.ranks.size()); ++rank) {
      if (world > kMostTimelineRanks && (rank % columns != 0 || rank / columns >= kMostTimelineRanks)) continue;
      for (int i = 0; i < static_cast<int>(measured.ranks[rank].size()); ++i) {
        const MeasuredInstruction& x = measured.ranks[rank][i];
        timeline.timed.push_back({rank, i, x.start_s - origin_s, x.end_s - origin_s});
      }
    }
  }
  return timeline;
}

std::string timeline_json(const StepTimeline& timeline) {
  TimelineJson ranks = TimelineJson::array();
  for (size_t begin = 0, end = 0; begin < timeline.timed.size(); begin = end) {
    end = end_of_rank(timeline.timed, begin);
    ranks.push_back({{"rank", timeline.timed[begin].rank}, {"times_ns", times_json(timeline.timed, begin, end)}});
  }
  const TimelineJson json = {{"program", fmt::format("{:016x}", timeline.program)},
                             {"step", timeline.step},
                             {"steps", timeline.steps},
                             {"ranks", std::move(ranks)}};
  return json.dump() + "\n";
}

StepTimeline parse_timeline(const std::string& text, const std::string& path) {
  try {
    const auto json = nlohmann::json::parse(text);
    StepTimeline timeline{.program = std::stoull(json.at("program").get<std::string>(), nullptr, 16),
                          .step = json.at("step").get<int64_t>(),
                          .steps = json.at("steps").get<std::vector<int64_t>>()};
    int last = -1;
    for (const auto& of_rank : json.at("ranks")) {
      const int rank = of_rank.at("rank").get<int>();
      const auto times = of_rank.at("times_ns").get<std::vector<int64_t>>();
      if (rank <= last || times.size() % 2 != 0) throw InputError("ranks are not in order, or a time is missing");
      last = rank;
      for (size_t i = 0; i < times.size(); i += 2) {
        timeline.timed.push_back({rank, static_cast<int>(i / 2), static_cast<double>(times[i]) / kNanoseconds,
                                  static_cast<double>(times[i + 1]) / kNanoseconds});
      }
    }
    if (timeline.steps.empty()) throw InputError("it has no steps");
    return timeline;
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{} is not the timeline of a profile: {}", printable(path), error.what()));
  }
}

}  // namespace weft
