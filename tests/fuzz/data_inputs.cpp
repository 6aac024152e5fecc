#include "tests/fuzz/data_inputs.h"

#include <ATen/ops/empty.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "tests/data/images/image_files.h"
#include "tests/data/npy_file.h"
#include "tests/data/tar_file.h"
#include "tests/fuzz/mutate.h"
#include "weft/checkpoint/weights/torch_file.h"
#include "weft/data/arrays/array_set.h"
#include "weft/data/images/cifar.h"
#include "weft/data/images/image_set.h"
#include "weft/data/images/parquet_images.h"
#include "weft/data/images/web_dataset.h"
#include "weft/data/tokens/json_lines.h"
#include "weft/data/tokens/packed_windows.h"
#include "weft/data/tokens/parquet_tokens.h"
#include "weft/data/tokens/token_stream.h"

namespace weft::fuzz {
namespace {

using test::Random;

BadData any_bad(Random& random) { return random.one_in(2) ? BadData::skip : BadData::refuse; }

/// Reads the first and the last sample.
void get_some(const Dataset& data) {
  data.get({0}, 0);
  data.get({data.size() - 1}, 1);
  data.left_out();
  data.passed_over();
}

void get_images(const std::shared_ptr<const ImageSource>& source, Random& random) {
  ImageSetOptions options{
      .channels = 3, .height = 8, .width = 8, .mean = {0.5, 0.5, 0.5}, .stddev = {0.2, 0.2, 0.2}, .seed = 1};
  options.bad = random.of<BadSample>({BadSample::refuse, BadSample::replace, BadSample::ignore});
  if (random.one_in(2)) options.augmentation.least_area = 0.1;
  get_some(*open_image_set(source, options));
}

void get_tokens(const TokenFile& file, const std::shared_ptr<const TokenSource>& source, Random& random) {
  const bool packs = random.one_in(3);
  get_some(packs ? *open_packed_tokens(file, source) : *open_tokens(file, source));
}

/// Reads a shard with one image among good ones.
void get_from_shard(const std::string& folder, const std::string& name, const std::string& image, Random& random) {
  static const std::string good = test::png_of(test::gradient(4, 4, 3), 4, 4, 3);
  write(folder + "/x.tar", test::tar_of({{name, image}, {"a.cls", "3"}, {"b.png", good}, {"b.cls", "4"}}));
  get_images(open_web_dataset(local_shards({folder + "/x.tar"}), {.classes = 10, .bad = any_bad(random)}), random);
}

/// Returns a PNG file with its chunks' checksums recomputed.
std::string with_png_sums(std::string png) {
  constexpr size_t kSignature = 8, kAround = 12;
  for (size_t at = kSignature; at + kAround <= png.size();) {
    uint32_t bytes = 0;
    for (size_t i = 0; i < 4; ++i) bytes = bytes << 8 | static_cast<uint8_t>(png[at + i]);
    if (bytes > png.size() - at - kAround) break;
    const auto sum = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data() + at + 4), bytes + 4));
    for (size_t i = 0; i < 4; ++i) png[at + 8 + bytes + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += kAround + bytes;
  }
  return png;
}

std::string png_of_any_form(Random& random) {
  const int form = random.below(4);
  if (form < 2) return test::png_of(test::gradient(9, 21, form == 0 ? 1 : 3), 9, 21, form == 0 ? 1 : 3);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = 7;
  image.height = 5;
  image.format = form == 2 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = form == 2 ? 0 : 4;
  const test::Pixels pixels(7 * 5 * 4, form == 2 ? 90 : 2), colours = {1, 2, 3, 40, 50, 60, 70, 80, 90, 255, 0, 0};
  png_alloc_size_t size = 10'000;
  std::string out(size, '\0');
  png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, colours.data());
  out.resize(size);
  return out;
}

