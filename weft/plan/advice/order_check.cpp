#include "weft/plan/advice/order_check.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "weft/plan/forecast.h"

namespace weft {

namespace {

constexpr double kNoise = 0.1;
constexpr double kEqual = 1e-3;  ///< steps that differ by less take equally long

/// Makes what `link` describes take `slower` times as long.
void slow(Link& link, double slower) {
  link.latency_s *= slower;
  link.bytes_per_s /= slower;
}

void slow(std::optional<double>& seconds, double slower) {
  if (seconds) *seconds *= slower;
}

/// Rates of attention, or of all other operators: the times that grow with what `terms` name.
void slow_rates(Hardware& hardware, double slower, bool attention, std::initializer_list<double OperatorRate::*> terms) {
  if (!hardware.operators) return;
  for (OperatorRate& rate : hardware.operators->rates.of) {
    if (rate.of.starts_with("attention") != attention) continue;
    for (const auto term : terms) rate.*term *= slower;
  }
}

void slow_compute(Hardware& hardware, double slower) {
  slow_rates(hardware, slower, /*attention=*/false, {&OperatorRate::work_s, &OperatorRate::extra_s});
  hardware.flops /= slower;
  hardware.narrow_flops /= slower;
  for (BlockTime& block : hardware.blocks) {
    for (std::optional<double>* time : {&block.forward_s, &block.backward_s, &block.input_s, &block.weight_s})
      slow(*time, slower);
  }
  slow(hardware.loss_s, slower);
}

void slow_attention(Hardware& hardware, double slower) {
  if (!hardware.operators) return;
  slow_rates(hardware, slower, /*attention=*/true, {&OperatorRate::work_s, &OperatorRate::byte_s, &OperatorRate::extra_s});
  AttentionCosts& attention = hardware.operators->attention;
  attention.forward = std::min(1.0, attention.forward / slower);
  attention.backward = std::min(1.0, attention.backward / slower);
}

void slow_memory(Hardware& hardware, double slower) {
  hardware.memory_bytes_per_s /= slower;
  slow_rates(hardware, slower, /*attention=*/false, {&OperatorRate::byte_s, &OperatorRate::far_byte_s});
  slow(hardware.update_s_per_element, slower);
}

void slow_launches(Hardware& hardware, double slower) {
  hardware.launch_s *= slower;
  for (const bool attention : {false, true}) slow_rates(hardware, slower, attention, {&OperatorRate::start_s});
  for (std::optional<double>* time : {&hardware.host_launch_s, &hardware.graph_launch_s, &hardware.host_wait_s})
    slow(*time, slower);
  if (!hardware.operators) return;
  OperatorCosts& operators = *hardware.operators;
  for (double* start : {&operators.products.start_s, &operators.attention.start_s, &operators.memory_bound.start_s})
    *start *= slower;
}

void slow_inside_hosts(Hardware& hardware, double slower) {
  slow(hardware.intra_host, slower);
  if (!hardware.collectives) return;
  hardware.collectives->start_s *= slower;
  hardware.collectives->all_reduce_start_s *= slower;
}

void slow_between_hosts(Hardware& hardware, double slower) {
  slow(hardware.inter_host, slower);
  if (hardware.collectives) hardware.collectives->hop_s *= slower;
}

void slow_offload(Hardware& hardware, double slower) { slow(hardware.offload, slower); }

bool matters(const Hardware& hardware, int world_size, void (*slow)(Hardware&, double)) {
  if (slow == slow_between_hosts) return world_size > hardware.ranks_per_host;
  if (slow == slow_inside_hosts) return std::min(world_size, hardware.ranks_per_host) > 1;
  return slow != slow_attention || hardware.operators;
}

/// Times of blocks, in a hardware file that has them, are measured with the recipe.
std::string measured_by(const Hardware& hardware, void (*slow)(Hardware&, double), const char* otherwise) {
  const bool is_of_blocks = !hardware.blocks.empty() && (slow == slow_compute || slow == slow_memory);
  return is_of_blocks ? "weft profile" : otherwise;
}

/// Numbers that are measured together, and so are wrong together.
struct NumberClass {
  const char* numbers;
  const char* measured_by;
  void (*slow)(Hardware&, double);
};

constexpr std::array<NumberClass, 7> kClasses = {{{"the rate of operations", "weft calibrate", slow_compute},
                                                  {"the rate of attention", "weft calibrate", slow_attention},
                                                  {"the memory bandwidth", "weft calibrate", slow_memory},
                                                  {"the time of launches", "weft calibrate", slow_launches},
                                                  {"the links inside hosts", "weft netcheck", slow_inside_hosts},
                                                  {"the links between hosts", "weft netcheck", slow_between_hosts},
                                                  {"the link to offloaded state", "weft profile", slow_offload}}};

/// Number of layouts, of `best` fastest first, that one class can make the fastest.
size_t num_close(const std::vector<LayoutForecast>& best) {
  const auto far = std::find_if(best.begin(), best.end(),
                                [&](const LayoutForecast& each) { return each.step_s > best.front().step_s * (1.0 + kNoise); });
  return static_cast<size_t>(far - best.begin());
}

}  // namespace

OrderCheck check_order(const std::vector<LayoutForecast>& best, int world_size, const Hardware& hardware,
                       const std::shared_ptr<CostTable>& costs) {
  OrderCheck check{.noise = kNoise};
  const size_t close = best.empty() ? 0 : num_close(best);
  check.layouts = static_cast<int>(close);
  if (close < 2) return check;
  for (const NumberClass& numbers : kClasses) {
    if (!matters(hardware, world_size, numbers.slow)) continue;
    for (const double slower : {1.0 + kNoise, 1.0 / (1.0 + kNoise)}) {
      Hardware changed = hardware;
      numbers.slow(changed, slower);
      std::vector<double> steps;
      steps.reserve(close);
      for (size_t i = 0; i < close; ++i) {
        steps.push_back(recipe_simulation(best[i].recipe, world_size, changed, "", costs).simulation.step_s);
      }
      const size_t fastest = static_cast<size_t>(std::min_element(steps.begin(), steps.end()) - steps.begin());
      if (steps[fastest] < (1.0 - kEqual) * steps[0]) {
        check.changes.push_back({.numbers = numbers.numbers,
                                 .slower = slower,
                                 .fastest = fastest,
                                 .layout = best[fastest].text,
                                 .measured_by = measured_by(hardware, numbers.slow, numbers.measured_by)});
      }
    }
  }
  return check;
}

}  // namespace weft
