#include "weft/plan/search/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/in_parallel.h"
#include "weft/base/stopwatch.h"
#include "weft/plan/forecast.h"
#include "weft/plan/layout/planned_device.h"
#include "weft/plan/search/layout_bounds.h"
#include "weft/plan/search/refusals.h"
#include "weft/plan/search/search_space.h"
#include "weft/plan/search/simulated_layout.h"
#include "weft/plan/search/space_facts.h"

namespace weft {

namespace {

constexpr size_t kAtOnce = 8;    ///< layouts that are measured or simulated together, whatever the number of threads
constexpr int kMostThreads = 4;  ///< each takes the memory of a simulation

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
  CountedChoice layout = {};
  /// Later in the search: a higher bound, then what is further from a simulation.
  bool operator<(const Node& other) const {
    return std::tie(bound_s, step, order) > std::tie(other.bound_s, other.step, other.order);
  }
};

class LayoutSearch {
 public:
  LayoutSearch(SearchSpace space, const Hardware& hardware, const SearchOptions& options, std::shared_ptr<CostTable> costs)
      : space_(std::move(space)),
        hardware_(with_threads(hardware, space_.base, space_.world)),
        most_(static_cast<size_t>(std::max(options.most, 1))),
        limit_(options.memory_bytes > 0.0 ? options.memory_bytes : hardware.memory_bytes),
        options_(options),
        threads_(static_cast<size_t>(options.threads > 0 ? options.threads : std::min(kMostThreads, available_cores()))),
        costs_(std::move(costs)),
        bounds_(space_, hardware_, costs_) {
    hardware_.narrow_across = space_.base.layout.across_hosts == "bf16";  // at least as fast
  }

  SearchResult run() {
    const std::vector<BlockChoice> choices = block_choices(space_);
    for (size_t first = 0; first < choices.size(); first += kAtOnce) {
      const std::span some = std::span(choices).subspan(first, std::min(kAtOnce, choices.size() - first));
      measure(some);
      for (const BlockChoice& choice : some) begin(choice);
    }
    while (may_hold_better()) simulate_some();
    seeks_simpler_ = options_.finds_simpler && !best_.empty();
    while (seeks_simpler_ && may_hold_better()) simulate_some();
    for (const Node& node : nodes_) result_.bounded += num_layouts(node);
    for (const Fitting& layout : best_) result_.best.push_back(forecast(layout));
    if (const Fitting* layout = seeks_simpler_ ? simpler_.than(best_.front()) : nullptr) result_.simpler = forecast(*layout);
    result_.illegal = refusals_.illegal();
    result_.over_memory = refusals_.over_memory();
    result_.left_out = refusals_.groups();
    result_.space = lines_of(space_);
    return std::move(result_);
  }

 private:
  LayoutForecast forecast(const Fitting& layout) const {
    return layout_forecast(recipe_of(space_, layout.choice), space_.world, hardware_, costs_);
  }

  void push(Node node) {
    node.order = num_nodes_++;
    nodes_.push_back(node);
    std::push_heap(nodes_.begin(), nodes_.end());
  }

  /// Removes the first of the queue.
  Node popped() {
    std::pop_heap(nodes_.begin(), nodes_.end());
    const Node node = nodes_.back();
    nodes_.pop_back();
    return node;
  }

  bool may_hold_better() const {
    if (options_.finds_any && !best_.empty()) return false;
    if (options_.most_simulated > 0 && result_.simulated >= options_.most_simulated) return false;
    if (nodes_.empty() || best_.size() < most_) return !nodes_.empty();
    return nodes_.front().bound_s <= (seeks_simpler_ ? SimplerLayouts::longest_s(best_.front()) : best_.back().step_s);
  }

  int64_t num_states(const LayoutChoice& choice) const {
    return std::ssize(state_choices(space_, choice.blocks, choice.pipeline));
  }
  int64_t num_layouts(const Node& node) const { return node.step <= Step::states ? 1 : num_states(node.layout.choice); }

  void refuse(const std::string& key, const std::string& text, const std::string& why, int64_t layouts) {
    const std::string prefix = space_.base.path + ": ";
    refusals_.add_illegal(key, text, why.starts_with(prefix) ? why.substr(prefix.size()) : why, layouts);
  }

