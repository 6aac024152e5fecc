#include "weft/train/check/collective_checks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/base/units.h"
#include "weft/comm/call/call.h"
#include "weft/comm/call/shard_range.h"
#include "weft/comm/host/host_name.h"
#include "weft/comm/world_hosts.h"
#include "weft/train/measure/link_times.h"
#include "weft/train/trainer/gathered_texts.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

/// One element; parts of unequal size; more than a page; more than what a message holds at once.
constexpr std::array<int64_t, 4> kSizes = {1, 1000, (1 << 16) + 1, (1 << 17) + 3};
constexpr std::array<at::ScalarType, 3> kTypes = {at::kFloat, at::kBFloat16, at::kLong};
constexpr int64_t kMostExact = 256;  ///< bfloat16 holds all integers up to here
constexpr double kUnwritten = -1.0;

/// What the calls of one size must leave on a rank of a group, on the CPU in int64.
struct Expected {
  Expected(int64_t numel, int size, int rank);

  /// What rank `rank` of `size` contributes: numbers up to 30, other ones in most places of most ranks. Sums stay below
  /// kMostExact.
  static at::Tensor contribution(const at::Tensor& index, int size, int rank);

  at::Tensor own, root, previous;  ///< contributions of this rank, of the last one, and of the one before
  at::Tensor sum, max, min;        ///< of all contributions
  at::Tensor gathered, exchanged;  ///< after all_gather of each rank's own part, and all_to_all
};

at::Tensor Expected::contribution(const at::Tensor& index, int size, int rank) {
  const int64_t period = (size + kMostExact - 1) / kMostExact;  // of many ranks only some contribute to a sum
  const int64_t below = std::clamp<int64_t>(kMostExact / size, 1, 30) + 1;
  const at::Tensor value = (index * (5 + rank) + index.floor_divide(below) + 3 * rank).remainder(below);
  return period == 1 ? value : value * (index + rank).remainder(period).eq(0);
}

Expected::Expected(int64_t numel, int size, int rank) {
  const at::Tensor index = at::arange(numel, at::kLong);
  const ShardRange range = shard_range(numel, size, rank);
  const int64_t share = range.end - range.begin;
  gathered = at::zeros({numel}, at::kLong);
  exchanged = at::zeros({share * size}, at::kLong);
  for (int other = 0; other < size; ++other) {
    const at::Tensor value = contribution(index, size, other);
    sum = other == 0 ? value : sum + value;
    max = other == 0 ? value : at::maximum(max, value);
    min = other == 0 ? value : at::minimum(min, value);
    const ShardRange theirs = shard_range(numel, size, other);
    gathered.slice(0, theirs.begin, theirs.end).copy_(value.slice(0, theirs.begin, theirs.end));
    exchanged.narrow(0, other * share, share).copy_(value.slice(0, range.begin, range.end));
    if (other == rank) own = value;
    if (other == (rank + size - 1) % size) previous = value;
    if (other == size - 1) root = value;
  }
}

/// The first element that differs: "element 13 is 7, not 9"; empty if none does.
std::string first_difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor actual = found.cpu();
  const at::Tensor wrong = at::ne(actual, expected);
  if (!wrong.any().item<bool>()) return "";
  const auto place = wrong.to(at::kByte).argmax().item<int64_t>();
  return fmt::format("element {} is {}, not {}", place, actual[place].item<double>(), expected[place].item<double>());
}

/// Runs the calls of one size and type after another.
class Checker {
 public:
  Checker(const Group& group, at::Device device) : group_(group), device_(device) {}

  CollectiveFindings operator()() {
    for (const int64_t numel : kSizes) {
      const Expected expected(numel, group_.size(), group_.rank());
      numel_ = numel;
      for (const at::ScalarType dtype : kTypes) {
        dtype_ = dtype;
        check(expected);
      }
    }
    return found_;
  }

 private:
  void check(const Expected& expected) {
    for (const auto& [op, result] : {std::pair(ReduceOp::sum, expected.sum), std::pair(ReduceOp::max, expected.max),
                                     std::pair(ReduceOp::min, expected.min)}) {
      const at::Tensor tensor = on_device(expected.own);
      group_.all_reduce(tensor, op, "check").wait();
      note({.operation = Operation::all_reduce, .reduce = op}, tensor, result);
    }
    const ShardRange range = shard_range(numel_, group_.size(), group_.rank());
    const int64_t share = range.end - range.begin;
    const at::Tensor scattered = unwritten(share);
    group_.reduce_scatter(scattered, on_device(expected.own), ReduceOp::sum, "check").wait();
    note({.operation = Operation::reduce_scatter}, scattered, expected.sum.slice(0, range.begin, range.end));

    const at::Tensor gathered = unwritten(numel_);
    group_.all_gather(gathered, on_device(expected.own.slice(0, range.begin, range.end).contiguous()), "check").wait();
    note({.operation = Operation::all_gather}, gathered, expected.gathered);

    const int root = group_.size() - 1;
    const at::Tensor sent = group_.rank() == root ? on_device(expected.own) : unwritten(numel_);
    group_.broadcast(sent, root, "check").wait();
    note({.operation = Operation::broadcast}, sent, expected.root);

    const at::Tensor received = unwritten(share * group_.size());
    group_.all_to_all(received, on_device(expected.own), "check").wait();
    note({.operation = Operation::all_to_all}, received, expected.exchanged);
    check_message(expected);
  }

