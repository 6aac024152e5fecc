#include "weft/program/draw/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/program/check_program.h"
#include "weft/program/cost.h"
#include "weft/program/draw/draw_pipeline.h"
#include "weft/program/draw/runs_text.h"
#include "weft/program/draw/timeline.h"
#include "weft/program/host_traffic.h"

namespace weft {
namespace {

constexpr int kMinWidth = 40;
constexpr size_t kMaxTableRows = 14;  // a longer table shows only its beginning and its end

std::string span(int first, int last) { return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last); }

// "ranks 0-3, 8": the ranks that run a list.
std::string ranks_text(const Program& program, int list) {
  std::vector<int> ranks;
  for (int rank = 0; rank < program.world_size(); ++rank) {
    if (program.list_of_rank[rank] == list) ranks.push_back(rank);
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", runs_text(ranks, 8));
}

std::string elided(const std::vector<std::string>& rows) {
  const size_t half = kMaxTableRows / 2;
  const bool is_long = rows.size() > kMaxTableRows + 2;  // an ellipsis for one or two lines saves nothing
  std::string result;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_long && i == half) {
      result += fmt::format("  ... {} more ...\n", rows.size() - 2 * half);
      i = rows.size() - half;
    }
    result += rows[i] + "\n";
  }
  return result;
}

struct BlockRow {
  int first = 0, last = 0;  // inclusive
  int64_t bytes = 0;
  double forward_flops = 0.0, backward_flops = 0.0;

  bool like(const BlockRow& other) const {
    return bytes == other.bytes && forward_flops == other.forward_flops && backward_flops == other.backward_flops;
  }
};

// Adjacent blocks of equal cost share a row.
std::vector<BlockRow> block_rows(const Program& program) {
  std::vector<BlockRow> blocks(program.block_names.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b] = {
        .first = static_cast<int>(b), .last = static_cast<int>(b), .bytes = program.gradient_block_bytes(static_cast<int>(b))};
  }
  for (const InstructionList& list : program.lists) {
    std::vector<double> backward(blocks.size(), 0.0);  // sum of both parts if split
    for (const Instruction& x : list) {
      if (x.op == Op::forward) blocks[x.first].forward_flops = x.flops;
      if (is_backward(x.op) && x.micro == 0) backward[x.first] += x.flops;
    }
    for (size_t b = 0; b < blocks.size(); ++b) blocks[b].backward_flops = std::max(blocks[b].backward_flops, backward[b]);
  }
  std::vector<BlockRow> rows;
  for (const BlockRow& block : blocks) {
    if (!rows.empty() && rows.back().like(block)) {
      rows.back().last = block.last;
    } else {
      rows.push_back(block);
    }
  }
  return rows;
}

std::string blocks_table(const Program& program) {
  const std::vector<BlockRow> rows = block_rows(program);
  std::vector<std::string> names;
  size_t width = 5;
  for (const BlockRow& row : rows) {
    names.push_back(program.block_names[row.first]);
    if (row.last > row.first) names.back() += " .. " + program.block_names[row.last];
    width = std::max(width, names.back().size());
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BlockRow& row = rows[i];
    lines.push_back(fmt::format("  {:>5}  {:<{}}  {:>10}  {:>12}  {:>12}{}", span(row.first, row.last), names[i], width,
                                format_bytes(row.bytes), format_flops(row.forward_flops), format_flops(row.backward_flops),
                                row.last > row.first ? "  each" : ""));
  }
  return fmt::format("blocks   {:<{}}  {:>10}  {:>12}  {:>12}  (operations of one micro-batch)\n", "", width, "gradients",
                     "forward", "backward") +
         elided(lines);
}

