// Times one pass over a folder of images by class, as in training: read, decode, random crop, mirror, normalise. Prints a line
// of JSON.
//
//   build/bench/loader FOLDER [--workers 2] [--ahead 1] [--batch 64] [--size 224] [--skip 8]
//
// The rate excludes the first batches, while workers start. bench/vision compares it with torch.utils.data.DataLoader's.
#include "weft/data/loader.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/data/images/image_folder.h"
#include "weft/data/images/image_set.h"
#include "weft/train/process/process_memory.h"

namespace {

struct Settings {
  std::string folder;
  int workers = 2, ahead = 1;
  int64_t batch = 64, size = 224, skip = 8;
};

void run(const Settings& settings) {
  const auto images = weft::open_image_folder(settings.folder, {});
  const auto dataset = weft::open_image_set(images, {.channels = 3,
                                                     .height = settings.size,
                                                     .width = settings.size,
                                                     .mean = {0.485, 0.456, 0.406},
                                                     .stddev = {0.229, 0.224, 0.225},
                                                     .augmentation = {.flip = true, .least_area = 0.08}});
  const int64_t batches = images->size() / settings.batch;
  if (batches <= settings.skip) {
    throw weft::InputError(
        fmt::format("{} holds {} batches: needs more than --skip {}", settings.folder, batches, settings.skip));
  }
  weft::Loader loader(
      dataset, weft::sampler_of(*dataset, 1),
      {.global_batch = settings.batch, .micro_batch = settings.batch, .workers = settings.workers, .ahead = settings.ahead});
  for (int64_t i = 0; i < settings.skip; ++i) loader.next();
  const weft::Stopwatch watch;
  double first_pixels = 0.0;  // reads what was loaded
  for (int64_t i = settings.skip; i < batches; ++i) first_pixels += loader.next().inputs[0].const_data_ptr<float>()[0];
  const int64_t counted = (batches - settings.skip) * settings.batch;
  const nlohmann::ordered_json report = {{"images", counted},
                                         {"images_per_s", static_cast<double>(counted) / watch.seconds()},
                                         {"sum_of_first_pixels", first_pixels}};
  fmt::print("{}\n", report.dump());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times the loading of a folder of images");
  app.add_option("folder", settings.folder, "FOLDER/CLASS/*.jpg")->required();
  app.add_option("--workers", settings.workers, "background threads");
  app.add_option("--ahead", settings.ahead, "batches prepared in advance");
  app.add_option("--batch", settings.batch)->check(CLI::PositiveNumber);
  app.add_option("--size", settings.size, "image side in pixels")->check(CLI::PositiveNumber);
  app.add_option("--skip", settings.skip, "batches excluded from the rate")->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    at::set_num_threads(1);
    weft::keep_and_reuse_memory();
    run(settings);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "loader: {}\n", error.what());
    return 1;
  }
}