/// Returns a tar file with its headers' checksums recomputed.
std::string with_tar_sums(std::string tar) {
  constexpr size_t kSum = 148, kMagic = 257;
  for (size_t at = 0; at + test::kTarBlock <= tar.size(); at += test::kTarBlock) {
    if (tar.compare(at + kMagic, 5, "ustar") != 0) continue;
    tar.replace(at + kSum, 8, "        ");
    unsigned sum = 0;
    for (size_t i = 0; i < test::kTarBlock; ++i) sum += static_cast<unsigned char>(tar[at + i]);
    tar.replace(at + kSum, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  }
  return tar;
}

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// Ids below 300, enough for a few windows.
std::string ids_of(int width, Random& random) {
  std::string bytes;
  for (int i = 0; i < 64; ++i) {
    const int id = random.below(300);
    bytes += {static_cast<char>(id & 255), static_cast<char>(id >> 8)};
    if (width == 4) bytes += std::string(2, '\0');
  }
  return bytes;
}

std::string llmc_file(Random& random) {
  std::vector<uint32_t> header(256, 0);
  const bool is_wide = random.one_in(2);
  header[0] = is_wide ? 20240801 : 20240520;
  header[1] = is_wide ? 7 : 1;
  header[2] = 64;
  return bytes_of(header) + ids_of(is_wide ? 4 : 2, random);
}

std::string npy_file(Random& random) { return test::npy_of("<u2", "64,", ids_of(2, random), random.of<char>({1, 2, 3})); }

std::string megatron_index() {
  return std::string("MMIDIDX\0\0", 9) + bytes_of(std::vector<uint64_t>{1}) + '\10' + bytes_of(std::vector<uint64_t>{3, 4}) +
         bytes_of(std::vector<int32_t>{20, 0, 44}) + bytes_of(std::vector<int64_t>{0, 40, 40, 0, 1, 2, 3});
}

/// Writes a file as torch.save() does, with correct checksums of its records.
void write_torch_file(const std::string& path, const Members& records) {
  caffe2::serialize::PyTorchStreamWriter writer(path);
  for (const auto& [name, bytes] : records) writer.writeRecord(name, bytes.data(), bytes.size());
  writer.writeEndOfFile();
}

}  // namespace