std::string legend(const Program& program) {
  std::set<Op> used;
  for (const InstructionList& list : program.lists) {
    for (const Instruction& x : list) {
      if (!sums_partial(x)) used.insert(x.op);
    }
  }
  const bool sharded = program.shard_level != ShardLevel::none;
  const std::pair<Op, const char*> entries[] = {
      {Op::load, "  load     take the next micro-batch\n"},
      {Op::gather, "  G3       gather the whole weights of block 3 from the shards\n"},
      {Op::release, "  x3       release them\n"},
      {Op::forward, "  F3       forward of block 3; a second one is recompute\n"},
      {Op::drop, "  d3       drop what forward of block 3 kept for backward\n"},
      {Op::offload, "  o3       move to slower memory: w weights, o optimizer state, i input\n"},
      {Op::reload, "  r3       move it back\n"},
      {Op::loss, "  loss     loss and its gradient\n"},
      {Op::backward, "  B3       backward of block 3, adds to its gradients\n"},
      {Op::combine, "  C3-5     close a slot: merge the gradients of blocks 3 to 5 into the tree of partial sums\n"},
      {Op::reduce_scatter, "  S3       reduce-scatter the gradients of block 3 over the shards\n"},
      {Op::reduce, sharded ? "  R3       sum this rank's shard of the gradients of block 3 over the replicas\n"
                           : "  R3-5     sum the gradients of blocks 3 to 5 over the replicas\n"},
      {Op::squares, "  Q3       squares of the gradients of block 3 after one micro-batch, for the noise scale\n"},
      {Op::reduce_loss, "  R(loss)  sum losses and counts over all ranks\n"},
      {Op::norm, "  norm     global gradient norm, or largest gradient\n"},
      {Op::gather_gradients, "  M3       gather the whole gradients that the update of block 3 needs from the shards\n"},
      {Op::update, "  U3-5     run the optimizer on the rank's part of blocks 3 to 5\n"}};
  std::string result = "legend (time runs to the right, not to scale; a label is right of what it waits for)\n";
  for (const auto& [op, line] : entries) {
    if (used.count(op) != 0) result += line;
    if (op == Op::reduce && program.partial_gradients) {
      result += "  T3-5     sum the gradients of what is not split in blocks 3 to 5 over tp\n";
    }
  }
  return result;
}

std::string buckets_table(const InstructionList& list, const Program& program) {
  std::vector<const Instruction*> buckets;
  std::map<std::string, int> times;  // per step, by label
  for (const Instruction& x : list) {
    if ((x.op != Op::reduce && x.op != Op::reduce_scatter) || sums_partial(x)) continue;
    if (times[label(x)]++ == 0) buckets.push_back(&x);
  }
  if (buckets.empty()) return "no gradients are reduced\n";
  std::vector<std::string> lines;
  for (const Instruction* x : buckets) {
    int64_t bytes = 0;
    for (int b = x->first; b < x->last; ++b) bytes += program.gradient_block_bytes(b);
    if (x->op == Op::reduce) bytes /= program.shards;
    const int count = times[label(*x)];
    lines.push_back(fmt::format("  {:<9}  {:>10}  sends {:>10}{}", label(*x), format_bytes(bytes), format_bytes(x->wire_bytes),
                                count > 1 ? fmt::format("  {} times", count) : ""));
  }
  return fmt::format("gradient buckets, in the order they are first reduced\n{}", elided(lines));
}

std::string cost_table(const Program& program, const InstructionList& list) {
  const StepCost cost = step_cost(list, program.offload);
  int64_t gradients = 0;
  for (int b = 0; b < program.num_blocks(); ++b) gradients += program.gradient_block_bytes(b);
  const bool sharded = program.shard_level != ShardLevel::none;
  std::string result = "a step of one rank\n";
  const auto line = [&result](const char* what, const std::string& value, const std::string& remark) {
    result += fmt::format("  {:<22}  {:>12}  {}", what, value, remark);
    while (result.back() == ' ') result.pop_back();
    result += '\n';
  };
  line("operations", format_flops(cost.flops()),
       fmt::format("forward {}, backward {}", format_flops(cost.forward_flops), format_flops(cost.backward_flops)));
  line("bytes sent", format_bytes(cost.wire_bytes()),
       fmt::format("gradients {} in {}, losses {}", format_bytes(cost.gradient_wire_bytes),
                   counted(cost.num_reduces, sharded ? "reduction" : "bucket"), format_bytes(cost.loss_wire_bytes)));
  if (cost.num_gathers > 0) {
    line("", "", fmt::format("weights {} in {}", format_bytes(cost.weight_wire_bytes), counted(cost.num_gathers, "gather")));
  }
  if (cost.inner_wire_bytes > 0) line("", "", fmt::format("inside blocks {}", format_bytes(cost.inner_wire_bytes)));
  line("gradients", format_bytes(gradients), sharded ? "whole; weft memory reports the rank's part" : "");
  line("activations, peak", format_bytes(cost.peak_activation_bytes), "");
  if (program.slots > 1) line("partial sums, peak", format_bytes(cost.peak_partial_bytes), counted(program.slots, "slot"));
  return result;
}

std::string draw_list(const Program& program, int list, int width) {
  const InstructionList& instructions = program.lists[list];
  return fmt::format("{}: {}\n\n{}\n{}\n{}", ranks_text(program, list), counted(instructions.size(), "instruction"),
                     timeline(instructions, width), buckets_table(instructions, program), cost_table(program, instructions));
}

// Lists in use, by the first rank that runs each.
std::vector<int> lists_in_use(const Program& program) {
  std::vector<int> result;
  std::vector<bool> seen(program.lists.size());
  for (int list : program.list_of_rank) {
    if (seen[list]) continue;
    seen[list] = true;
    result.push_back(list);
  }
  return result;
}

