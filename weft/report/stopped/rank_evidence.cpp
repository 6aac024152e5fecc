#include "weft/report/stopped/rank_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/thread_stacks.h"

namespace weft {
namespace {

using nlohmann::json;

json json_of(const CallEvidence& call) {
  json value = {{"number", call.number},
                {"order", call.order},
                {"operation", call.operation},
                {"state", call.state},
                {"begun", call.begun_s}};
  if (!call.name.empty()) value["name"] = call.name;
  if (call.operation != "barrier") {
    value["elements"] = call.numel;
    value["type"] = call.dtype;
  }
  if (!call.reduce.empty()) value["reduce"] = call.reduce;
  if (call.peer >= 0) value["peer"] = call.peer;
  if (call.ended_s > 0.0) value["ended"] = call.ended_s;
  return value;
}

CallEvidence call_of(const json& value) {
  return {.number = value.value("number", uint64_t{0}),
          .order = value.value("order", uint64_t{0}),
          .operation = value.value("operation", ""),
          .dtype = value.value("type", ""),
          .reduce = value.value("reduce", ""),
          .name = value.value("name", ""),
          .numel = value.value("elements", int64_t{0}),
          .peer = value.value("peer", -1),
          .begun_s = value.value("begun", 0.0),
          .ended_s = value.value("ended", 0.0),
          .state = value.value("state", "")};
}

json json_of(const GroupEvidence& group) {
  json value = {{"id", group.id},
                {"axis", group.axis},
                {"backend", group.backend},
                {"ranks", group.ranks},
                {"collectives", group.collectives},
                {"calls", json::array()}};
  for (const CallEvidence& call : group.calls) value["calls"].push_back(json_of(call));
  return value;
}

GroupEvidence group_of(const json& value) {
  GroupEvidence group{.id = value.value("id", ""),
                      .axis = value.value("axis", ""),
                      .backend = value.value("backend", ""),
                      .ranks = value.value("ranks", std::vector<int>()),
                      .collectives = value.value("collectives", uint64_t{0}),
                      .calls = {}};
  for (const json& call : value.value("calls", json::array())) group.calls.push_back(call_of(call));
  return group;
}

}  // namespace

std::string call_text(const CallEvidence& call) {
  std::string text = call.operation;
  if (!call.reduce.empty()) text += " " + call.reduce;
  if (call.operation != "barrier") text += fmt::format(" of {} {}", call.numel, call.dtype);
  if (call.peer >= 0) text += fmt::format(" {} rank {}", call.operation == "send" ? "to" : "from", call.peer);
  return text + fmt::format(" \"{}\"", call.name);
}

std::string evidence_json(const RankEvidence& e) {
  json value = {{"format", 1},        {"rank", e.rank}, {"ranks", e.ranks}, {"process", e.pid},
                {"thread", e.thread}, {"host", e.host}, {"time", e.time_s}, {"step", e.step}};
  if (!e.activity.empty()) value["activity"] = e.activity;
  if (!e.operation.empty()) {
    json at = {{"operation", e.operation}};
    if (e.instruction) at["index"] = *e.instruction;
    if (!e.block.empty()) at["block"] = e.block;
    if (e.micro >= 0) at["micro_batch"] = e.micro;
    value["instruction"] = at;
  }
  if (!e.waits_in.empty()) {
    value["wait"] = {{"in", e.waits_in}, {"axis", e.wait_axis}, {"ranks", e.wait_ranks}, {"for", e.awaits}};
  }
  if (e.has_failed) value["error"] = {{"culprit", e.culprit}, {"text", e.error}};
  for (const LostRankEvidence& lost : e.lost) {
    value["lost"].push_back({{"rank", lost.rank}, {"state", lost.state}, {"process", lost.process}});
  }
  value["groups"] = json::array();
  for (const GroupEvidence& group : e.groups) value["groups"].push_back(json_of(group));
  value["threads"] = json::array();
  for (const ThreadEvidence& thread : e.threads) {
    value["threads"].push_back({{"id", thread.id}, {"name", thread.name}, {"functions", thread.functions}});
  }
  return value.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

RankEvidence parse_evidence(std::string_view text, const std::string& name) {
  try {
    const json value = json::parse(text);
    const json at = value.value("instruction", json::object()), wait = value.value("wait", json::object()),
               error = value.value("error", json::object());
    RankEvidence e{.rank = value.at("rank").get<int>(),
                   .ranks = value.value("ranks", 1),
                   .pid = value.value("process", 0),
                   .thread = value.value("thread", 0),
                   .host = value.value("host", ""),
                   .time_s = value.value("time", 0.0),
                   .activity = value.value("activity", ""),
                   .step = value.value("step", int64_t{0}),
                   .operation = at.value("operation", ""),
                   .instruction = at.contains("index") ? std::optional(at.at("index").get<int>()) : std::nullopt,
                   .block = at.value("block", ""),
                   .micro = at.value("micro_batch", -1),
                   .waits_in = wait.value("in", ""),
                   .wait_axis = wait.value("axis", ""),
                   .wait_ranks = wait.value("ranks", std::vector<int>()),
                   .awaits = wait.value("for", std::vector<int>()),
                   .has_failed = value.contains("error"),
                   .culprit = error.value("culprit", -1),
                   .error = error.value("text", "")};
    for (const json& lost : value.value("lost", json::array())) {
      e.lost.push_back({lost.value("rank", -1), lost.value("state", ""), lost.value("process", "")});
    }
    for (const json& group : value.value("groups", json::array())) e.groups.push_back(group_of(group));
    for (const json& thread : value.value("threads", json::array())) {
      e.threads.push_back(
          {thread.value("id", 0), thread.value("name", ""), thread.value("functions", std::vector<std::string>())});
    }
    constexpr int kMostRanks = 1 << 22;
    if (e.rank < 0 || e.rank >= e.ranks || e.ranks > kMostRanks)
      throw InputError(fmt::format("rank {} of {}", e.rank, e.ranks));
    return e;
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{} is damaged: {}", printable(name), error.what()));
  }
}

std::string place_text(const RankEvidence& e) {
  std::string text = e.operation;
  if (e.operation == "load") text = "waiting for data";
  if (!e.block.empty()) text += fmt::format(" of block '{}'", e.block);
  if (e.micro >= 0) text += fmt::format(", micro-batch {}", e.micro);
  if (!e.operation.empty() && e.activity.empty()) text += fmt::format(", step {}", e.step);
  if (!e.activity.empty()) return e.activity + (text.empty() ? "" : ": " + text);
  if (!text.empty()) return text;
  return e.step == 0 ? "before the first step" : fmt::format("between steps, after step {}", e.step);
}

const ThreadEvidence* main_thread(const RankEvidence& evidence) {
  const int64_t id = evidence.thread != 0 ? evidence.thread : evidence.pid;
  const auto main = std::find_if(evidence.threads.begin(), evidence.threads.end(),
                                 [id](const ThreadEvidence& thread) { return thread.id == id; });
  return main == evidence.threads.end() ? nullptr : &*main;
}

std::string function_of(const RankEvidence& evidence) {
  const ThreadEvidence* main = main_thread(evidence);
  if (main == nullptr) return "";
  const auto end = main->functions.end();
  const auto is_weft = [](const std::string& function) { return function.find("weft::") != std::string::npos; };
  const auto inner = std::find_if(main->functions.begin(), end, [](const std::string& one) { return !is_of_the_system(one); });
  if (inner == end) return "";
  const auto own = std::find_if(inner, end, [&](const std::string& one) {
    return !is_of_the_system(one) && !is_weft(one) && one.find(" [lib") == std::string::npos;
  });
  if (own == inner || own == end || *own == "main" || *own == "_start") return *inner + "()";
  return fmt::format("{}(), called from {}()", *inner, *own);
}

}  // namespace weft
