#include "weft/report/page/report_part.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/report/page/html_text.h"

namespace weft {
namespace {

std::string bars_html(const ReportPart& part, size_t index) {
  double most = 0.0;
  for (const ReportBars& group : part.bars) {
    for (const double value : group.values) most = std::max(most, value);
  }
  std::string html = fmt::format("<div class=\"bars\" role=\"img\" aria-labelledby=\"part{}\">\n", index);
  for (const ReportBars& group : part.bars) {
    html += fmt::format("<div>{}</div><div>", html_text(group.name));
    for (size_t i = 0; i < group.values.size(); ++i) {
      html += fmt::format("<p><i style=\"width:{:.2f}%;background:var(--s{})\"></i>{}</p>",
                          most > 0.0 ? 60.0 * group.values[i] / most : 0.0, i % 8, html_text(group.texts[i]));
    }
    html += "</div>\n";
  }
  return html + "</div>\n";
}

std::string table_html(const ReportTable& table) {
  std::string html = "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table><thead><tr>";
  const auto kind = [](size_t column) { return column > 0 ? " class=\"number\"" : ""; };
  for (size_t i = 0; i < table.head.size(); ++i)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", kind(i), html_text(table.head[i]));
  html += "</tr></thead>\n<tbody>";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", html_text(row[i]))
                     : fmt::format("<td{}>{}</td>", kind(i), html_text(row[i]));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string closed(const std::string& summary, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", html_text(summary), html);
}

}  // namespace

std::string part_html(const ReportPart& part, size_t index) {
  const int level = part.in_section ? 3 : 2;
  std::string html = fmt::format("<h{0} id=\"part{1}\">{2}</h{0}>\n<p class=\"quiet\">{3}</p>\n", level, index,
                                 html_text(part.title), html_text(part.note));
  if (!part.svg.empty())
    html += fmt::format("<div class=\"picture\" tabindex=\"0\" role=\"group\" aria-labelledby=\"part{}\">{}</div>\n", index,
                        part.svg);
  if (!part.bars.empty()) html += bars_html(part, index);
  if (!part.table.rows.empty()) html += closed("Table", table_html(part.table));
  if (!part.text.empty()) html += closed(part.text_title, "<pre tabindex=\"0\">" + html_lines(part.text) + "</pre>");
  return html;
}

}  // namespace weft