std::string hosts_text(const Program& program, int ranks_per_host, bool narrow) {
  const std::vector<HostTraffic> hosts = host_traffic(program, ranks_per_host, narrow);
  if (hosts.size() < 2) return {};
  const HostTraffic most = most_traffic(hosts);
  std::string parts;
  const auto add = [&parts](const char* what, int64_t bytes) {
    if (bytes > 0) parts += fmt::format("{}{} {}", parts.empty() ? ": " : ", ", what, format_bytes(bytes));
  };
  add("gradients", most.gradients);
  add("weights", most.weights);
  add("activations", most.transfers);
  add("inside blocks", most.inner);
  add("losses", most.losses);
  return fmt::format("{} of {} each: per step a host sends the others {}{}\n", counted(hosts.size(), "host"),
                     counted(ranks_per_host, "rank"), format_bytes(most.total()), parts);
}

std::string totals(const Program& program, const DrawOptions& options) {
  if (program.world_size() == 1) return {};
  std::vector<StepCost> costs;
  costs.reserve(program.lists.size());
  for (const InstructionList& list : program.lists) costs.push_back(step_cost(list));
  double flops = 0.0;
  double bytes = 0.0;
  for (int list : program.list_of_rank) {
    flops += costs[list].flops();
    bytes += static_cast<double>(costs[list].wire_bytes());
  }
  return fmt::format("\na step of all {}: {}, {} sent\n", counted(program.world_size(), "rank"), format_flops(flops),
                     format_bytes(static_cast<int64_t>(std::min(bytes, 9.2e18)))) +
         (options.ranks_per_host > 0 ? hosts_text(program, options.ranks_per_host, options.narrow_across) : "");
}

// Ranks of a pipeline differ by place: one chart shows them all, and list() shows one in full.
std::string pipeline(const Program& program, const DrawOptions& options) {
  std::vector<std::string> rows = pipeline_rows(program);
  const std::string heading = rows.front() + "\n";
  rows.erase(rows.begin());
  const DrawOptions wide = {.max_ranks = std::max(options.max_ranks, 16), .width = std::max(options.width, kMinWidth)};
  return pipeline_chart(program, wide) + "\na step of one rank, by its place in the pipeline\n" + heading + elided(rows);
}

}  // namespace

std::string draw(const Program& program, const DrawOptions& options) {
  check_program(program);
  const std::vector<int> lists = lists_in_use(program);
  std::string result = fmt::format("{}, {} per rank in {}, {}", counted(program.block_names.size(), "block"),
                                   counted(program.micro_batches / program.copies, "micro-batch", "es"),
                                   counted(program.slots, "slot"), counted(program.replicas, "replica"));
  if (program.mesh.pp > 1) result += fmt::format(", {} pipeline ranks", program.mesh.pp);
  if (program.copies > 1) result += ", the first is the master of the others";
  if (program.shard_level != ShardLevel::none) {
    result += fmt::format(", {} of {}", counted(program.shards, "shard"), name(program.shard_level));
  }
  result += "\n\n";
  result += blocks_table(program) + "\n";
  if (program.mesh.pp > 1) return result + pipeline(program, options) + totals(program, options);
  result += legend(program) + "\n";
  for (size_t i = 0; i < lists.size(); ++i) {
    if (static_cast<int>(i) == options.max_ranks) {
      result += fmt::format("\n... and {}\n", counted(lists.size() - i, "more distinct list"));
      break;
    }
    if (i > 0) result += '\n';
    result += draw_list(program, lists[i], std::max(options.width, kMinWidth));
  }
  return result + totals(program, options);
}

std::string list(const Program& program, int rank) {
  if (rank < 0 || rank >= program.world_size()) {
    throw InputError(fmt::format("rank {} is not in the program: it has ranks 0 to {}", rank, program.world_size() - 1));
  }
  check_program(program);
  const InstructionList& instructions = program.of(rank);
  size_t width = 11;
  for (const Instruction& x : instructions) width = std::max(width, describe(x, program.block_names).size());
  std::string result = fmt::format("   #  lane     {:<{}}  {:>12}  {:>10}  {:>10}  {:>10}  waits for\n", "instruction", width,
                                   "operations", "sends", "allocates", "frees");
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& x = instructions[i];
    const auto bytes = [](int64_t n) { return n == 0 ? std::string() : format_bytes(n); };
    result += fmt::format("{:>4}  {:<7}  {:<{}}  {:>12}  {:>10}  {:>10}  {:>10}  {}", i, name(x.lane),
                          describe(x, program.block_names), width, x.flops == 0.0 ? "" : format_flops(x.flops),
                          bytes(x.wire_bytes), bytes(x.allocates), bytes(x.frees), fmt::join(x.waits, " "));
    while (result.back() == ' ') result.pop_back();
    result += '\n';
  }
  return result;
}

}  // namespace weft
