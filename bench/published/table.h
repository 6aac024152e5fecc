// CSV tables of published figures: a header line, then one row per line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::published {

/// A row: column name -> field.
using TableRow = std::map<std::string, std::string>;

/// Commas inside quotes belong to the field. Throws InputError when the file cannot be read or has no rows.
std::vector<TableRow> read_table(const std::string& path);

/// Returns nullopt for an empty field. Throws InputError if the column is missing or the field is not a number.
std::optional<double> number(const TableRow& row, const std::string& column);

/// The field's number. Throws InputError as above, and for an empty field.
double needed_number(const TableRow& row, const std::string& column);

}  // namespace weft::published
