#include "bench/published/zero_bubble.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "bench/published/equal_stages.h"
#include "bench/published/table.h"
#include "weft/base/error.h"
#include "weft/program/schedules/automatic.h"
#include "weft/program/schedules/interleaved.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/schedules/zb_h1.h"
#include "weft/program/schedules/zb_h2.h"
#include "weft/program/schedules/zb_v.h"

namespace weft::published {
namespace {

constexpr std::string_view kSynchronised = "ZB-2p synchronised";

/// "schedule=ZB-2p; microbatches m=24" -> "ZB-2p"
std::string schedule_of(const std::string& flags) {
  const size_t begin = flags.find('=') + 1;
  return flags.substr(begin, flags.find(';') - begin);
}

ZeroBubbleRow row_of(const TableRow& fields) {
  const auto integer = [&fields](const char* column) { return static_cast<int>(needed_number(fields, column)); };
  ZeroBubbleRow row;
  row.model = fields.at("model");
  row.schedule = schedule_of(fields.at("other_flags"));
  row.shape = {.ranks = integer("pp"), .chunks = 1, .micro_batches = integer("grad_accum")};
  if (row.schedule == "1F1B-I") row.shape.chunks = (integer("n_layers") + 2) / row.shape.ranks;
  if (row.schedule == "ZB-V") row.shape.chunks = 2;
  row.samples = integer("micro_batch");
  const double scores = 5.0 * integer("n_heads") * integer("seq_len") / integer("d_model");
  row.kept_share = 32.0 / (34.0 + scores);
  row.bubble = number(fields, "bubble_rate");
  row.step_seconds = number(fields, "step_time_s");
  if (number(fields, "t_f_ms")) {
    row.own_times = {.forward = needed_number(fields, "t_f_ms"),
                     .backward_input = needed_number(fields, "t_b_ms"),
                     .backward_weight = needed_number(fields, "t_w_ms")};
    row.own_transfer = needed_number(fields, "t_comm_ms");
  }
  return row;
}

const ZeroBubbleRow& nearest_with_times(const std::vector<ZeroBubbleRow>& rows, const ZeroBubbleRow& row) {
  if (row.own_times) return row;
  const ZeroBubbleRow* nearest = nullptr;
  const auto distance = [&row](const ZeroBubbleRow& other) {
    return std::abs(other.shape.micro_batches - row.shape.micro_batches);
  };
  for (const ZeroBubbleRow& other : rows) {
    if (other.model != row.model || !other.own_times) continue;
    if (nearest == nullptr || distance(other) < distance(*nearest)) nearest = &other;
  }
  if (nearest == nullptr) throw InputError(fmt::format("published table: no row of {} has times", row.model));
  return *nearest;
}

PipelineCosts costs_of(const std::vector<ZeroBubbleRow>& rows, const ZeroBubbleRow& row) {
  const ZeroBubbleRow& source = nearest_with_times(rows, row);
  const double samples = static_cast<double>(row.samples) / source.samples;
  const double scale = samples * source.shape.ranks / row.shape.ranks;
  PipelineCosts costs;
  costs.stages.assign(row.shape.ranks, {.forward = source.own_times->forward * scale,
                                        .backward_input = source.own_times->backward_input * scale,
                                        .backward_weight = source.own_times->backward_weight * scale});
  costs.transfer = source.own_transfer * samples;
  costs.kept_share = row.kept_share;
  if (is_automatic(row)) costs.max_activations = row.shape.ranks * (row.schedule == "ZB-1p" ? 1.0 : 2.0);
  return costs;
}

Schedule schedule_of(const ZeroBubbleRow& row, const PipelineCosts& costs) {
  if (row.schedule == "1F1B") return one_f_one_b_schedule(row.shape);
  if (row.schedule == "1F1B-I") return interleaved_schedule(row.shape);
  if (row.schedule == "ZB-H1") return zb_h1_schedule(row.shape);
  if (row.schedule == "ZB-H2") return zb_h2_schedule(row.shape);
  if (row.schedule == "ZB-V") return zb_v_schedule(row.shape);
  if (!is_automatic(row)) throw InputError(fmt::format("published table: unknown schedule {}", row.schedule));
  return automatic_schedule(costs, row.shape.micro_batches, {zb_h1_schedule(row.shape), zb_h2_schedule(row.shape)});
}

StageTimes chunk_times(const PipelineCosts& costs, int chunks) {
  const StageTimes& whole = costs.stages.front();
  return {.forward = whole.forward / chunks,
          .backward_input = whole.backward_input / chunks,
          .backward_weight = whole.backward_weight / chunks};
}

ZeroBubblePrediction predict_pipeline(const std::vector<ZeroBubbleRow>& rows, const ZeroBubbleRow& row) {
  const PipelineCosts costs = costs_of(rows, row);
  const Simulation made = simulate_stages(schedule_of(row, costs), chunk_times(costs, row.shape.chunks), costs.transfer);
  const double cost_ms = row.schedule == kSynchronised ? last_work(made) : made.span_s;
  const double work_ms = made.busiest_s();
  return {.bubble = 1.0 - work_ms / cost_ms, .cost_seconds = cost_ms / 1e3, .work_seconds = work_ms / 1e3};
}

}  // namespace

bool is_automatic(const ZeroBubbleRow& row) { return row.schedule.starts_with("ZB-1p") || row.schedule.starts_with("ZB-2p"); }

std::vector<ZeroBubbleRow> zero_bubble_rows(const std::string& path) {
  std::vector<ZeroBubbleRow> rows;
  for (const TableRow& fields : read_table(path)) rows.push_back(row_of(fields));
  return rows;
}

std::vector<ZeroBubblePrediction> predict(const std::vector<ZeroBubbleRow>& rows) {
  std::map<std::string, double> outside;  // by model: the first row's step time beyond its pipeline, per work of a rank
  std::vector<ZeroBubblePrediction> predictions;
  for (const ZeroBubbleRow& row : rows) {
    ZeroBubblePrediction& made = predictions.emplace_back(predict_pipeline(rows, row));
    if (row.step_seconds) outside.try_emplace(row.model, (*row.step_seconds - made.cost_seconds) / made.work_seconds);
    const auto share = outside.find(row.model);
    made.step_seconds = made.cost_seconds + (share == outside.end() ? 0.0 : share->second * made.work_seconds);
  }
  return predictions;
}

ZeroBubbleScores score(const std::vector<ZeroBubbleRow>& rows, const std::vector<ZeroBubblePrediction>& predictions) {
  ZeroBubbleScores scores;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ZeroBubblePrediction& made = predictions[i];
    if (rows[i].step_seconds) scores.steps.add(std::abs(made.step_seconds / *rows[i].step_seconds - 1.0) <= 0.05);
    if (!rows[i].bubble) continue;
    const double above = made.bubble - *rows[i].bubble;
    if (!rows[i].own_times) {
      scores.borrowed.add(std::abs(above) <= 0.01);
    } else if (is_automatic(rows[i])) {
      scores.automatic.add(above <= 0.005);
    } else {
      scores.by_hand.add(std::abs(above) <= 0.01);
    }
  }
  return scores;
}

}  // namespace weft::published