Members records_of(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  Members records;
  for (const std::string& name : reader.getAllRecords()) {
    if (name == "version" || name.starts_with(".data/")) continue;  // the writer's own
    const auto [bytes, size] = reader.getRecord(name);
    records.emplace_back(name, std::string(static_cast<const char*>(bytes.get()), size));
  }
  return records;
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void jpeg(const std::string& folder, Random& random) {
  static const std::vector<std::string> good = {test::jpeg_of(test::gradient(33, 20, 3), 33, 20, 3),
                                                test::jpeg_of(test::gradient(9, 70, 1), 9, 70, 1),
                                                test::jpeg_of(test::gradient(17, 16, 4), 17, 16, 4)};
  get_from_shard(folder, "a.jpg", damaged_bytes(random.of(good), random.of(good), random), random);
}

void png(const std::string& folder, Random& random) {
  const std::string bytes = damaged_bytes(png_of_any_form(random), png_of_any_form(random), random);
  get_from_shard(folder, "a.png", random.one_in(2) ? bytes : with_png_sums(bytes), random);
}

void tar(const std::string& folder, Random& random) {
  static const std::string image = test::png_of(test::gradient(4, 4, 3), 4, 4, 3),
                           good = test::tar_of(
                               {{"a.png", image}, {"a.cls", "3"}, {"b.json", "{}"}, {"c/b.png", image}, {"c/b.cls", "4"}});
  const std::string bytes = damaged_bytes(good, good, random);
  write(folder + "/x.tar", random.one_in(2) ? bytes : with_tar_sums(bytes));
  get_images(open_web_dataset(local_shards({folder + "/x.tar"}), {.classes = 10, .bad = any_bad(random)}), random);
}

void parquet(const std::string& folder, Random& random) {
  static const std::vector<std::string> good = parquet_files();
  const int kind = random.below(3);
  const std::string& whole = good[static_cast<size_t>(kind)];
  const size_t footer = whole.size() - std::min<size_t>(whole.size(), 900);  // roughly where the metadata begins
  const std::string bytes = random.one_in(2) ? damaged_bytes(whole, random.of(good), random)
                                             : whole.substr(0, footer) + damaged_bytes(whole.substr(footer), whole, random);
  write(folder + "/x.parquet", bytes);
  const auto files = local_shards({folder + "/x.parquet"});
  const BadData bad = any_bad(random);
  if (kind == 2) return get_images(open_parquet_images(files, {.classes = 10, .bad = bad}), random);
  const auto groups = open_parquet_tokens(files, {.column = kind == 0 ? "text" : "ids", .vocabulary = 300, .bad = bad});
  get_tokens({.path = "x", .vocabulary = 300, .context = 4, .shift = random.one_in(2)}, token_source(groups, 1 << 20), random);
}

void json_lines(const std::string& folder, Random& random) {
  static const std::vector<std::string> good = {
      "{\"text\": \"one \\u00e9 \\ud83e\\uddf6 and more of it\", \"n\": [1, 2.5e3, {\"a\": null}]}\n{\"text\": "
      "\"k\xc3\xa4se\", \"n\": NaN}\n",
      "{\"id\": 3, \"text\": [1, 2, 3, 40, 50, 60, 7]}\n{\"text\": [255], \"score\": -1e400}\r\n\n{\"text\": []}"};
  const std::vector<std::string> words = {
      "text", "NaN", "-Infinity", "null", "true", "\\ud83e", "\\u0041", "1e400", "123456789012345678901"};
  const std::string& whole = random.of(good);
  write(folder + "/x.jsonl",
        random.one_in(2) ? damaged(whole, random.of(good), words, random) : damaged_bytes(whole, whole, random));
  const auto groups = open_json_lines(local_shards({folder + "/x.jsonl"}),
                                      {.vocabulary = random.of<int64_t>({256, 300, 70}), .bad = any_bad(random)});
  get_tokens({.path = "x", .vocabulary = 300, .context = 4, .shift = random.one_in(2)}, token_source(groups, 1 << 20), random);
}

void token_files(const std::string& folder, Random& random) {
  const std::string place = folder + "/tokens";
  std::filesystem::remove_all(place);
  std::filesystem::create_directory(place);
  const int kind = random.below(4);
  std::string bytes = kind == 0 ? llmc_file(random) : kind == 1 ? npy_file(random) : ids_of(kind == 2 ? 4 : 2, random);
  std::string index = kind == 3 ? megatron_index() : "";
  std::string& hurt = kind == 3 && !random.one_in(4) ? index : bytes;
  hurt = damaged_bytes(hurt, bytes, random);
  write(place + "/x.bin", bytes);
  if (kind == 3) write(place + "/x.idx", index);
  if (random.one_in(3)) write(place + "/readme.md", "read me");
  const TokenType type = random.one_in(4) ? TokenType::u32 : random.one_in(8) ? TokenType::u8 : TokenType::u16;
  const TokenFile file{.path = random.one_in(2) ? place : place + "/x.bin",
                       .type = type,
                       .vocabulary = random.of<int64_t>({300, 65536, int64_t{1} << 32}),
                       .context = 7,
                       .shift = random.one_in(2)};
  get_tokens(file, std::make_shared<TokenStream>(file.path, file.type, file.vocabulary), random);
}

void arrays(const std::string& folder, Random& random) {
  const std::string values = ids_of(4, random), type = random.of<std::string>({"<f4", "<i4"});
  std::string inputs = test::npy_of(type, "8, 2, 4", values, random.of<char>({1, 2, 3})),
              targets = test::npy_of("<i8", "8,", values);
  targets.resize(targets.size() - values.size() / 4 * 3);
  std::string& hurt = random.one_in(2) ? inputs : targets;
  hurt = damaged(hurt, inputs, {"True", "fortran_order", "'<f8'", "(8,)", "()", "8, ", "99999999999999999999"}, random);
  write(folder + "/inputs.npy", inputs);
  write(folder + "/targets.npy", targets);
  const at::Tensor input = at::empty({1, 2, 4}, at::TensorOptions(type == "<f4" ? at::kFloat : at::kLong));
  get_some(*open_arrays(folder, {{"inputs", input}}, at::empty({1}, at::kLong), {0.0, random.of<double>({1.0, 0.5, 0.1})}));
}

void cifar(const std::string& folder, Random& random) {
  std::string good;
  for (int i = 0; i < 2; ++i)
    good += std::string(1, static_cast<char>(random.below(10))) + std::string(3072, static_cast<char>(i + 100));
  write(folder + "/test_batch.bin", damaged_bytes(good, good, random));
  get_images(open_cifar(folder, CifarKind::cifar10, false, any_bad(random)), random);
}

void torch_file(const std::string& folder, Random& random) {
  static const std::string path = WEFT_SOURCE "/tests/checkpoint/weights/state_dict.pt", whole = read(path);
  static const Members good = records_of(path);
  const std::string hurt = folder + "/x.pt";
  if (random.one_in(3)) {
    write(hurt, damaged_bytes(whole, whole, random));
  } else {
    Members records = good;
    std::string& bytes = random.one_in(4) ? records[static_cast<size_t>(random.below(static_cast<int>(records.size())))].second
                                          : records[0].second;
    bytes = damaged_bytes(bytes, records[0].second, random);
    write_torch_file(hurt, records);
  }
  read_torch_file(hurt);
}

}  // namespace weft::fuzz
