#include "weft/train/trainer/bad_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/program/axis_names.h"
#include "weft/train/save/rank_meeting.h"
#include "weft/train/trainer/step_updater.h"

namespace weft {

namespace {

/// "dp 1 of 2, pp 0 of 2"
std::string place_of(const Mesh& mesh) {
  std::string text;
  for (const char* axis : kAxisNames) {
    if (mesh.size(axis) == 1) continue;
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", axis, mesh.coordinate(axis), mesh.size(axis));
  }
  return text;
}

}  // namespace

BadStep agreed_on(const BadStep& own, const Mesh& mesh, const TrainerOptions& options) {
  const World& world = mesh.world();
  nlohmann::json said = {{"wrong", own.wrong()}};
  if (own.finding()) {
    Finding finding = *own.finding();
    finding.rank = world.rank();
    finding.place = place_of(mesh);
    if (finding.sample >= 0 && options.sample_name) finding.sample_name = options.sample_name(finding.sample);
    said["finding"] = finding_json(finding);
  }
  RankMeeting meeting(world, fmt::format("finding what was not finite in step {}", own.step() + 1),
                      options.communication.timeout);
  meeting.send("found", said.dump());
  std::vector<std::pair<Finding, std::string>> found;
  std::string wrong;
  const auto names_all = [](const std::string& text) { return text.find(kAnotherRank) == std::string::npos; };
  for (int rank = 0; rank < world.size(); ++rank) {
    const nlohmann::json each = world.size() == 1 ? said : nlohmann::json::parse(meeting.wait_for("found", rank));
    const std::string text = each.at("wrong");
    if (rank == 0) {
      wrong = text;
    } else if (!names_all(wrong) && names_all(text)) {
      wrong = fmt::format("rank {}: {}", rank, text);
    }
    if (each.contains("finding")) found.emplace_back(parse_finding(each.at("finding")), each.at("wrong"));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return came_before(a.first, b.first); });
  if (!found.empty() && (names_all(found.front().second) || !names_all(wrong))) wrong = found.front().second;
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (auto& [finding, text] : found) findings.push_back(std::move(finding));
  return {own.step(), wrong, std::move(findings)};
}

}  // namespace weft
