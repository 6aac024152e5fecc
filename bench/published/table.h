// Table: a CSV file of published figures, a line of heads and a row a line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::published {

/// A row, by the heads of its columns.
using TableRow = std::map<std::string, std::string>;

/// Commas inside quotes belong to the field. Throws InputError when the file cannot be read or has no rows.
std::vector<TableRow> read_table(const std::string& path);

/// Nothing where the field is empty. Throws InputError when there is no such column or the field is no number.
std::optional<double> number(const TableRow& row, const std::string& column);

/// As above, where the field must not be empty.
double needed_number(const TableRow& row, const std::string& column);

}  // namespace weft::published
