#include "weft/plan/search/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/plan/forecast.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/make_plan.h"
#include "weft/plan/search/block_facts.h"
#include "weft/plan/search/data_rings.h"
#include "weft/plan/search/pipeline_bound.h"
#include "weft/plan/search/refusals.h"
#include "weft/plan/search/schedule_facts.h"
#include "weft/plan/search/search_space.h"
#include "weft/plan/search/space_facts.h"
#include "weft/plan/search/state_bound.h"

namespace weft {

namespace {

constexpr double kSurely = 1.0 - 1e-9;  ///< bounds are sums in another order than the simulation's

/// How far a layout, or a group of layouts that begin alike, has been looked into.
enum class Step : uint8_t {
  refined,   ///< a layout with the best bound, to be simulated
  states,    ///< a layout with a bound
  cut,       ///< layouts of a pipeline with its stages
  pipeline,  ///< layouts of a pipeline
};

struct Node {
  double bound_s = 0.0;
  Step step = Step::pipeline;
  int64_t order = 0;
  int micro_batches = 1;
  LayoutChoice choice = {};
  /// Later in the search: a higher bound, then what is further from a simulation.
  bool operator<(const Node& other) const {
    return std::tie(bound_s, step, order) > std::tie(other.bound_s, other.step, other.order);
  }
};

/// A simulated layout that fits.
struct Fitting {
  double step_s = 0.0;
  LayoutChoice choice = {};
  bool operator<(const Fitting& other) const {
    const auto key = [](const Fitting& x) { return std::tuple(x.step_s, complexity(x.choice), x.choice); };
    return key(*this) < key(other);
  }
};

class LayoutSearch {
 public:
  LayoutSearch(SearchSpace space, const Hardware& hardware, const SearchOptions& options, std::shared_ptr<CostTable> costs)
      : space_(std::move(space)),
        hardware_(hardware),
        most_(static_cast<size_t>(std::max(options.most, 1))),
        limit_(options.memory_bytes > 0.0 ? options.memory_bytes : hardware.memory_bytes),
        costs_(std::move(costs)),
        blocks_(space_, hardware_, costs_),
        rings_(hardware_) {
    hardware_.narrow_across = space_.base.layout.across_hosts == "bf16";
  }

  SearchResult run() {
    for (const BlockChoice& choice : block_choices(space_)) begin(choice);
    while (!nodes_.empty() && (best_.size() < most_ || nodes_.top().bound_s <= best_.back().step_s)) {
      const Node node = nodes_.top();
      nodes_.pop();
      expand(node);
    }
    for (; !nodes_.empty(); nodes_.pop()) result_.bounded += num_layouts(nodes_.top());
    for (const Fitting& layout : best_) {
      result_.best.push_back(layout_forecast(recipe_of(space_, layout.choice), space_.world, hardware_, costs_));
    }
    result_.illegal = refusals_.illegal();
    result_.over_memory = refusals_.over_memory();
    result_.left_out = refusals_.groups();
    result_.space = lines_of(space_);
    return std::move(result_);
  }

 private:
  /// Bounds of a pipeline's ranks.
  struct Pipeline {
    std::vector<RankBound> ranks;
    bool is_refined = false;
  };

  void push(Node node) {
    node.order = num_nodes_++;
    nodes_.push(std::move(node));
  }

  int64_t num_states(const LayoutChoice& choice) const {
    return std::ssize(state_choices(space_, choice.blocks, choice.pipeline));
  }
  int64_t num_layouts(const Node& node) const { return node.step <= Step::states ? 1 : num_states(node.choice); }

  void refuse(const std::string& key, const std::string& text, const std::string& why, int64_t layouts) {
    const std::string prefix = space_.base.path + ": ";
    refusals_.add_illegal(key, text, why.starts_with(prefix) ? why.substr(prefix.size()) : why, layouts);
  }

  /// Micro-batches per rank of a layout; the refusal is the caller's.
  int micro_batches(const LayoutChoice& choice) const {
    const Recipe recipe = recipe_of(space_, choice);
    const int count = resolve(recipe, space_.world).micro_batches;
    for (const BatchPhase& phase : recipe.batch.ramp) {
      Recipe alone = recipe;
      alone.batch.global = phase.global_batch;
      alone.batch.ramp.clear();
      resolve(alone, space_.world);
    }
    return count;
  }

  /// Queues the pipelines of all layouts with these blocks.
  void begin(const BlockChoice& blocks) {
    int pp = 0, count = 0;  // of the latest mesh
    std::string why;        // it is not legal
    for (const PipelineChoice& pipeline : pipeline_choices(space_, blocks)) {
      LayoutChoice choice{.blocks = blocks, .pipeline = pipeline};
      const std::vector<StateChoice> states = state_choices(space_, blocks, pipeline);
      if (states.empty()) continue;
      result_.layouts += std::ssize(states);
      choice.states = states.front();
      if (pipeline.pp != pp) {
        pp = pipeline.pp;
        why.clear();
        try {
          count = micro_batches(choice);
        } catch (const InputError& error) {
          why = error.what();
        }
      }
      if (!why.empty()) {
        const int ranks = choice.states.dp * choice.states.shard;
        const std::string text = fmt::format("{} data-parallel ranks", ranks);
        refuse(text, text, why, std::ssize(states));
        continue;
      }
      const BlockFacts& facts = facts_of(choice);
      if (!facts.why_not.empty()) {
        refuse(facts.why_not, block_text(blocks), facts.why_not, std::ssize(states));
        continue;
      }
      push({.bound_s = least_seconds(facts.passes, pipeline.pp, count) * kSurely,
            .step = pipeline.pp == 1 ? Step::cut : Step::pipeline,
            .micro_batches = count,
            .choice = choice});
    }
  }

