#include "weft/study/report_parts.h"

#include <fmt/format.h>

#include "weft/base/printable.h"
#include "weft/base/units.h"

namespace weft {
namespace {

ReportTable table_of(std::vector<std::vector<std::string>> cells) {
  ReportTable table{.head = std::move(cells.front()), .rows = {}};
  table.rows.assign(std::make_move_iterator(cells.begin() + 1), std::make_move_iterator(cells.end()));
  return table;
}

}  // namespace

std::vector<ReportPart> scale_parts(const ScaleStudy& study, const std::string& note) {
  ReportPart rates{.title = "Scaling", .note = note, .svg = scale_chart(study)};
  ReportPart efficiencies{.title = "Efficiency",
                          .note = "Of ideal scaling from the fewest ranks of the same layout.",
                          .svg = efficiency_chart(study),
                          .table = table_of(scale_cells(study)),
                          .in_section = true};
  if (efficiencies.svg.empty()) rates.note += " Nothing was measured.";
  return {rates, efficiencies};
}

ReportPart study_part(const Study& study) {
  ReportPart part{.title = fmt::format("Steps to {}", study.target),
                  .note = fmt::format("{} on {}: the best learning rate of each batch.", printable(study.recipe),
                                      counted(study.ranks, "rank")),
                  .svg = study_chart(study),
                  .table = table_of(study_cells(study))};
  if (part.svg.empty()) part.note += " No point has reached the target.";
  return part;
}

}  // namespace weft
