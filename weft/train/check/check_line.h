// CheckLine: the result of one check of a machine, as `weft check` prints it. Plain data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/base/enum_names.h"

namespace weft {

/// Result of a check.
enum class CheckVerdict : uint8_t {
  ok,           ///< what was checked holds
  failed,       ///< it does not
  not_checked,  ///< it cannot be checked here
};
/// Names of the results.
inline constexpr EnumNames<CheckVerdict, 3> kCheckVerdicts("ok", "FAILED", "not checked");

/// One check.
struct CheckLine {
  std::string name;  ///< "collectives shm"
  CheckVerdict verdict = CheckVerdict::ok;
  std::string text;    ///< what was found; the cause of a failure; why it was not checked
  std::string advice;  ///< what to do; empty unless failed
};

inline CheckLine check_ok(std::string name, std::string text) {
  return {std::move(name), CheckVerdict::ok, std::move(text), {}};
}
inline CheckLine check_failed(std::string name, std::string cause, std::string advice) {
  return {std::move(name), CheckVerdict::failed, std::move(cause), std::move(advice)};
}
inline CheckLine not_checked(std::string name, std::string reason) {
  return {std::move(name), CheckVerdict::not_checked, std::move(reason), {}};
}

/// The line: "FAILED  /dev/shm  64.0 MiB free, ...; enlarge it".
std::string check_text(const CheckLine& line);

/// Counts the lines: "12 ok, 1 FAILED, 3 not checked".
std::string check_summary(const std::vector<CheckLine>& lines);

/// One line about the failures: "2 of 16 checks failed: limits, links"; empty if there are none.
std::string check_failure(const std::vector<CheckLine>& lines);

/// All lines as multi-line JSON, with `heading` (machine and device) and the counts.
std::string check_json(const std::string& heading, const std::vector<CheckLine>& lines);

/// Lines as text from which read_check_lines() restores them, for sending to another rank.
std::string write_check_lines(const std::vector<CheckLine>& lines);
std::vector<CheckLine> read_check_lines(const std::string& text);

/// Joins the lines that the ranks of all places ("host a") found about the same things, in the order of their first occurrence.
/// Failed if a place failed; not checked if none was. Of equal texts only one is kept; of several at most three.
std::vector<CheckLine> joined_check_lines(const std::vector<std::string>& places,
                                          const std::vector<std::vector<CheckLine>>& lines_of_places);

}  // namespace weft