  /// A model that cannot be divided like this cannot with another micro-batch or recompute either.
  const BlockFacts& facts_of(const LayoutChoice& choice) {
    BlockChoice family = choice.blocks;
    family.micro = 0;
    family.recompute = {};
    const auto refused = refused_.find(family);
    if (refused != refused_.end()) return refused->second;
    const BlockFacts& facts = blocks_.at(choice.blocks, choice);
    if (!facts.why_not.empty() && facts.cost == nullptr) refused_.emplace(family, facts);
    return facts;
  }

  static std::string block_text(const BlockChoice& blocks) {
    std::string text = fmt::format("tp {}", blocks.tp);
    if (blocks.sequence_parallel) text += ", sequence parallel";
    if (blocks.cp > 1) text += fmt::format(", cp {}, attention by {}", blocks.cp, kContextMethods.of(blocks.attention_over));
    return text;
  }

  void expand(const Node& node) {
    switch (node.step) {
      case Step::pipeline:
        return cut(node);
      case Step::cut:
        return add_states(node);
      case Step::states:
        return refine_bound(node);
      case Step::refined:
        return simulate(node);
    }
  }

  const std::string& schedule_of(const PipelineChoice& pipeline) const { return space_.schedules[pipeline.schedule]; }

  void cut(const Node& node) {
    const PipelineChoice& pipeline = node.choice.pipeline;
    const std::string& name = schedule_of(pipeline);
    const ScheduleFacts& schedule = schedules_.at(name, pipeline.pp, pipeline.chunks, node.micro_batches);
    if (!schedule.why_not.empty()) {
      return refuse("schedule " + name, fmt::format("schedule {}", name), schedule.why_not, num_layouts(node));
    }
    const int stages = schedule.schedule.num_stages();
    const std::vector<int>& first_block = blocks_.cut(node.choice, stages);
    if (first_block.empty()) {
      const std::string text = fmt::format("{} stages", stages);
      return refuse(text, text, fmt::format("the model cannot be cut into {} stages", stages), num_layouts(node));
    }
    LayoutChoice first = node.choice;
    for (first.pipeline.stages = 0; first.pipeline.stages < pipeline.stages; ++first.pipeline.stages) {
      if (blocks_.cut(first, stages) != first_block) continue;
      result_.layouts -= num_layouts(node);  // the same layouts under another name
      return;
    }
    Node next = node;
    next.step = Step::cut;
    double longest = 0.0;
    for (const RankBound& rank : pipeline_of(node).ranks) longest = std::max(longest, rank.end_s);
    next.bound_s = std::max(node.bound_s, longest * kSurely);
    push(next);
  }

  PipelineInputs inputs_of(const Node& node) {
    const PipelineChoice& pipeline = node.choice.pipeline;
    const BlockFacts& facts = facts_of(node.choice);
    const ScheduleFacts& schedule =
        schedules_.at(schedule_of(pipeline), pipeline.pp, pipeline.chunks, node.micro_batches);
    const int stride = space_.world / pipeline.pp, on_host = hardware_.ranks_per_host;
    const Link &inside = hardware_.intra_host, &across = hardware_.inter_host;
    Link link{.latency_s = std::min(inside.latency_s, across.latency_s),
              .bytes_per_s = std::max(inside.bytes_per_s, across.bytes_per_s)};
    if (stride >= on_host) link = across;
    if (space_.world <= on_host) link = inside;
    return {.cost = *facts.cost,
            .passes = facts.passes,
            .schedule = schedule,
            .first_block = blocks_.cut(node.choice, schedule.schedule.num_stages()),
            .micro_batches = node.micro_batches,
            .latency_s = link.latency_s,
            .seconds_per_byte = 1.0 / link.bytes_per_s};
  }

  Pipeline& pipeline_of(const Node& node) {
    const auto [found, is_new] = pipelines_.try_emplace({node.choice.blocks, node.choice.pipeline});
    if (!is_new) return found->second;
    if (node.choice.pipeline.pp > 1) {
      found->second.ranks = pipeline_bound(inputs_of(node));
    } else {
      const BlockFacts& facts = facts_of(node.choice);
      found->second = {.ranks = bound_without_pipeline(*facts.cost, facts.passes, node.micro_batches), .is_refined = true};
    }
    return found->second;
  }

