#include "weft/program/draw/time_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "weft/base/median.h"
#include "weft/program/draw/bars.h"

namespace weft {
namespace {

constexpr double kLeastPart = 0.5;  // share of a slot: shorter tasks are left out
constexpr double kJoinedGap = 0.5;  // longest gap, as a share of the shorter bar
constexpr double kMostSlots = 1e12;
constexpr char kTooShort[] = "(too short to be seen)";

char letter(BarKind kind) {
  switch (kind) {
    case BarKind::forward:
      return 'F';
    case BarKind::recompute:
      return 'R';
    case BarKind::backward:
      return 'B';
    case BarKind::backward_input:
      return 'I';
    case BarKind::backward_weight:
      return 'W';
    default:
      return 'U';
  }
}

// Typical time of the shortest kind, so that each task gets at least one slot. 0 if nothing runs.
double slot_of(const std::vector<BarRow>& rows) {
  std::array<std::vector<double>, kBarKinds.size()> times;
  for (const BarRow& row : rows) {
    for (const Bar& bar : row.compute) times[static_cast<size_t>(bar.kind)].push_back(bar.end_s - bar.start_s);
  }
  double slot = 0.0;
  for (size_t kind = 0; kind < kBarKinds.size(); ++kind) {
    const bool is_task = static_cast<BarKind>(kind) != BarKind::other && static_cast<BarKind>(kind) != BarKind::recompute;
    if (times[kind].empty() || !is_task) continue;
    const double usual = median(times[kind]);
    slot = slot == 0.0 ? usual : std::min(slot, usual);
  }
  return slot;
}

bool follows(const Bar& task, const Bar& next) {
  const double gap_s = next.start_s - task.end_s;
  return next.micro >= 0 && next.micro == task.micro && next.chunk == task.chunk &&
         gap_s <= kJoinedGap * std::min(task.end_s - task.start_s, next.end_s - next.start_s);
}

bool is_backward(BarKind kind) { return kind == BarKind::backward || kind == BarKind::backward_input; }

// Blocks with small gaps between them are one task, and recompute is part of the backward that follows it directly.
std::vector<Bar> tasks_of(const std::vector<Bar>& bars) {
  std::vector<Bar> tasks;
  for (size_t i = 0; i < bars.size(); ++i) {
    Bar task = bars[i];
    const bool runs_on = i + 1 < bars.size() && is_backward(bars[i + 1].kind) && follows(task, bars[i + 1]);
    if (task.kind == BarKind::recompute && runs_on) task.kind = bars[i + 1].kind;
    if (!tasks.empty() && tasks.back().kind == task.kind && follows(tasks.back(), task)) {
      tasks.back().end_s = task.end_s;
    } else {
      tasks.push_back(task);
    }
  }
  return tasks;
}

std::vector<BarRow> task_rows(const Program& program, const std::vector<TimedInstruction>& timed) {
  std::vector<BarRow> rows = bar_rows(program, timed);
  for (BarRow& row : rows) row.compute = tasks_of(row.compute);
  return rows;
}

double end_of(const std::vector<BarRow>& rows) {
  double end_s = 0.0;
  for (const BarRow& row : rows) {
    if (!row.compute.empty()) end_s = std::max(end_s, row.compute.back().end_s);
  }
  return end_s;
}

// A printed task: its label in slot `begin`, dashes up to `end`.
struct Shown {
  size_t begin = 0, end = 0;
  std::string label;
};

class Chart {
 public:
  Chart(const Program& program, std::vector<BarRow> rows, const TimeChartOptions& options)
      : program_(program),
        rows_(std::move(rows)),
        options_(options),
        slot_(std::max(slot_of(rows_), end_of(rows_) / kMostSlots)) {
    for (const BarRow& row : rows_) {
      margin_ = std::max(margin_, name_of(row).size());
      if (row.num_chunks > 1) has_chunks_ = true;
    }
    cell_ = 2 + fmt::to_string(program.micro_batches - 1).size() + (has_chunks_ ? 1 : 0);
    for (const BarRow& row : rows_) lines_.push_back(line_of(row));
    for (size_t i = 0; i < rows_.size(); ++i) longest_ = std::max(longest_, length_of(i));
  }

  std::string print() const {
    const size_t room = std::max<size_t>(static_cast<size_t>(std::max(options_.width, 0)), margin_ + 3 + cell_) - margin_ - 3;
    const size_t fitting = (room + 1) / cell_;  // a slot ends with a blank
    if (longest_ <= fitting) return panel(0, longest_);
    if (longest_ <= 2 * fitting) {
      const size_t half = (longest_ + 1) / 2;
      return panel(0, half) + "  ...\n" + panel(half, longest_);
    }
    const size_t slots_between = longest_ - 2 * fitting;
    return panel(0, fitting) + fmt::format("  ... {} more slots ...\n", slots_between) + panel(longest_ - fitting, longest_);
  }

