// Lines of weft check: their text, JSON, and what is made of the lines of several ranks.
#include "weft/train/check/check_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

std::vector<CheckLine> some_lines() {
  return {check_ok("cores", "2 cores"), check_failed("links", "rank 0 to rank 1: slow", "see the cable"),
          not_checked("devices", "no device")};
}

TEST(CheckLine, Text) {
  std::string text;
  for (const CheckLine& line : some_lines()) text += check_text(line);
  EXPECT_EQ(text,
            "ok      cores                 2 cores\n"
            "FAILED  links                 rank 0 to rank 1: slow; see the cable\n"
            "-       devices               not checked: no device\n");
  EXPECT_EQ(check_summary(some_lines()), "1 ok, 1 FAILED, 1 not checked");
  EXPECT_EQ(check_failure(some_lines()), "1 of 3 checks failed: links");
  EXPECT_EQ(check_failure({check_ok("a", "b"), not_checked("c", "d")}), "");
}

TEST(CheckLine, Json) {
  const nlohmann::json json = nlohmann::json::parse(check_json("4 ranks \xff", some_lines()));
  EXPECT_EQ(json.at("failed"), 1);
  EXPECT_EQ(json.at("not_checked"), 1);
  EXPECT_EQ(json.at("checks").at(1).at("verdict"), "FAILED");
  EXPECT_EQ(json.at("checks").at(1).at("advice"), "see the cable");
  const std::vector<CheckLine> back = read_check_lines(write_check_lines(some_lines()));
  ASSERT_EQ(back.size(), 3u);
  for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(check_text(back[i]), check_text(some_lines()[i]));
}

TEST(CheckLine, JoinsTheLinesOfPlaces) {
  const std::vector<std::string> places = {"a", "b", "c", "d"};
  const auto joined = [&](const std::vector<std::vector<CheckLine>>& lines) {
    std::string text;
    for (const CheckLine& line : joined_check_lines(places, lines))
      text += check_text(line).substr(0, 8) + line.text + "|" + line.advice + "\n";
    return text;
  };
  const CheckLine fine = check_ok("x", "fine"), bad = check_failed("x", "bad", "mend it"), none = not_checked("x", "none");
  EXPECT_EQ(joined({{fine}, {fine}, {fine}, {fine}}), "ok      fine|\n");
  EXPECT_EQ(joined({{fine}, {}, {none}, {fine}}), "ok      a: fine|\n") << "not all places found it";
  EXPECT_EQ(joined({{fine}, {bad}, {none}, {fine}}), "FAILED  b: bad|mend it\n");
  EXPECT_EQ(joined({{none}, {none}, {none}, {none}}), "-       none|\n");
  EXPECT_EQ(joined({{check_ok("x", "1")}, {check_ok("x", "2")}, {check_ok("x", "3")}, {check_ok("x", "4")}}),
            "ok      a: 1; b: 2; c: 3; and 1 more|\n");
  EXPECT_EQ(joined({{fine, check_ok("y", "why")}, {check_ok("z", "zoo"), fine}, {}, {}}),
            "ok      fine|\nok      why|\nok      zoo|\n");
}

}  // namespace
}  // namespace weft
