// DataReport: the result of checking all of a recipe's data in advance (run/check_data.h), and its text. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// Sizes of a set's images along one side, in pixels.
struct SideSizes {
  int64_t least = 0;   ///< over all good images
  int64_t median = 0;  ///< half are no larger
  int64_t most = 0;    ///< over all good images
};

/// One set.
struct SetReport {
  std::string name;                   ///< "training"; in a mixture "data.mix.1 (books), training"
  std::string error = {};             ///< why it cannot be opened or fully read; the rest covers what was read; empty: no error
  int64_t images = 0;                 ///< good and bad ones; 0 for other sets
  int64_t samples = 0;                ///< of arrays, good and bad ones
  SideSizes height = {}, width = {};  ///< over the good images
  std::vector<int64_t> class_counts = {};     ///< images by label
  std::vector<std::string> class_names = {};  ///< by label, for folders of classes; empty: labels are plain numbers
  int64_t tokens = 0;                         ///< 0 for other sets
  int64_t documents = 0;                      ///< 0: unknown
  int64_t largest_id = -1;                    ///< largest token id
  int64_t vocabulary = 0;                     ///< model.vocabulary, the limit on ids
  std::vector<std::string> damaged =
      {};                      ///< undecodable images, samples with nan or no class: names and reasons, in the set's order
  DataNotes left_out = {};     ///< bad data left out of the samples: names and reasons
  DataNotes passed_over = {};  ///< as Dataset::passed_over()
};

/// All sets of a recipe.
struct DataReport {
  std::vector<SetReport> sets;
  std::string error = {};  ///< further errors that would stop a training, such as too few tokens for a sample; empty: none
  bool skip_bad = false;   ///< data.skip_bad: damaged images and rows do not stop a training
};

/// Returns true if a finding would stop a training.
bool stops_training(const DataReport& report);

/// Text: a few lines per set; long lists are cut to the first names.
std::string data_report_text(const DataReport& report);

/// Everything as JSON.
std::string data_report_json(const DataReport& report);

}  // namespace weft