  /// Sends to the next rank while the previous one sends here. Even ranks send first, because a send may wait for its receiver.
  void check_message(const Expected& expected) {
    const int next = (group_.rank() + 1) % group_.size(), previous = (group_.rank() + group_.size() - 1) % group_.size();
    const at::Tensor message = on_device(expected.own), received = unwritten(numel_);
    if (group_.rank() % 2 == 0) {
      group_.send(message, next, "check").wait();
      group_.receive(received, previous, "check").wait();
    } else {
      group_.receive(received, previous, "check").wait();
      group_.send(message, next, "check").wait();
    }
    note({.operation = Operation::receive}, received, expected.previous);
  }

  at::Tensor on_device(const at::Tensor& value) const {
    return value.to(device_, dtype_, /*non_blocking=*/false, /*copy=*/true);
  }
  at::Tensor unwritten(int64_t numel) const { return at::full({numel}, kUnwritten, at::TensorOptions(dtype_).device(device_)); }

  void note(Call call, const at::Tensor& found, const at::Tensor& expected) {
    const int index = found_.calls++;
    if (found_.first_wrong >= 0) return;
    const std::string difference = first_difference(found, expected.to(dtype_));
    if (!difference.empty()) group_.throw_if_failed();  // a failed call leaves what was there
    if (difference.empty()) return;
    constexpr std::array<const char*, 3> kNames = {" sum", " max", " min"};
    found_.first_wrong = index;
    found_.wrong =
        fmt::format("{}{} of {} {}: {}", operation_name(call.operation),
                    call.reduces() ? kNames.at(static_cast<size_t>(call.reduce)) : "", numel_, dtype_name(dtype_), difference);
  }

  const Group& group_;
  at::Device device_;
  int64_t numel_ = 0;
  at::ScalarType dtype_ = at::kFloat;
  CollectiveFindings found_;
};

/// Ranks in two axes: hosts and the ranks of each or, on one host, two rows. Nothing if they cannot be divided so.
std::optional<std::pair<int, int>> rows_of(const World& world) {
  const int per_host = ranks_per_host(world), size = world.size();
  if (per_host == size) return size >= 4 && size % 2 == 0 ? std::optional(std::pair(2, size / 2)) : std::nullopt;
  return are_hosts_even(world, per_host) && per_host > 1 ? std::optional(std::pair(size / per_host, per_host)) : std::nullopt;
}

/// What a rank found in all groups, as text for rank 0.
Json findings_json(const CheckedGroup& group, const CollectiveFindings& found, double seconds) {
  return {{"line", group.backend}, {"members", group.members}, {"calls", found.calls}, {"first_wrong", found.first_wrong},
          {"wrong", found.wrong},  {"seconds", seconds}};
}

/// Makes the group and checks it.
Json checked(const CheckedGroup& given, at::Device device) {
  std::optional<Group> group;
  try {
    group = given.mesh.group(given.axis, given.options);
  } catch (const Error& error) {  // no rank has the group
    const bool refused = dynamic_cast<const InputError*>(&error) != nullptr;
    return {{"line", given.backend}, {refused ? "refused" : "error", error.what()}};
  }
  CheckedGroup named = given;
  if (given.options.backend == BackendKind::automatic) named.backend = group->backend();
  const Stopwatch watch;
  const CollectiveFindings found = check_collectives(*group, device);
  return findings_json(named, found, watch.seconds());
}

/// The line of one back end. `of_ranks`: what each rank found in its groups.
CheckLine line_of(const std::string& backend, const std::vector<std::vector<Json>>& of_ranks) {
  const std::string name = "collectives " + backend;
  std::string error, members;
  int calls = 0;
  double seconds = 0.0;
  for (size_t i = 0; i < of_ranks[0].size(); ++i) {
    const Json& own = of_ranks[0][i];
    int first = std::numeric_limits<int>::max(), culprit = -1;
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      const Json found = i < of_ranks[rank].size() ? of_ranks[rank][i] : Json{{"error", "a rank has no such group"}};
      if (found.contains("refused")) return not_checked(name, found.at("refused"));
      if (found.contains("error")) error = found.at("error");
      const int wrong = found.value("first_wrong", -1);
      if (wrong < 0 || wrong >= first) continue;
      first = wrong;
      culprit = static_cast<int>(rank);
    }
    if (culprit >= 0) {
      return check_failed(name,
                          fmt::format("rank {}, in a group of {}: {}", culprit, own.value("members", "all ranks"),
                                      of_ranks[static_cast<size_t>(culprit)][i].at("wrong").get<std::string>()),
                          "test that host's memory and network card; if it happens on other machines too, report a bug");
    }
    if (!error.empty()) return check_failed(name, error, "see that ranks reach each other: firewall, WEFT_PORTS, interfaces");
    calls += own.at("calls").get<int>();
    seconds += own.at("seconds").get<double>();
    members += (members.empty() ? "" : ", ") + own.at("members").get<std::string>();
  }
  if (calls == 0)
    return check_failed(name, "rank 0 could not make the group that others made", "see that ranks reach each other");
  return check_ok(name, fmt::format("{} calls give the right values over {}; {}", calls, members, format_duration(seconds)));
}

}  // namespace