  StateInputs states_of(const Node& node) {
    const BlockFacts& facts = facts_of(node.choice);
    return {.cost = *facts.cost,
            .passes = facts.passes,
            .ranks = pipeline_of(node).ranks,
            .weight_bytes = facts.weight_bytes,
            .gradient_bytes = facts.gradient_bytes,
            .micro_batches = node.micro_batches,
            .keeps_order = facts.keeps_order};
  }

  const DataRings& rings_of(const LayoutChoice& choice) {
    const auto& [blocks, pipeline, states] = choice;
    return rings_.at({.pp = pipeline.pp, .dp = states.dp, .shard = states.shard, .cp = blocks.cp, .tp = blocks.tp},
                     states.inner_shards, states.level != ShardLevel::none);
  }

  void add_states(const Node& node) {
    for (const StateChoice& states : state_choices(space_, node.choice.blocks, node.choice.pipeline)) {
      Node layout = node;
      layout.choice.states = states;
      add_layout(layout);
    }
  }

  /// Queues a layout with its bound, if it may fit.
  void add_layout(Node node) {
    const StateInputs inputs = states_of(node);
    const int64_t bytes = least_bytes(inputs, node.choice.states);
    if (static_cast<double>(bytes) > limit_) return over_memory(node, bytes);
    try {
      node.step = Step::states;
      node.bound_s = std::max(node.bound_s, least_seconds(inputs, node.choice.states, rings_of(node.choice)) * kSurely);
    } catch (const InputError& error) {
      return refuse(error.what(), "links", error.what(), 1);
    }
    push(node);
  }

  void refine_bound(Node node) {
    Pipeline& pipeline = pipeline_of(node);
    if (!pipeline.is_refined) refine(inputs_of(node), pipeline.ranks);
    pipeline.is_refined = true;
    const double bound = least_seconds(states_of(node), node.choice.states, rings_of(node.choice)) * kSurely;
    node.step = Step::refined;
    node.bound_s = std::max(node.bound_s, bound);
    push(node);
  }

  void over_memory(const Node& node, int64_t bytes) {
    refusals_.add_over_memory(memory_text(node.choice), bytes - static_cast<int64_t>(limit_));
    if (node.choice.states.offloads()) return;
    for (const StateChoice& states : offloaded(space_, node.choice)) {
      ++result_.layouts;
      Node more = node;
      more.choice.states = states;
      add_layout(more);
    }
  }

  static std::string memory_text(const LayoutChoice& choice) {
    const auto& [blocks, pipeline, states] = choice;
    std::string text = states.level == ShardLevel::none ? "whole states" : fmt::format("ZeRO-{}", static_cast<int>(states.level));
    if (pipeline.pp > 1) text += " in a pipeline";
    if (blocks.tp * blocks.cp > 1) text += " with divided layers";
    text += blocks.recompute.every > 0       ? ", recompute blocks"
            : blocks.recompute.attention ? ", recompute attention"
                                         : ", no recompute";
    return states.offloads() ? text + ", offload" : text;
  }

  void simulate(const Node& node) {
    const Recipe recipe = recipe_of(space_, node.choice);
    ++result_.simulated;
    RecipeSimulation step;
    try {
      step = plan_simulation(recipe, unverified_plan(recipe, space_.world, costs_), hardware_);
    } catch (const InputError& error) {
      return refuse(error.what(), memory_text(node.choice), error.what(), 1);
    }
    int64_t bytes = 0;
    for (const SimulatedRank& rank : step.simulation.ranks) {
      bytes = std::max({bytes, rank.memory.total(), rank.memory.reserved_bytes});
    }
    if (static_cast<double>(bytes) > limit_) return over_memory(node, bytes);
    const Fitting layout{step.simulation.step_s, node.choice};
    best_.insert(std::upper_bound(best_.begin(), best_.end(), layout), layout);
    if (best_.size() > most_) best_.pop_back();
  }

  SearchSpace space_;
  Hardware hardware_;
  size_t most_;
  double limit_;
  std::shared_ptr<CostTable> costs_;
  BlockFactsTable blocks_;
  ScheduleTable schedules_;
  DataRingTable rings_;
  Refusals refusals_;
  std::map<BlockChoice, BlockFacts> refused_;
  std::map<std::pair<BlockChoice, PipelineChoice>, Pipeline> pipelines_;
  std::priority_queue<Node> nodes_;
  int64_t num_nodes_ = 0;
  std::vector<Fitting> best_;  ///< ascending
  SearchResult result_;
};

}  // namespace

SearchResult search_layouts(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options,
                            std::shared_ptr<CostTable> costs) {
  const Stopwatch watch;
  check_hardware(hardware);
  const Recipe planned = for_hardware(recipe, hardware);
  if (!costs) costs = std::make_shared<CostTable>(planned);
  costs->check(planned);
  const SpaceFacts facts = space_facts(planned, world_size, hardware, *costs);
  SearchResult result =
      LayoutSearch(search_space(planned, world_size, hardware, facts, options.kept, options.varied), hardware, options, costs)
          .run();
  result.seconds = watch.seconds();
  return result;
}

}  // namespace weft