  /// Measures, on several threads, costs that begin() may ask for.
  void measure(std::span<const BlockChoice> choices) {
    std::vector<LayoutChoice> wanted;
    for (const BlockChoice& blocks : choices) {
      if (is_too_large(blocks) || bounds_.is_refused(blocks)) continue;
      if (std::optional<LayoutChoice> layout = first_legal(blocks)) wanted.push_back(*layout);
    }
    in_parallel(wanted.size(), threads_, [&](size_t i) { bounds_.measure(wanted[i]); });
  }

  std::optional<LayoutChoice> first_legal(const BlockChoice& blocks) const {
    int pp = 0;  // the latest
    for (const PipelineChoice& pipeline : pipeline_choices(space_, blocks)) {
      const std::vector<StateChoice> states = state_choices(space_, blocks, pipeline);
      if (states.empty() || std::exchange(pp, pipeline.pp) == pipeline.pp) continue;
      CountedChoice layout{.choice = {.blocks = blocks, .pipeline = pipeline, .states = states.front()}};
      if (why_illegal(layout).empty()) return layout.choice;
    }
    return {};
  }

  /// Queues the pipelines of all layouts with these blocks.
  void begin(const BlockChoice& blocks) {
    int pp = 0;            // the latest
    CountedChoice layout;  // with its micro-batches
    std::string why;       // it has none
    for (const PipelineChoice& pipeline : pipeline_choices(space_, blocks)) {
      LayoutChoice choice{.blocks = blocks, .pipeline = pipeline};
      const std::vector<StateChoice> states = state_choices(space_, blocks, pipeline);
      if (states.empty()) continue;
      result_.layouts += std::ssize(states);
      choice.states = states.front();
      layout.choice = choice;
      if (std::exchange(pp, pipeline.pp) != pipeline.pp) why = why_illegal(layout);
      const std::string text =
          fmt::format("{} data-parallel ranks with micro-batches of {}", choice.states.dp * choice.states.shard, blocks.micro);
      if (!why.empty()) {
        refuse(text, text, why, std::ssize(states));
      } else if (is_too_large(blocks)) {
        refuse_size(blocks, std::ssize(states));
      } else if (const BlockFacts& facts = bounds_.blocks(choice); !facts.why_not.empty()) {
        refuse(facts.why_not, block_text(blocks), facts.why_not, std::ssize(states));
      } else if (note_size(choice)) {
        refuse_size(blocks, std::ssize(states));
      } else {
        const Step step = pipeline.pp == 1 ? Step::cut : Step::pipeline;
        push({.bound_s = bounds_.seconds_of_blocks(layout), .step = step, .layout = layout});
      }
    }
  }

  static BlockChoice family_of(BlockChoice blocks) {
    blocks.micro = 0;
    blocks.recompute.every = 0;
    return blocks;
  }

  /// True if a smaller micro-batch is too large for a rank already.
  bool is_too_large(const BlockChoice& blocks) const {
    const auto found = too_large_.find(family_of(blocks));
    return found != too_large_.end() && blocks.micro >= found->second.first;
  }

  /// Notes the micro-batch if one block of it alone is too large for a rank; returns whether it is.
  bool note_size(const LayoutChoice& choice) {
    const int64_t bytes = bounds_.bytes_of_blocks(choice);
    if (static_cast<double>(bytes) <= limit_) return false;
    too_large_.try_emplace(family_of(choice.blocks), choice.blocks.micro, bytes - static_cast<int64_t>(limit_));
    return true;
  }

  void refuse_size(const BlockChoice& blocks, int64_t layouts) {
    const auto& [micro, bytes] = too_large_.at(family_of(blocks));
    refusals_.add_over_memory(fmt::format("micro-batches of {} and more", micro), bytes, layouts);
  }

  /// Counts the layout's micro-batches; returns why there is no such number.
  std::string why_illegal(CountedChoice& layout) const {
    try {
      layout = bounds_.counted(layout.choice);
      return {};
    } catch (const InputError& error) {
      return error.what();
    }
  }

  /// Looks further into what may be fastest until some layouts are left to be simulated, then simulates these.
  void simulate_some() {
    std::vector<Node> ready;
    while (ready.size() < at_once_ && may_hold_better()) {
      const Node node = popped();
      if (seeks_simpler_ && !simpler_.may_hold(node.layout.choice, node.step <= Step::states, node.bound_s, best_.front())) {
        result_.bounded += num_layouts(node);
      } else if (node.step == Step::refined) {
        ready.push_back(node);
      } else {
        look_into(node);
      }
    }
    std::vector<SimulatedLayout> simulated(ready.size());
    in_parallel(ready.size(), threads_,
                [&](size_t i) { simulated[i] = simulated_layout(space_, ready[i].layout.choice, hardware_, costs_); });
    for (size_t i = 0; i < ready.size(); ++i) record(ready[i], simulated[i]);
    at_once_ = std::min(2 * at_once_, kAtOnce);
    if (options_.progress) options_.progress(result_);
  }

