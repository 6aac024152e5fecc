#include "weft/train/run/rank_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

using CborJson = nlohmann::json;

CborJson as_json(const OperatorWork& x) {
  return {static_cast<int>(x.kind),
          static_cast<int>(x.of),
          static_cast<int>(x.form),
          x.is_backward,
          x.is_causal,
          x.adds,
          x.element_bytes,
          x.window,
          x.count,
          x.batch,
          x.rows,
          x.columns,
          x.inner,
          x.heads,
          x.kv_heads,
          x.bytes,
          x.elements};
}

OperatorWork work_of(const CborJson& json) {
  OperatorWork x;
  size_t next = 0;
  const auto take = [&](auto& value) { value = json.at(next++).get<std::remove_reference_t<decltype(value)>>(); };
  const auto take_enum = [&](auto& value) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(json.at(next++).get<int>());
  };
  take_enum(x.kind), take_enum(x.of), take_enum(x.form);
  take(x.is_backward), take(x.is_causal), take(x.adds);
  take(x.element_bytes), take(x.window), take(x.count);
  take(x.batch), take(x.rows), take(x.columns), take(x.inner), take(x.heads), take(x.kv_heads), take(x.bytes), take(x.elements);
  return x;
}

CborJson as_json(const RankStep& step, double origin_s) {
  CborJson times = CborJson::array(), calls = CborJson::array(), names = CborJson::array();
  for (const MeasuredInstruction& x : step.instructions) {
    for (const double value : {x.start_s - origin_s, x.issued_s - origin_s, x.end_s - origin_s, x.inner_s})
      times.push_back(value);
  }
  std::map<std::string, size_t> numbers;  // of names
  for (const MeasuredOperator& x : step.operators) {
    const auto [name, is_new] = numbers.try_emplace(x.name, numbers.size());
    if (is_new) names.push_back(x.name);
    CborJson work = CborJson::array();
    for (const OperatorWork& one : x.work) work.push_back(as_json(one));
    calls.push_back({name->second, x.start_s - origin_s, x.end_s - origin_s, x.is_kernel, std::move(work)});
  }
  return {{"step", step.step}, {"times", std::move(times)}, {"names", std::move(names)}, {"calls", std::move(calls)}};
}

RankStep step_of(const CborJson& json) {
  RankStep step{.step = json.at("step").get<int64_t>()};
  const CborJson& times = json.at("times");
  for (size_t i = 0; i + 3 < times.size(); i += 4) {
    step.instructions.push_back(
        {times[i].get<double>(), times[i + 1].get<double>(), times[i + 2].get<double>(), times[i + 3].get<double>()});
  }
  for (const CborJson& call : json.at("calls")) {
    MeasuredOperator x{.name = json.at("names").at(call.at(0).get<size_t>()).get<std::string>(),
                       .start_s = call.at(1).get<double>(),
                       .end_s = call.at(2).get<double>(),
                       .is_kernel = call.at(3).get<bool>()};
    for (const CborJson& work : call.at(4)) x.work.push_back(work_of(work));
    step.operators.push_back(std::move(x));
  }
  return step;
}

/// Counts all times from the first begin.
void start_at_zero(std::vector<MeasuredStep>& steps) {
  double first = std::numeric_limits<double>::infinity();
  for (const MeasuredStep& step : steps) {
    for (const auto& rank : step.ranks) {
      if (!rank.empty()) first = std::min(first, rank.front().start_s);
    }
  }
  for (MeasuredStep& step : steps) {
    for (auto& rank : step.ranks) {
      for (MeasuredInstruction& x : rank) x.start_s -= first, x.issued_s -= first, x.end_s -= first;
    }
    for (auto& rank : step.operators) {
      for (MeasuredOperator& x : rank) x.start_s -= first, x.end_s -= first;
    }
  }
}

}  // namespace

std::string packed(const std::vector<RankStep>& steps, double origin_s) {
  CborJson json = CborJson::array();
  for (const RankStep& step : steps) json.push_back(as_json(step, origin_s));
  std::string bytes;
  CborJson::to_cbor(json, bytes);
  return bytes;
}

std::vector<MeasuredStep> joined_steps(const std::vector<std::string>& ranks) {
  std::vector<MeasuredStep> steps;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    try {
      const CborJson json = CborJson::from_cbor(ranks[rank]);
      steps.resize(json.size());
      for (size_t i = 0; i < json.size(); ++i) {
        RankStep own = step_of(json[i]);
        steps[i].step = own.step;
        steps[i].ranks.resize(ranks.size());
        steps[i].operators.resize(ranks.size());
        steps[i].ranks[rank] = std::move(own.instructions);
        steps[i].operators[rank] = std::move(own.operators);
      }
    } catch (const CborJson::exception& error) {
      throw Error(fmt::format("profile: the times of rank {} cannot be read: {}", rank, error.what()));
    }
  }
  start_at_zero(steps);
  return steps;
}

}  // namespace weft
