// Layers of exported models that ranks of tp share: how a division goes through shapes, what the patterns make, what is
// refused. tests/exported/python compares losses.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/exported/exported_model.h"
#include "weft/exported/split_form.h"

namespace weft::exported_split_test {
namespace {

const std::string kTokens = WEFT_SOURCE "/tests/exported/programs/tokens.pt2";

std::string text_of(const std::optional<SplitForm>& form) {
  return form ? fmt::format("{} of {}", form->dim, form->segments) : "none";
}

TEST(ExportedSplits, a_division_stays_with_its_elements) {
  const struct {
    SplitForm form;
    WholeShape from, to;
    std::string text;
  } cases[] = {
      {{2, 1}, {2, 16, 32}, {2, 16, 4, 8}, "2 of 1"},
      {{2, 1}, {2, 16, 32}, {32, 32}, "1 of 1"},
      {{2, 3}, {2, 16, 96}, {2, 16, 3, 4, 8}, "3 of 1"},
      {{3, 1}, {2, 16, 3, 4, 8}, {2, 16, 96}, "2 of 3"},
      {{2, 1}, {2, 16, 32}, {2, 512}, "1 of 16"},
      {{1, 16}, {2, 512}, {2, 16, 32}, "2 of 1"},
      {{1, 1}, {2, 4, 16, 8}, {8, 16, 8}, "0 of 2"},
      {{0, 2}, {8, 16, 8}, {2, 4, 16, 8}, "1 of 1"},
      {{1, 1}, {2, 2, 2, 16, 8}, {2, 4, 16, 8}, "1 of 1"},
      {{2, 1}, {2, 16, 32}, {2, 16, 1, 32, 1}, "3 of 1"},
      {{1, 3}, {2, 12}, {2, 2, 6}, "none"},
      {{0, 2}, {2}, {}, "none"},
  };
  for (const auto& c : cases) EXPECT_EQ(text_of(reshaped(c.form, c.from, c.to)), c.text) << fmt::format("{} {}", c.from, c.to);
}

TEST(ExportedSplits, ranks_divide_what_all_layers_that_meet_have) {
  SplitSources sources;
  const int queries = sources.add(32), keys = sources.add(16), other = sources.add(5);
  sources.divide(queries, 8);
  sources.divide(keys, 6);
  EXPECT_EQ(sources.most_ranks(queries), 8);
  EXPECT_EQ(sources.most_ranks(sources.join(queries, keys)), 2);
  EXPECT_EQ(sources.most_ranks(keys), 2);
  EXPECT_EQ(sources.most_ranks(other), 5);
  EXPECT_FALSE(sources.are_joined(queries, other));
}

Model split(const SplitPatterns& patterns) {
  return exported_model({.path = kTokens, .splits = patterns, .reads_tokens = true, .classes = 64});
}

TEST(ExportedSplits, patterns_make_rules_with_heads_as_units) {
  std::string text;
  for (const SplitRule& rule : split({"h.*.qkv:3, *.up", "*.out, *.down", "wte, head"}).splits) {
    if (!rule.layer.starts_with("h.1"))
      text += fmt::format("{} {} {} {}\n", rule.layer, static_cast<int>(rule.kind), rule.segments, rule.unit);
  }
  EXPECT_EQ(text, "h.0.down 1 [] 1\nh.0.out 1 [] 4\nh.0.qkv 0 [8, 8, 8] 4\nh.0.up 0 [] 1\nwte 2 [] 1\n");
  EXPECT_TRUE(split({}).splits.empty());
}

TEST(ExportedSplits, what_cannot_be_split_is_refused_with_what_to_do) {
  const struct {
    SplitPatterns patterns;
    std::string text;
  } cases[] = {
      {{.columns = "h.*.gate"}, "model.tp_columns: 'h.*.gate' matches no linear layer or embedding"},
      {{.rows = "wte"}, "model.tp_rows: 'wte' matches no linear layer of"},
      {{.columns = "wte"}, "an embedding is split by its entries; put it into model.tp_vocabulary"},
      {{.columns = "h.*.qkv:x"}, "does not end in a number of segments, \"PATTERN:3\""},
      {{.columns = "h.*.qkv:7"}, "its 24 outputs are not 7 equal segments"},
      {{.rows = "h.*.out:2"}, "only model.tp_columns takes segments"},
      {{.columns = "h.*.up", .rows = "h.0.*"}, "two patterns split its weight 'h.0.up.weight'"},
      {{.columns = "h.*.up"}, "this layer takes whole rows; put it into model.tp_rows, or leave the layer before it out"},
      {{.columns = "h.*.up, h.*.down"}, "but the layer takes whole rows; leave one of them whole"},
      {{.columns = "h.*.qkv", .rows = "h.*.out"}, "this takes some that is no whole segment"},
      {{.columns = "h.*.out"}, "the norm is over that dimension"},
      {{.rows = "h.*.down", .vocabulary = "h.*.up"}, "but the layer takes parts of its last dimension"},
      {{.columns = "wte, head"}, "an embedding is split by its entries"},
      {{.columns = "head"}, "model.tp_columns splits its weight, but it is an embedding; use model.tp_vocabulary"},
  };
  for (const auto& c : cases) {
    const std::string text = test::refusal([&] { split(c.patterns); });
    EXPECT_NE(text.find(c.text), std::string::npos) << c.text << "\n" << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace weft::exported_split_test