CollectiveFindings check_collectives(const Group& group, at::Device device) { return Checker(group, device)(); }

GroupsToCheck groups_to_check(const World& world, BackendKind backend, at::Device device, std::chrono::milliseconds timeout) {
  const bool one_host = on_one_host(hosts_of(world));
  const auto rows = rows_of(world);
  const Mesh line(world, {{"all", world.size()}});
  const auto [outer, inner] = rows.value_or(std::pair(1, world.size()));
  const Mesh plane(world, {{"outer", outer}, {"inner", inner}});
  GroupsToCheck result;
  const auto add = [&](const std::string& name, BackendKind kind, const Mesh& mesh, const char* axis,
                       const std::string& members) {
    result.groups.push_back({name, members, mesh, mesh.axis(axis), {.backend = kind, .device = device, .timeout = timeout}});
  };
  const auto add_all = [&](const std::string& name, BackendKind kind) {
    add(name, kind, line, "all", fmt::format("all {}", counted(world.size(), "rank")));
  };
  const auto add_inside = [&](const std::string& name, BackendKind kind) {
    if (rows)
      add(name, kind, plane, "inner",
          one_host ? fmt::format("{} neighbouring ranks", inner) : fmt::format("the {} ranks of each host", inner));
  };
  const auto add_across = [&](const std::string& name, BackendKind kind) {
    if (rows)
      add(name, kind, plane, "outer",
          one_host ? fmt::format("{} ranks at a distance", outer) : fmt::format("one rank of each of {} hosts", outer));
  };
  if (!one_host && !rows) {
    result.missing.push_back(not_checked("collectives shm", "no two ranks share a host, or hosts have unequal ranks"));
  } else {
    if (one_host) add_all("shm", BackendKind::shm);
    add_inside("shm", BackendKind::shm);
    if (one_host) add_across("shm", BackendKind::shm);
  }
  add_all("gloo", BackendKind::gloo);
  add_inside("gloo", BackendKind::gloo);
  add_across("gloo", BackendKind::gloo);
  add_all("gloo", BackendKind::gloo);
  result.groups.back().members += " with tree_order";
  result.groups.back().options.tree_order = true;
  if (device.is_cpu() && one_host) {
    result.missing.push_back(not_checked("collectives shm+gloo", "they sum across hosts, and there is one; give --hosts"));
  }
  if (device.is_cpu()) result.missing.push_back(not_checked("collectives nccl", "ranks compute on the CPU"));
  if (device.is_cpu() && one_host) return result;
  if (!device.is_cpu() && (backend == BackendKind::shm || backend == BackendKind::gloo)) {
    result.missing.push_back(
        not_checked("collectives auto", fmt::format("ranks use {}, and may share a device", kBackends.of(backend))));
    return result;
  }
  add_all("auto", BackendKind::automatic);
  if (device.is_cpu()) return result;
  add_inside("auto", BackendKind::automatic);
  add_across("auto", BackendKind::automatic);
  return result;
}

std::vector<CheckLine> check_groups(const World& world, BackendKind backend, at::Device device,
                                    std::chrono::milliseconds timeout) {
  const GroupsToCheck to_check = groups_to_check(world, backend, device, timeout);
  Json own = Json::array();
  for (const CheckedGroup& group : to_check.groups) own.push_back(checked(group, device));
  const std::vector<std::string> texts = gathered_texts(world, "collectives", own.dump(), timeout * 4);
  if (world.rank() != 0) return {};
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::vector<Json>>> by_backend;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    for (const Json& found : Json::parse(texts[rank])) {
      const std::string backend = found.at("line");
      if (by_backend.count(backend) == 0) order.push_back(backend);
      auto& of_ranks = by_backend[backend];
      of_ranks.resize(texts.size());
      of_ranks[rank].push_back(found);
    }
  }
  std::vector<CheckLine> lines;
  lines.reserve(order.size());
  for (const std::string& backend : order) lines.push_back(line_of(backend, by_backend.at(backend)));
  lines.insert(lines.end(), to_check.missing.begin(), to_check.missing.end());
  return lines;
}

}  // namespace weft
