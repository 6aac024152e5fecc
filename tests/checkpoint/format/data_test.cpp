// Parts of tensors written by some ranks and read by others: the values, and the bytes read for them.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/seeds.h"
#include "weft/base/error.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/data_reader.h"
#include "weft/checkpoint/format/data_writer.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/storage/open_storage.h"

namespace weft::data_test {
namespace {

using test::Random;
using test::refusal;

/// Division of a matrix [rows, columns]: by flat range, or by columns first.
struct Sharing {
  int ranges = 1;
  int column_parts = 1;

  int ranks() const { return ranges * column_parts; }
};

at::Tensor values_of(int64_t rows, int64_t columns) { return at::arange(rows * columns, at::kFloat).view({rows, columns}); }

/// One rank's part, in its own memory; filled from `values` if given, else zero.
StatePart part_of(const std::string& name, const at::Tensor& values, const Sharing& sharing, int rank, bool fill) {
  const int64_t rows = values.size(0), columns = values.size(1);
  const int64_t c = rank % sharing.column_parts, r = rank / sharing.column_parts;
  const int64_t from = columns * c / sharing.column_parts, to = columns * (c + 1) / sharing.column_parts, width = to - from;
  std::vector<StateRun> runs;
  for (int64_t row = 0; row < rows; ++row) runs.push_back({row * width, row * columns + from, width});
  const int64_t begin = rows * width * r / sharing.ranges, end = rows * width * (r + 1) / sharing.ranges;
  runs = clip_runs(runs, begin, end);
  const at::Tensor memory = at::zeros({std::max<int64_t>(rows * width, 1)});
  const at::Tensor flat = values.reshape({-1});
  for (const StateRun& run : runs) {
    if (fill) memory.narrow(0, run.memory_begin, run.numel).copy_(flat.narrow(0, run.whole_begin, run.numel));
  }
  return {name, values.sizes().vec(), runs, memory};
}

void write(Storage& storage, const std::string& name, const std::map<std::string, at::Tensor>& tensors,
           const Sharing& sharing) {
  CheckpointIndex index;
  for (int rank = 0; rank < sharing.ranks(); ++rank) {
    DataWriter writer(storage, name, data_file(rank));
    for (const auto& [tensor, values] : tensors) writer.add(part_of(tensor, values, sharing, rank, true));
    index.merge(writer.close());
  }
  check_index(index, /*whole=*/true);
  complete_checkpoint(storage, name, index);
}

void expect_read(Storage& storage, const std::string& name, const std::map<std::string, at::Tensor>& tensors,
                 const Sharing& sharing) {
  const CheckpointIndex index = read_checkpoint(storage, name);
  for (int rank = 0; rank < sharing.ranks(); ++rank) {
    DataReader reader(storage, name, index);
    for (const auto& [tensor, values] : tensors) {
      const StatePart part = part_of(tensor, values, sharing, rank, false),
                      expected = part_of(tensor, values, sharing, rank, true);
      reader.read(part);
      EXPECT_TRUE(at::equal(part.memory, expected.memory)) << tensor << ", rank " << rank << " of " << sharing.ranks();
    }
  }
}

TEST(CheckpointData, IsReadByDifferentRanks) {
  for (const unsigned seed : test::seeds(test::cases(40))) {
    SCOPED_TRACE(test::replay(seed));
    Random random(seed);
    const test::TempFolder folder;
    const std::unique_ptr<Storage> storage = open_storage(folder.file("runs"));
    std::map<std::string, at::Tensor> tensors;
    for (int i = 0; i < 3; ++i) tensors["t" + std::to_string(i)] = values_of(1 + random.below(40), 1 + random.below(70));
    const auto sharing = [&random] { return Sharing{1 + random.below(8), 1 + random.below(3)}; };
    write(*storage, "step-00000001", tensors, sharing());
    for (int i = 0; i < 3; ++i) expect_read(*storage, "step-00000001", tensors, sharing());
  }
}

TEST(CheckpointData, EightRanksDataIsReadOnceByOneAndThree) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = open_storage(folder.file("runs"));
  // 3 MB; each of 8 ranks has less than a chunk.
  const std::map<std::string, at::Tensor> tensors = {{"a", values_of(700, 1000)}, {"b", values_of(50, 31)}};
  write(*storage, "step-00000001", tensors, {.ranges = 8});
  const CheckpointIndex index = read_checkpoint(*storage, "step-00000001");
  for (const int ranks : {1, 3}) {
    int64_t read = 0, needed = 0, edges = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      DataReader reader(*storage, "step-00000001", index);
      for (const auto& [name, values] : tensors) {
        const StatePart part = part_of(name, values, {.ranges = ranks}, rank, false);
        reader.read(part);
        needed += part.numel() * 4;
        edges += 2 * std::min<int64_t>(kChunkBytes, values.numel() * 4 / 8);  // chunks needed in part
      }
      read += reader.bytes_read();
    }
    EXPECT_GE(read, needed);
    EXPECT_LE(read, ranks == 1 ? needed : needed + edges) << ranks << " ranks";
  }
}

