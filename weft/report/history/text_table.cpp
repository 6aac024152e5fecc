#include "weft/report/history/text_table.h"

#include <algorithm>

#include "weft/base/utf8.h"

namespace weft {
namespace {

size_t characters(const std::string& text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues_character));
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows, const std::string& indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - characters(row[i]), ' ');
      line += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace weft