  void look_into(const Node& node) {
    if (node.step == Step::pipeline) cut(node);
    if (node.step == Step::cut) add_states(node);
    if (node.step == Step::states) refine_bound(node);
  }

  void cut(Node node) {
    if (const std::string why = bounds_.why_no_pipeline(node.layout); !why.empty()) {
      const PipelineChoice& pipeline = node.layout.choice.pipeline;
      const std::string& schedule = space_.schedules[pipeline.schedule];
      return refuse(schedule, fmt::format("schedule {}", schedule), why, num_layouts(node));
    }
    if (bounds_.repeats_stages(node.layout)) {
      result_.layouts -= num_layouts(node);
      return;
    }
    node.step = Step::cut;
    node.bound_s = std::max(node.bound_s, bounds_.seconds_of_pipeline(node.layout));
    push(node);
  }

  void add_states(const Node& node) {
    for (const StateChoice& states : state_choices(space_, node.layout.choice.blocks, node.layout.choice.pipeline)) {
      Node layout = node;
      layout.layout.choice.states = states;
      add_layout(layout);
    }
  }

  /// Queues a layout with its bound, if it may fit.
  void add_layout(Node node) {
    const int64_t bytes = bounds_.bytes(node.layout);
    if (static_cast<double>(bytes) > limit_) return over_memory(node, bytes);
    try {
      node.step = Step::states;
      node.bound_s = std::max(node.bound_s, bounds_.seconds(node.layout));
    } catch (const InputError& error) {
      return refuse(error.what(), "links", error.what(), 1);
    }
    push(node);
  }

  void refine_bound(Node node) {
    node.step = Step::refined;
    node.bound_s = std::max(node.bound_s, bounds_.refined_seconds(node.layout));
    push(node);
  }

  void over_memory(const Node& node, int64_t bytes) {
    const LayoutChoice& choice = node.layout.choice;
    refusals_.add_over_memory(memory_text(choice), bytes - static_cast<int64_t>(limit_));
    if (!choice.states.offloads_as(space_.kept_offload)) return;
    for (const StateChoice& states : offloaded(space_, choice)) {
      ++result_.layouts;
      Node more = node;
      more.layout.choice.states = states;
      add_layout(more);
    }
  }

  void record(const Node& node, const SimulatedLayout& simulated) {
    const LayoutChoice& choice = node.layout.choice;
    const Fitting layout{simulated.step_s, choice};
    const bool is_too_large = static_cast<double>(simulated.bytes) > limit_,
               is_among_best = !is_too_large && (best_.size() < most_ || layout < best_.back()),
               is_fastest_of_kind = !is_too_large && options_.finds_simpler && simpler_.is_faster(layout);
    std::string why = simulated.why_not;
    if (why.empty() && (is_among_best || is_fastest_of_kind))
      why = why_no_ramp(recipe_of(space_, choice), space_.world, costs_);
    if (!why.empty()) return refuse(why, memory_text(choice), why, 1);
    ++result_.simulated;
    if (is_too_large) {
      ++result_.too_large;
      return over_memory(node, simulated.bytes);
    }
    if (is_fastest_of_kind) simpler_.add(layout);
    if (!is_among_best) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), layout), layout);
    if (best_.size() > most_) best_.pop_back();
  }

  SearchSpace space_;
  Hardware hardware_;
  size_t most_;
  double limit_;
  SearchOptions options_;
  bool seeks_simpler_ = false;
  size_t threads_;
  size_t at_once_ = 1;  ///< grows: some searches end with the first layout that fits
  std::shared_ptr<CostTable> costs_;
  LayoutBounds bounds_;
  Refusals refusals_;
  /// By blocks without micro-batch and recompute: the smallest micro-batch that is too large, and by how many bytes.
  std::map<BlockChoice, std::pair<int64_t, int64_t>> too_large_;
  std::vector<Node> nodes_;  ///< a heap, of which the next one is first
  int64_t num_nodes_ = 0;
  std::vector<Fitting> best_;  ///< ascending
  SimplerLayouts simpler_;
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