TEST(CheckpointData, ColumnsBecomeOnePiece) {
  const std::vector<StateRun> runs = {{0, 2, 3}, {3, 12, 3}, {6, 22, 3}, {9, 30, 1}};
  const std::vector<ElementRuns> pieces = join_runs(runs);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].begin, 2);
  EXPECT_EQ(pieces[0].length, 3);
  EXPECT_EQ(pieces[0].stride, 10);
  EXPECT_EQ(pieces[0].count, 3);
  EXPECT_EQ(pieces[1].numel(), 1);
}

TEST(CheckpointData, RejectsMismatches) {
  const test::TempFolder folder;
  const std::unique_ptr<Storage> storage = open_storage(folder.file("runs"));
  write(*storage, "step-00000001", {{"a", values_of(4, 6)}}, {});
  const CheckpointIndex index = read_checkpoint(*storage, "step-00000001");
  DataReader reader(*storage, "step-00000001", index);
  const auto read = [&](const std::string& name, const at::Tensor& into) {
    return refusal([&] { reader.read(whole_part(name, into)); });
  };
  EXPECT_NE(read("b", at::zeros({4, 6})).find("no tensor 'b'"), std::string::npos);
  EXPECT_NE(read("a", at::zeros({6, 4})).find("is [4, 6], expected [6, 4]"), std::string::npos);
  EXPECT_NE(read("a", at::zeros({4, 6}, at::kDouble)).find("is Float, expected Double"), std::string::npos);
}

/// All kinds of damage: either the data read is whole, or one line says what is wrong.
TEST(CheckpointDamage, IsReportedInOneLine) {
  const test::TempFolder folder;
  const std::map<std::string, at::Tensor> tensors = {
      {"model/a", values_of(9, 30)}, {"model/b", values_of(3, 5)}, {"c", values_of(1, 1)}};
  const std::unique_ptr<Storage> storage = open_storage(folder.path().string());
  write(*storage, "good", tensors, {.ranges = 3});
  std::map<std::string, std::string> files;
  for (const std::string& name : storage->list("good")) files[name] = test::read_file(folder.file("good/" + name));
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files) names.push_back(name);
  std::filesystem::create_directory(folder.path() / "bad");
  int refused = 0;
  const unsigned count = test::fuzz_cases(test::cases(5000));
  for (const unsigned seed : test::seeds(count)) {
    Random random(seed);
    std::map<std::string, std::string> hurt = files;
    std::string& file = hurt[random.of(names)];
    switch (random.below(6)) {
      case 0:  // a bit
        file[static_cast<size_t>(random.below(static_cast<int>(file.size())))] ^= static_cast<char>(1 << random.below(8));
        break;
      case 1:  // truncated
        file.resize(static_cast<size_t>(random.below(static_cast<int>(file.size()))));
        break;
      case 2:  // longer
        file += std::string(static_cast<size_t>(1 + random.below(100)), 'x');
        break;
      case 3:  // another file
        file = files.at(random.of(names));
        break;
      case 4:  // deleted
        hurt.erase(random.of(names));
        break;
      default: {  // edited: another digit in the index
        std::string& index = hurt["index.json"];
        const size_t at =
            index.find_first_of("0123456789", static_cast<size_t>(random.below(static_cast<int>(index.size()) - 30)));
        if (at != std::string::npos) index[at] = static_cast<char>('0' + random.below(10));
      }
    }
    for (const auto& [name, bytes] : files) std::filesystem::remove(folder.path() / "bad" / name);
    for (const auto& [name, bytes] : hurt) folder.write("bad/" + name, bytes);
    const std::string why = refusal([&] {
      SavedCheckpoint checkpoint(folder.file("bad"));
      checkpoint.check();
      for (const auto& [name, values] : tensors) ASSERT_TRUE(at::equal(checkpoint.read(name), values)) << test::replay(seed);
    });
    if (hurt != files) {
      EXPECT_FALSE(why.empty()) << test::replay(seed);
      EXPECT_EQ(why.find('\n'), std::string::npos) << test::replay(seed);
      ++refused;
    } else {
      EXPECT_EQ(why, "") << test::replay(seed);
    }
  }
  EXPECT_GT(refused, static_cast<int>(count) * 8 / 10);
}

}  // namespace
}  // namespace weft::data_test
