#include "weft/plan/pipeline/pipeline_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/program/schedules/csv.h"

namespace weft {

namespace {

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) throw InputError("searched pipeline: the text is cut off");
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

std::vector<int> read_numbers(std::string_view line) {
  std::vector<int> numbers;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::optional<int> number = parse_number<int>(line.substr(0, end));
    if (!number) throw InputError("searched pipeline: expected a list of blocks");
    numbers.push_back(*number);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return numbers;
}

}  // namespace

std::string pipeline_text(const PipelineOptions& pipeline, bool names_schedule) {
  const std::string first_block = fmt::format("{}", fmt::join(pipeline.first_block, " "));
  if (names_schedule) return fmt::format("\n{}\n", first_block);
  return fmt::format("{}\n{}\n{}", pipeline.given.name, first_block, csv_rows(pipeline.given));
}

PipelineOptions read_pipeline(std::string_view text) {
  PipelineOptions pipeline;
  const std::string_view name = take_line(text);
  pipeline.first_block = read_numbers(take_line(text));
  if (name.empty() && text.empty()) return pipeline;
  pipeline.given = csv_schedule(text);
  pipeline.given.name = name;
  return pipeline;
}

}  // namespace weft
