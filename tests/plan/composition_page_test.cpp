// The tables of docs/composition.md match the code. A failure prints the table for the page.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/plan/layout/composition.h"
#include "weft/plan/make_plan.h"
#include "weft/program/axes.h"
#include "weft/program/build/make_schedule.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::composition_page_test {
namespace {

/// A strategy, and the keys that select it.
struct Choice {
  std::string name;
  std::map<std::string, std::string> keys;
};

const Choice kPipeline{"`pp`", {{"pp", "2"}}};
const Choice kReplicas{"`dp`", {{"dp", "2"}}};
const Choice kShards{"`shard`", {{"shard", "2"}, {"shard_level", "optimizer"}}};
const Choice kContext{"`cp`", {{"cp", "2"}}};
const Choice kTensor{"`tp`", {{"tp", "2"}}};
const Choice kBlocks{"recompute", {{"recompute", "blocks"}}};
const Choice kOffload{"offload", {{"offload_optimizer", "host"}}};
const Choice kBf16{"bf16", {{"precision", "bf16"}}};
const Choice kFp16{"fp16", {{"precision", "fp16"}}};
const Choice kSlots{"slots", {{"run.reproducible_slots", "8"}}};

std::vector<Choice> rows() {
  std::vector<Choice> all;
  for (const std::string& schedule : schedule_names()) {
    if (schedule == "csv") continue;
    all.push_back({fmt::format("`pp`, `schedule = \"{}\"`", schedule), {{"pp", "2"}, {"schedule", schedule}}});
  }
  all.push_back({"`style = \"master\"`", {{"pp", "2"}, {"style", "master"}}});
  all.push_back({"`dp`", kReplicas.keys});
  for (const char* level : {"optimizer", "gradients", "parameters"}) {
    all.push_back({fmt::format("`shard_level = \"{}\"`", level), {{"shard", "2"}, {"shard_level", level}}});
  }
  for (const char* method : {"ring", "all_to_all"}) {
    all.push_back({fmt::format("`cp`, `context_attention = \"{}\"`", method), {{"cp", "2"}, {"context_attention", method}}});
  }
  all.push_back(kTensor);
  all.push_back({"`tp`, `sequence_parallel`", {{"tp", "2"}, {"sequence_parallel", "true"}}});
  all.push_back({"`recompute = \"blocks\"`", kBlocks.keys});
  all.push_back({"`recompute = \"attention\"`", {{"recompute", "attention"}}});
  all.push_back({"`offload_optimizer`", kOffload.keys});
  all.push_back({"`offload_parameters`", {{"shard", "2"}, {"shard_level", "parameters"}, {"offload_parameters", "host"}}});
  all.push_back({"`offload_activations`", {{"recompute", "blocks"}, {"offload_activations", "host"}}});
  all.push_back({"`precision = \"bf16\"`", kBf16.keys});
  all.push_back({"`precision = \"fp16\"`", kFp16.keys});
  all.push_back({"`run.reproducible_slots`", kSlots.keys});
  return all;
}

std::vector<Choice> columns() {
  return {kPipeline, kReplicas, kShards, kContext, kTensor, kBlocks, kOffload, kBf16, kFp16, kSlots};
}

/// The plan of a small model with these choices, on as many ranks as their axes have.
Plan plan_of(const std::string& model, const std::map<std::string, std::string>& keys) {
  std::vector<std::string> overrides;
  int ranks = 1;
  for (const auto& [key, value] : keys) {
    overrides.push_back((key.find('.') == std::string::npos ? "layout." + key : key) + "=" + value);
    if (std::set<std::string>{"pp", "dp", "shard", "cp", "tp"}.contains(key)) ranks *= std::stoi(value);
  }
  const std::string recipe = fmt::format(R"(
    model = {{ name = "{}", layers = 4, heads = 4, width = 32, context = 16 }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = 32, micro = 2 }}
    optimizer = {{ clip = 1.0 }}
    run = {{ steps = 3 }})",
                                         model);
  return make_plan(parse_recipe(recipe, "r.toml", overrides), ranks);
}

/// "yes" if gpt and llama can be planned, and the plan passes verify(); "-" if both choices use the same key.
std::string cell(const Choice& row, const Choice& column, std::vector<std::string>& reasons) {
  std::map<std::string, std::string> keys = row.keys;
  for (const auto& [key, value] : column.keys) {
    if (!keys.emplace(key, value).second) return "-";
  }
  try {
    for (const char* model : {"gpt", "llama"}) plan_of(model, keys);
    return "yes";
  } catch (const InputError& error) {
    const std::string reason = std::string(error.what()).substr(std::string("r.toml: ").size());
    auto known = std::find(reasons.begin(), reasons.end(), reason);
    if (known == reasons.end()) known = reasons.insert(known, reason);
    return fmt::format("no ({})", known - reasons.begin() + 1);
  }
}

