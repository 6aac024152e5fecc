// Compares published pipeline runs with weft's predictions, row by row, and counts the matches: zero-bubble pipelines (Qi et
// al. 2024) and GPipe (Huang et al. 2019). How each is modelled: published/zero_bubble.h, published/gpipe.h.
//
// usage: published [FOLDER]      holds zero_bubble_2024.csv and gpipe_2019.csv (default: ../shared/published)
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench/published/gpipe.h"
#include "bench/published/zero_bubble.h"

namespace {

using namespace weft::published;

std::string percent(double share) { return fmt::format("{:.2f} %", 100.0 * share); }

void print_zero_bubble(const ZeroBubbleRow& row, const ZeroBubblePrediction& made) {
  std::string line = fmt::format("{:8}  {:18} {:3} {:4} {:5}", row.model, row.schedule, row.shape.ranks,
                                 row.shape.micro_batches, row.own_times ? "own" : "");
  if (row.bubble) {
    line +=
        fmt::format("  {:>8} {:>8} {:+6.2f}", percent(*row.bubble), percent(made.bubble), 100.0 * (made.bubble - *row.bubble));
  } else {
    line += fmt::format("  {:>8} {:>8} {:>6}", "", percent(made.bubble), "");
  }
  if (row.step_seconds) {
    line += fmt::format("  {:8.3f} {:8.3f} {:+6.1f} %", *row.step_seconds, made.step_seconds,
                        100.0 * (made.step_seconds / *row.step_seconds - 1.0));
  }
  fmt::print("{}\n", line);
}

void print_score(const char* what, const Score& score) { fmt::print("{:78} {:2} of {}\n", what, score.within, score.of); }

void print_zero_bubbles(const std::string& folder) {
  const std::vector<ZeroBubbleRow> rows = zero_bubble_rows(folder + "/zero_bubble_2024.csv");
  const std::vector<ZeroBubblePrediction> predictions = predict(rows);
  fmt::print("Zero-bubble pipelines (arXiv:2401.10241): bubble rate and step time; p ranks, m micro-batches\n");
  fmt::print("{:8}  {:18} {:>3} {:>4} {:5}  {:>8} {:>8} {:>6}  {:>8} {:>8} {:>8}\n", "model", "schedule", "p", "m", "times",
             "bubble", "weft", "points", "step s", "weft", "");
  for (size_t i = 0; i < rows.size(); ++i) print_zero_bubble(rows[i], predictions[i]);
  const ZeroBubbleScores scores = score(rows, predictions);
  print_score("bubble within 1 point, 1F1B, 1F1B-I, ZB-H1, ZB-H2 with their own times:", scores.by_hand);
  print_score("bubble of weft's automatic schedule at most 0.5 points above ZB-1p, ZB-2p:", scores.automatic);
  print_score("bubble within 1 point, rows whose times come from other rows:", scores.borrowed);
  print_score("step time within 5 %:", scores.steps);
}

void print_gpipe(const std::string& folder) {
  fmt::print("\nGPipe (arXiv:1811.06965): throughput relative to the model's first row\n");
  fmt::print("{:8} {:21} {:>3} {:>4}  {:>9} {:>6}\n", "table", "model", "K", "M", "published", "weft");
  std::vector<double> published, predicted;
  for (const GpipeRow& row : gpipe_rows(folder + "/gpipe_2019.csv")) {
    fmt::print("{:8} {:21} {:3} {:4}  {:9.2f} {:6.2f}\n", row.table.substr(0, 7), row.model, row.ranks, row.micro_batches,
               row.published, row.predicted);
    if (row.model != "Transformer-48") continue;
    published.push_back(row.published);
    predicted.push_back(row.predicted);
  }
  fmt::print("rank correlation, Transformer-48: {:.3f}\n", rank_correlation(published, predicted));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string folder = argc > 1 ? argv[1] : WEFT_SHARED "/published";
    print_zero_bubbles(folder);
    print_gpipe(folder);
  } catch (const std::exception& error) {
    fmt::print(stderr, "published: {}\n", error.what());
    return 1;
  }
  return 0;
}
