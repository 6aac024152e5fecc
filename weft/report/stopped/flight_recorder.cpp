#include "weft/report/stopped/flight_recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>

#include "weft/base/utf8.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr size_t kMostKept = 64;  ///< CallLog::kKept

/// A JSON value as Python's pickle, protocol 2.
class Pickle {
 public:
  static std::string of(const json& value) {
    Pickle pickle;
    pickle.text_ = "\x80\x02";
    pickle.add(value);
    return std::move(pickle.text_) + '.';
  }

 private:
  void add(const json& value) {
    switch (value.type()) {
      case json::value_t::object:
        text_ += "}(";
        for (const auto& [name, member] : value.items()) {
          add_string(name);
          add(member);
        }
        text_ += 'u';
        return;
      case json::value_t::array:
        text_ += "](";
        for (const json& member : value) add(member);
        text_ += 'e';
        return;
      case json::value_t::string:
        return add_string(value.get_ref<const std::string&>());
      case json::value_t::boolean:
        text_ += value.get<bool>() ? '\x88' : '\x89';
        return;
      case json::value_t::number_integer:
      case json::value_t::number_unsigned:
        text_ += "\x8a\x08";
        return add_bytes(static_cast<uint64_t>(value.get<int64_t>()), 8);
      case json::value_t::number_float: {
        text_ += 'G';
        const auto bits = std::bit_cast<uint64_t>(value.get<double>());
        for (int shift = 56; shift >= 0; shift -= 8) text_ += static_cast<char>(bits >> shift & 0xff);
        return;
      }
      default:
        text_ += 'N';
    }
  }
  /// '?' stands for each byte that is not UTF-8, which a reader would refuse.
  void add_string(std::string_view value) {
    std::string text;
    while (!value.empty()) {
      const size_t bytes = first_character(value).bytes;
      text += bytes > 0 ? value.substr(0, bytes) : "?";
      value.remove_prefix(std::max<size_t>(bytes, 1));
    }
    text_ += 'X';
    add_bytes(text.size(), 4);
    text_ += text;
  }
  void add_bytes(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> 8 * i & 0xff);
  }

  std::string text_;
};

std::string name_of(const CallEvidence& call) {
  if (call.operation == "reduce_scatter") return "nccl:_reduce_scatter_base";
  if (call.operation == "all_gather") return "nccl:_all_gather_base";
  if (call.operation == "barrier" || call.operation == "allocate") return "nccl:all_reduce_barrier";
  return "nccl:" + call.operation;
}

/// LibTorch's name of a type.
std::string type_of(const std::string& dtype) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"float32", "Float"}, {"float64", "Double"}, {"bfloat16", "BFloat16"}, {"float16", "Half"},
      {"int64", "Long"},    {"int32", "Int"},      {"uint8", "Byte"},        {"bool", "Bool"}};
  for (const auto& [own, theirs] : kNames) {
    if (dtype == own) return std::string(theirs);
  }
  return dtype;
}

class Dump {
 public:
  explicit Dump(const RankEvidence& evidence) : evidence_(evidence) {}

  std::string text() {
    const double since_s = complete_since_s();
    for (const GroupEvidence& group : evidence_.groups) {
      add_group(group.id, group.axis, group.ranks);
      for (const CallEvidence& call : group.calls) {
        if (call.begun_s >= since_s || !call.is_ended())
          call.is_message() ? add_message(group, call) : add_collective(group, call);
      }
    }
    std::sort(entries_.begin(), entries_.end(), [](const json& a, const json& b) { return a["record_id"] < b["record_id"]; });
    return Pickle::of({{"version", "2.10"}, {"pg_config", groups_}, {"pg_status", json::object()}, {"entries", entries_}});
  }

 private:
  double complete_since_s() const {
    double since_s = 0.0;
    for (const GroupEvidence& group : evidence_.groups) {
      if (group.calls.size() >= kMostKept) since_s = std::max(since_s, group.calls.front().begun_s);
    }
    return since_s;
  }

  void add_group(const std::string& id, const std::string& axis, const std::vector<int>& ranks) {
    groups_[id] = {{"name", id}, {"desc", axis}, {"ranks", fmt::format("[{}]", fmt::join(ranks, ", "))}};
  }

  json entry(const std::string& id, const std::string& axis, const CallEvidence& call) const {
    const json types = json::array({type_of(call.dtype)});
    const auto ns = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
    return {{"record_id", call.order},
            {"pg_id", 0},
            {"process_group", {id, axis}},
            {"op_id", call.order},
            {"time_created_ns", ns(call.begun_s)},
            {"time_discovered_started_ns", call.state == "scheduled" ? json() : json(ns(call.begun_s))},
            {"time_discovered_completed_ns", call.ended_s > 0.0 ? json(ns(call.ended_s)) : json()},
            {"input_dtypes", types},
            {"output_dtypes", types},
            {"state", call.state},
            {"retired", call.is_ended()},
            {"frames", json::array({{{"name", call.name}, {"filename", axis}, {"line", call.number}}})}};
  }

  void add_collective(const GroupEvidence& group, const CallEvidence& call) {
    json own = entry(group.id, group.axis, call);
    const auto size = static_cast<int64_t>(group.ranks.size());
    const int64_t part = (call.numel + size - 1) / size;
    const bool gathers = call.operation == "all_gather", scatters = call.operation == "reduce_scatter";
    own["profiling_name"] = name_of(call);
    own["collective_seq_id"] = call.number;
    own["p2p_seq_id"] = 0;
    own["is_p2p"] = false;
    own["input_sizes"] = {{gathers ? part : scatters ? part * size : call.numel}};
    own["output_sizes"] = {{gathers ? part * size : scatters ? part : call.numel}};
    entries_.push_back(std::move(own));
  }

  void add_message(const GroupEvidence& group, const CallEvidence& call) {
    const bool sends = call.operation == "send";
    const int from = sends ? evidence_.rank : call.peer, to = sends ? call.peer : evidence_.rank;
    const std::string id = fmt::format("{}/{}-{}", group.id, from, to),
                      axis = fmt::format("{} from {} to {}", group.axis, from, to);
    add_group(id, axis, {std::min(from, to), std::max(from, to)});
    json own = entry(id, axis, call);
    const int source = from < to ? 0 : 1;
    own["profiling_name"] =
        sends ? fmt::format("nccl:send {}->{}", source, 1 - source) : fmt::format("nccl:recv {}<-{}", 1 - source, source);
    own["collective_seq_id"] = call.number;
    own["p2p_seq_id"] = call.number;
    own["is_p2p"] = true;
    own["input_sizes"] = own["output_sizes"] = {{call.numel}};
    entries_.push_back(std::move(own));
  }

  const RankEvidence& evidence_;
  json groups_ = json::object();
  std::vector<json> entries_;
};

}  // namespace

std::string flight_recorder_dump(const RankEvidence& evidence) { return Dump(evidence).text(); }

}  // namespace weft
