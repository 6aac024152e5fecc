#include "weft/train/run/record_sinks.h"

#include <fmt/format.h>
#include <unistd.h>

#include "weft/checkpoint/storage/open_storage.h"
#include "weft/comm/host/host_name.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/report/records/record_files.h"
#include "weft/report/sinks/csv_sink.h"
#include "weft/report/sinks/tensorboard_sink.h"
#include "weft/train/save/bucket_records.h"

namespace weft {
namespace {

/// The run holds its save.folder already.
BucketRecordsOptions bucket_options_of(const Recipe& recipe, int64_t steps_done) {
  BucketRecordsOptions options{.place = records_place(recipe), .steps_done = steps_done};
  if (recipe.save.folder.empty() || storage_place(recipe.save.folder) != storage_place(options.place)) {
    options.lock = LockOptions{.owner = fmt::format("process {} on {}", getpid(), this_host())};
  }
  return options;
}

}  // namespace

std::vector<std::unique_ptr<RecordSink>> record_sinks(const Recipe& recipe, int64_t steps_done,
                                                      const std::function<void(const std::string&)>& note) {
  std::vector<std::unique_ptr<RecordSink>> sinks;
  const auto add = [&](const char* what, const auto& make) {
    try {
      sinks.push_back(make());
    } catch (const std::exception& error) {
      note(fmt::format("{} not kept: {}", what, error.what()));
    }
  };
  constexpr const char* kRecords = "records of this run are";
  const std::string folder = records_folder(recipe);
  if (!records_place(recipe).empty() && folder.empty()) {
    add(kRecords, [&] { return std::make_unique<BucketRecords>(bucket_options_of(recipe, steps_done)); });
  }
  if (folder.empty()) return sinks;
  add(kRecords, [&] { return std::make_unique<RecordFiles>(folder, steps_done); });
  if (sinks.empty()) return sinks;  // another run has the folder
  if (recipe.run.tensorboard) {
    add("run.tensorboard is", [&] { return std::make_unique<TensorBoardSink>(folder, steps_done); });
  }
  if (recipe.run.csv) add("run.csv is", [&] { return std::make_unique<CsvSink>(folder, steps_done); });
  return sinks;
}

}  // namespace weft
