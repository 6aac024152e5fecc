#include "weft/program/schedules/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "weft/base/file_error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/program/pipeline/check_schedule.h"
#include "weft/program/pipeline/task_times.h"

namespace weft {
namespace {

constexpr std::string_view kLetters = "FBIW";  // by TaskKind
constexpr int kMostNumber = 1'000'000;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Removes the text up to `separator`, and the separator, from `rest` and returns it.
std::string_view take_until(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

std::optional<int> number(std::string_view text) {
  const std::optional<int> value = parse_number<int>(text);
  return value && *value >= 0 && *value <= kMostNumber ? value : std::nullopt;
}

std::optional<Task> read_task(std::string_view cell) {
  const size_t kind = kLetters.find(cell.front());
  cell.remove_prefix(1);
  const std::optional<int> stage = number(take_until(cell, '.'));
  const std::optional<int> micro = number(cell);
  if (kind == std::string_view::npos || !stage || !micro) return std::nullopt;
  return Task{static_cast<TaskKind>(kind), *stage, *micro};
}

std::vector<Task> read_row(std::string_view row, int rank) {
  std::vector<Task> tasks;
  for (int column = 1; !row.empty(); ++column) {
    const std::string_view cell = trimmed(take_until(row, ','));
    if (cell.empty()) continue;
    const std::optional<Task> task = read_task(cell);
    if (!task) {
      throw InputError(
          fmt::format("schedule csv, row of rank {}, cell {}: '{}' is not a task: write F, B, I or W, the stage, a dot and the "
                      "micro-batch (F0.3)",
                      rank, column, shortened(cell, 60)));
    }
    tasks.push_back(*task);
  }
  return tasks;
}

// Numbers far beyond the size of the rows are typing errors, found before tables of that size are allocated.
void check_sizes(int64_t stages, int64_t micro_batches, int64_t num_tasks) {
  if (stages <= num_tasks && micro_batches <= num_tasks && stages * micro_batches <= num_tasks) return;
  throw InputError(
      fmt::format("schedule csv: {} stages and {} micro-batches, by the highest numbers, need at least {} tasks, but there "
                  "are {}: number both from 0 without gaps",
                  stages, micro_batches, 2.0 * static_cast<double>(stages) * static_cast<double>(micro_batches), num_tasks));
}

/// Stages, their ranks and micro-batches, from the tasks.
void derive_sizes(Schedule& schedule) {
  int stages = 0;
  schedule.micro_batches = 0;
  int64_t num_tasks = 0;
  for (const auto& tasks : schedule.tasks) {
    num_tasks += static_cast<int64_t>(tasks.size());
    for (const Task& task : tasks) {
      stages = std::max(stages, task.stage + 1);
      schedule.micro_batches = std::max(schedule.micro_batches, task.micro + 1);
    }
  }
  check_sizes(stages, schedule.micro_batches, num_tasks);
  schedule.rank_of_stage.assign(stages, -1);
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    for (const Task& task : schedule.tasks[rank]) {
      if (int& place = schedule.rank_of_stage[task.stage]; place < 0) place = rank;
    }
  }
  for (int stage = 0; stage < stages; ++stage) {
    if (schedule.rank_of_stage[stage] < 0) {
      throw InputError(fmt::format("schedule csv: stage {} is in no row: number stages from 0 without gaps", stage));
    }
  }
}

Schedule parsed(std::string_view text) {
  Schedule schedule{.name = "csv", .micro_batches = 0, .rank_of_stage = {}, .tasks = {}};
  while (!text.empty()) {
    const std::string_view row = trimmed(take_until(text, '\n'));
    if (!row.empty() && row.front() != '#') schedule.tasks.push_back(read_row(row, schedule.num_ranks()));
  }
  if (schedule.tasks.empty()) throw InputError("schedule csv: the text has no rows: write one for each rank");
  derive_sizes(schedule);
  check_schedule(schedule);
  return schedule;
}

std::string cell(const Task& task) {
  return fmt::format("{}{}.{}", kLetters[static_cast<size_t>(task.kind)], task.stage, task.micro);
}

}  // namespace

Schedule csv_schedule(std::string_view text, std::string_view path) {
  if (path.empty()) return parsed(text);
  try {
    return parsed(text);
  } catch (const InputError& error) {
    throw FileError(fmt::format("{}: {}", path, error.what()));
  }
}

std::string to_csv(const Schedule& schedule) {
  const TaskTimes times = task_times(schedule, std::vector<StageTimes>(schedule.rank_of_stage.size()));
  const size_t width = fmt::format("F{}.{}", schedule.num_stages() - 1, schedule.micro_batches - 1).size();
  std::string text;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    int column = 0;
    for (size_t i = 0; i < schedule.tasks[rank].size(); ++i) {
      const auto start = static_cast<int>(std::lround(times[rank][i].start));
      for (; column < start; ++column) text += fmt::format("{:{}}, ", "", width);
      const std::string text_of_task = cell(schedule.tasks[rank][i]);
      text += i + 1 < schedule.tasks[rank].size() ? fmt::format("{:{}}, ", text_of_task, width) : text_of_task;
      ++column;
    }
    text += '\n';
  }
  return text;
}

std::string csv_rows(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Task>& tasks : schedule.tasks) {
    for (const Task& task : tasks) text += cell(task) + ',';
    text += '\n';
  }
  return text;
}

}  // namespace weft