std::string pairs_table() {
  std::string table = "| |", rule = "|---|";
  for (const Choice& column : columns()) {
    table += " " + column.name + " |";
    rule += "---|";
  }
  table += "\n" + rule + "\n";
  std::vector<std::string> reasons;
  for (const Choice& row : rows()) {
    table += "| " + row.name + " |";
    for (const Choice& column : columns()) table += " " + cell(row, column, reasons) + " |";
    table += "\n";
  }
  for (size_t i = 0; i < reasons.size(); ++i) table += fmt::format("{}({}) `{}`\n", i == 0 ? "\n" : "", i + 1, reasons[i]);
  return table;
}

std::string rules_table() {
  std::string table = "| with | it takes |\n|---|---|\n";
  for (const CompositionRule& rule : composition_rules()) table += fmt::format("| `{}` | {} |\n", rule.choice, rule.needs);
  return table;
}

/// Axes of a program's collectives of this kind.
std::string axes_of(const Program& program, Op op, bool tied) {
  std::set<std::string> names;
  for (const InstructionList& list : program.lists) {
    for (const Instruction& x : list) {
      if (x.op == op && (tied_block(x) >= 0) == tied && !x.axes.empty()) names.insert("`" + name(x.axes) + "`");
    }
  }
  return names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "));
}

std::string inner_axes_of(const Program& program) {
  AxisSet axes = kNoAxes;
  for (const InnerCalls& calls : program.block_calls) {
    for (const InnerCall& call : calls.forward) axes = axes | call.axes;
  }
  std::set<std::string> names;
  for (const AxisSet axis : {kContextAxis, kTensorAxis}) {
    if (axes.has(axis)) names.insert("`" + name(axis) + "`");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string axes_table() {
  const std::vector<std::string> levels = {"none", "optimizer", "gradients", "parameters"};
  std::vector<Program> programs;
  for (const std::string& level : levels) {
    programs.push_back(*plan_of("gpt", {{"pp", "2"},
                                        {"dp", "2"},
                                        {"shard", "2"},
                                        {"cp", "2"},
                                        {"tp", "2"},
                                        {"shard_level", level},
                                        {"model.tied_embeddings", "true"}})
                            .program);
  }
  std::string table = "| instruction | what |";
  for (const std::string& level : levels) table += " " + level + " |";
  table += "\n|---|---|---|---|---|---|\n";
  const auto add = [&](const std::string& instruction, const std::string& what, const auto& axes) {
    table += "| " + instruction + " | " + what + " |";
    for (const Program& program : programs) table += " " + axes(program) + " |";
    table += "\n";
  };
  const auto along = [](Op op, bool tied = false) {
    return [op, tied](const Program& program) { return axes_of(program, op, tied); };
  };
  add("`forward`, `backward`", "exchanges of split layers and attention", inner_axes_of);
  add("`gather`", "weights", along(Op::gather));
  add("`reduce_scatter`", "gradients, into shards", along(Op::reduce_scatter));
  add("`reduce`", "gradient sums of each rank", along(Op::reduce));
  add("`reduce`, tied weights", "gradients of stages that hold the same weight", along(Op::reduce, true));
  add("`norm`", "squares of each rank's part", along(Op::norm));
  add("`reduce_loss`", "losses and counts", along(Op::reduce_loss));
  return table;
}

/// Content of a table on the page.
std::string on_page(const std::string& name) {
  std::ifstream in(WEFT_SOURCE "/docs/composition.md");
  std::ostringstream text;
  text << in.rdbuf();
  const std::string begin = "<!-- table: " + name + " -->\n", end = "<!-- end -->";
  const size_t at = text.str().find(begin);
  if (at == std::string::npos) return "no table of that name";
  const size_t first = at + begin.size();
  return text.str().substr(first, text.str().find(end, first) - first);
}

TEST(CompositionPage, PairsMatchThePlans) { EXPECT_EQ(on_page("pairs"), pairs_table()) << pairs_table(); }

TEST(CompositionPage, ConditionsAreTheRules) { EXPECT_EQ(on_page("rules"), rules_table()) << rules_table(); }

TEST(CompositionPage, AxesAreThoseOfThePrograms) { EXPECT_EQ(on_page("axes"), axes_table()) << axes_table(); }

}  // namespace
}  // namespace weft::composition_page_test
