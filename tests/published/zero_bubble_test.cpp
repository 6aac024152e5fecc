// Published runs of zero-bubble pipelines vs simulate() and the automatic schedule, as modelled in
// bench/published/zero_bubble.h.
#include "bench/published/zero_bubble.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::published {
namespace {

struct Published {
  std::vector<ZeroBubbleRow> rows = zero_bubble_rows(WEFT_SHARED "/published/zero_bubble_2024.csv");
  std::vector<ZeroBubblePrediction> predictions = predict(rows);
  ZeroBubbleScores scores = score(rows, predictions);
};

// The searches take seconds, so they run once for all tests.
const Published& published() {
  static const Published kPublished;
  return kPublished;
}

TEST(ZeroBubble, bubbles_of_handcrafted_schedules_match) {
  EXPECT_EQ(published().scores.by_hand.of, 24) << "two models, three numbers of micro-batches, four schedules";
  EXPECT_EQ(published().scores.by_hand.within, 24);
}

// All except 1F1B-I's agree to the last published digit.
TEST(ZeroBubble, most_bubbles_match_to_the_last_digit) {
  const Published& all = published();
  for (size_t i = 0; i < all.rows.size(); ++i) {
    const ZeroBubbleRow& row = all.rows[i];
    if (!row.own_times || !row.bubble || is_automatic(row) || row.schedule == "1F1B-I") continue;
    EXPECT_NEAR(all.predictions[i].bubble, *row.bubble, 1e-4)
        << row.model << ' ' << row.schedule << ' ' << row.shape.micro_batches;
  }
}

TEST(ZeroBubble, automatic_schedules_are_as_good_as_the_authors) {
  EXPECT_EQ(published().scores.automatic.of, 12) << "two models, three numbers of micro-batches, two limits";
  EXPECT_EQ(published().scores.automatic.within, 12);
}

TEST(ZeroBubble, step_times_match) {
  EXPECT_EQ(published().scores.steps.of, 50);
  EXPECT_GE(published().scores.steps.share(), 0.95);
}

TEST(ZeroBubble, a_missing_table_is_an_error) { EXPECT_THROW(zero_bubble_rows(WEFT_SHARED "/published/none.csv"), InputError); }

}  // namespace
}  // namespace weft::published
