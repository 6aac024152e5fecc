// DataReport: what looking at all of a recipe's data beforehand has found (run/check_data.h), and how it is shown. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/data_note.h"

namespace weft {

/// The sizes of a set's images along one side, in pixels.
struct SideSizes {
  int64_t least = 0;   ///< of all good images
  int64_t median = 0;  ///< half are no larger
  int64_t most = 0;    ///< of all good images
};

/// One set.
struct SetReport {
  std::string name;                   ///< "training"; of a mixture "data.mix.1 (books), training"
  std::string error = {};             ///< why it cannot be opened or read on; the rest is what was found before; empty: it can
  int64_t images = 0;                 ///< good ones and bad ones; 0 of a set of tokens
  SideSizes height = {}, width = {};  ///< of the good images
  std::vector<int64_t> class_counts = {};     ///< images by label
  std::vector<std::string> class_names = {};  ///< by label, of folders of classes; empty: labels are numbers alone
  int64_t tokens = 0;                         ///< 0 of a set of images
  int64_t documents = 0;                      ///< 0: it knows of none
  int64_t largest_id = -1;                    ///< of its tokens
  int64_t vocabulary = 0;                     ///< model.vocabulary, which ids must be below
  std::vector<std::string> damaged = {};      ///< images that cannot be decoded: names and reasons, in the order of the set
  DataNotes left_out = {};                    ///< what is bad and no sample of it: names and reasons
  DataNotes passed_over = {};                 ///< as Dataset::passed_over()
};

/// All sets of a recipe.
struct DataReport {
  std::vector<SetReport> sets;
  std::string error = {};  ///< what else a training would end at, as too few tokens for a sample; empty: nothing
  bool skip_bad = false;   ///< data.skip_bad: damaged images and rows do not end a training
};

/// Whether a training would end at something that was found.
bool stops_training(const DataReport& report);

/// For people: a few lines a set; of long lists the first names.
std::string data_report_text(const DataReport& report);

/// All of it, as JSON.
std::string data_report_json(const DataReport& report);

}  // namespace weft