 private:
  std::string name_of(const BarRow& row) const {
    return program_.mesh.pp > 1 ? fmt::format("pp {}", row.pp) : fmt::format("rank {}", row.rank);
  }

  std::string label_of(const Bar& bar) const {
    std::string label(1, letter(bar.kind));
    if (bar.micro >= 0 && bar.kind != BarKind::other) label += fmt::to_string(bar.micro);
    if (has_chunks_ && bar.kind != BarKind::other) label += static_cast<char>('a' + bar.chunk % 26);
    return label;
  }

  // Both ends are rounded to slots; a task that would overlap the one before it moves right.
  std::vector<Shown> line_of(const BarRow& row) const {
    std::vector<Shown> line;
    size_t free = 0;  // slot
    for (const Bar& bar : row.compute) {
      if (bar.end_s - bar.start_s < kLeastPart * slot_) continue;
      const size_t begin = std::max(slots_of(bar.start_s), free);
      free = std::max(slots_of(bar.end_s), begin + 1);
      line.push_back({.begin = begin, .end = free, .label = label_of(bar)});
    }
    return line;
  }
  size_t slots_of(double time_s) const { return static_cast<size_t>(std::llround(time_s / slot_)); }

  bool is_too_short(size_t row) const { return lines_[row].empty() && !rows_[row].compute.empty(); }
  size_t length_of(size_t row) const {
    if (is_too_short(row)) return (sizeof(kTooShort) - 1 + cell_) / cell_;
    return lines_[row].empty() ? 0 : lines_[row].back().end;
  }

  // Text of slots [begin, end) of a row.
  std::string part_of(size_t row, size_t begin, size_t end) const {
    std::string text((end - begin) * cell_, ' ');
    if (is_too_short(row)) {
      return begin == 0 ? std::string(kTooShort).substr(0, text.size()) : text;
    }
    const auto ends_before = [](const Shown& task, size_t slot) { return task.end <= slot; };
    for (auto task = std::lower_bound(lines_[row].begin(), lines_[row].end(), begin, ends_before);
         task != lines_[row].end() && task->begin < end; ++task) {
      for (size_t slot = std::max(task->begin, begin); slot < std::min(task->end, end); ++slot) {
        const std::string cell = slot == task->begin ? task->label : std::string(cell_ - 1, '-');
        text.replace((slot - begin) * cell_, cell.size(), cell);
      }
    }
    return text;
  }

  std::string panel(size_t begin, size_t end) const {
    std::string result;
    const size_t shown = std::min(rows_.size(), static_cast<size_t>(std::max(options_.max_rows, 1)));
    for (size_t i = 0; i < shown; ++i) {
      std::string line = fmt::format("{:<{}} | {}", name_of(rows_[i]), margin_, part_of(i, begin, end));
      while (line.back() == ' ') line.pop_back();
      result += line + "\n";
    }
    if (shown < rows_.size()) result += fmt::format("... and {} more rows\n", rows_.size() - shown);
    return result;
  }

  const Program& program_;
  std::vector<BarRow> rows_;
  const TimeChartOptions& options_;
  double slot_;
  size_t margin_ = 0, cell_ = 0;
  size_t longest_ = 0;  // slots
  bool has_chunks_ = false;
  std::vector<std::vector<Shown>> lines_;
};

// Note on rows that represent several ranks.
std::string alike_text(const std::vector<TimedInstruction>& timed) {
  int least = 0;
  int most = 0;
  for (const TimedInstruction& t : timed) {
    least = least == 0 ? t.alike : std::min(least, t.alike);
    most = std::max(most, t.alike);
  }
  if (most <= 1) return {};
  const std::string count = least == most ? fmt::to_string(most) : fmt::format("{} to {}", least, most);
  return fmt::format("a row represents {} identical ranks\n", count);
}

}  // namespace

std::string chart_legend(const std::vector<TimedInstruction>& timed, const std::string& chart) {
  const auto has = [&chart](const char* part) { return chart.find(part) != std::string::npos; };
  std::string result;
  const auto entry = [&result](const char* label, const char* text) { result += fmt::format("  {:<4} {}\n", label, text); };
  entry("F3", "forward of micro-batch 3");
  if (has("R")) entry("R3", "recompute of dropped activations");
  if (has("B")) entry("B3", "backward");
  if (has("I")) entry("I3", "backward, first part: the gradient of the stage's input");
  if (has("W")) entry("W3", "backward, second part: the gradients of its weights, which no rank waits for");
  if (has("F0a")) entry("F3b", "on the rank's second stage; F3a is on its first");
  if (has("--")) entry("--", "continues");
  if (has("U")) entry("U", "loss, norm or update");
  return result + alike_text(timed) + "\n";
}

std::string time_chart(const Program& program, const std::vector<TimedInstruction>& timed, const TimeChartOptions& options) {
  std::vector<BarRow> rows = task_rows(program, timed);
  if (slot_of(rows) <= 0.0) return {};
  return Chart(program, std::move(rows), options).print();
}

}  // namespace weft
