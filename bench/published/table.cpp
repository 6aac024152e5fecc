#include "bench/published/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "weft/base/error.h"

namespace weft::published {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace

std::vector<TableRow> read_table(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> heads = fields_of(line);
  std::vector<TableRow> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = fields_of(line);
    TableRow& row = rows.emplace_back();
    for (size_t i = 0; i < heads.size(); ++i) row[heads[i]] = i < fields.size() ? fields[i] : "";
  }
  if (rows.empty())
    throw InputError(fmt::format("{}: cannot be read, or has no rows: give the folder of the published tables", path));
  return rows;
}

std::optional<double> number(const TableRow& row, const std::string& column) {
  const auto field = row.find(column);
  if (field == row.end()) throw InputError(fmt::format("published table: no column {}", column));
  if (field->second.empty()) return std::nullopt;
  double value = 0.0;
  const char* end = field->second.data() + field->second.size();
  const auto [stop, error] = std::from_chars(field->second.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  throw InputError(fmt::format("published table, column {}: '{}' is not a number", column, field->second));
}

double needed_number(const TableRow& row, const std::string& column) {
  if (const auto value = number(row, column)) return *value;
  throw InputError(fmt::format("published table, column {}: a field is empty", column));
}

}  // namespace weft::published
