// Weights of others: their files, and their names.
#include "weft/checkpoint/weights/weights_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "tests/support/refusal.h"
#include "tests/support/seeds.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/checkpoint/weights/plain_pickle.h"

namespace weft::weights_file_test {
namespace {

using test::refusal;

const NamedTensor kA{"a", at::arange(6, at::kFloat).view({2, 3})};
const NamedTensor kB{"b.weight", at::arange(4, at::kFloat).to(at::kBFloat16)};

/// What Python's torch.save() made of the state dict of a module with a Linear(3, 2) and a BatchNorm1d(3).
TEST(WeightsFile, ReadsAStateDictOfPython) {
  const std::unique_ptr<WeightsFile> file = open_weights(WEFT_SOURCE "/tests/checkpoint/weights/state_dict.pt");
  EXPECT_EQ(file->names(), (std::vector<std::string>{"b.bias", "b.num_batches_tracked", "b.running_mean", "b.running_var",
                                                     "b.weight", "l.bias", "l.weight"}));
  EXPECT_EQ(file->read("l.weight").sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_TRUE(at::equal(file->read("b.weight"), at::ones({3})));
  EXPECT_EQ(file->read("b.num_batches_tracked").item<int64_t>(), 0);
}

TEST(WeightsFile, ReadsOneFileOrSeveral) {
  const test::TempFolder folder;
  save_safetensors(folder.file("model-1.safetensors"), {kA});
  save_safetensors(folder.file("model-2.safetensors"), {kB});
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"a": "model-1.safetensors", "b.weight": "model-2.safetensors"}})");
  for (const std::string& path : {folder.path().string(), folder.file("model.safetensors.index.json")}) {
    const std::unique_ptr<WeightsFile> file = open_weights(path);
    EXPECT_EQ(file->names(), (std::vector<std::string>{"a", "b.weight"}));
    EXPECT_TRUE(at::equal(file->read("b.weight"), kB.tensor));
  }
  EXPECT_EQ(open_weights(folder.file("model-1.safetensors"))->names(), (std::vector<std::string>{"a"}));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"c": "model-1.safetensors"}})");
  EXPECT_NE(refusal([&] { open_weights(folder.path().string()); }).find("'c' is not in model-1.safetensors"),
            std::string::npos);
}

TEST(WeightsFile, RefusesOtherFiles) {
  const test::TempFolder folder;
  EXPECT_NE(refusal([&] { open_weights(folder.file("none.safetensors")); }), "");
  EXPECT_NE(refusal([&] { open_weights(folder.write("x", "PK\3\4 and no more")); }).find("state dict"), std::string::npos);
  EXPECT_NE(refusal([&] { open_weights(folder.path().string()); }).find("no checkpoint is there"), std::string::npos);
}

/// Whatever a damaged file holds: read, or one line.
TEST(WeightsFile, SurvivesDamage) {
  const test::TempFolder folder;
  const std::string good = test::read_file(WEFT_SOURCE "/tests/checkpoint/weights/state_dict.pt");
  for (const unsigned seed : test::seeds(test::fuzz_cases(test::cases(400)))) {
    test::Random random(seed);
    std::string bytes = good;
    for (int i = random.below(4); i >= 0; --i) {
      bytes[static_cast<size_t>(random.below(static_cast<int>(bytes.size())))] = static_cast<char>(random.below(256));
    }
    const std::string path = folder.write("x.pt", bytes);
    const std::string why = refusal([&] {
      const std::unique_ptr<WeightsFile> file = open_weights(path);
      for (const std::string& name : file->names()) file->read(name);
    });
    EXPECT_EQ(why.find('\n'), std::string::npos) << test::replay(seed);
  }
}

/// A state dict of one tensor "a" that lies in a record of `bytes` bytes; `sizes` in pickle's opcodes.
std::string state_dict(const std::string& path, const std::string& numel, const std::string& offset, const std::string& size,
                       const std::string& stride, size_t bytes) {
  const auto text = [](const std::string& t) {
    return "X" + std::string(1, static_cast<char>(t.size())) + std::string(3, '\0') + t;
  };
  const std::string storage = "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + numel + "tQ";
  const std::string tensor = "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + size + "\x85" + stride +
                             "\x85\x89"
                             "ccollections\nOrderedDict\n)RtR";
  const std::string pickle = std::string("\x80\x02}") + text("a") + tensor + "s.";
  caffe2::serialize::PyTorchStreamWriter writer(path);
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  const std::string data(bytes, '\0');
  writer.writeRecord("data/0", data.data(), data.size());
  writer.writeEndOfFile();
  return path;
}

/// A pickle tells sizes of its own, which its records need not have.
TEST(WeightsFile, ReadsNothingBeyondARecord) {
  const test::TempFolder folder;
  const std::string two = "K\x02", eight = "K\x08", none = std::string("K\0", 2), one = "K\x01", huge = "J\xff\xff\xff\x7f";
  const auto open = [&](const std::string& numel, const std::string& offset, const std::string& size, const std::string& stride,
                        size_t bytes) {
    return refusal([&] { open_weights(state_dict(folder.file("x.pt"), numel, offset, size, stride, bytes)); });
  };
  EXPECT_EQ(open(eight, none, eight, one, 32), "");
  for (const std::string& said :
       {open(eight, none, eight, one, 4), open(huge, none, eight, one, 32), open(eight, two, eight, one, 32),
        open(eight, none, eight, two, 32), open(eight, huge, two, one, 32)}) {
    EXPECT_NE(said, "");
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

TEST(WeightNames, MapOneToAnother) {
  const test::TempFolder folder;
  const WeightNames names =
      WeightNames::from_file(folder.write("n.json", R"({"transformer.h.*": "h.*", "lm_head.weight": "head.weight"})"));
  EXPECT_EQ(names.in_model("transformer.h.3.ln.bias"), "h.3.ln.bias");
  EXPECT_EQ(names.in_model("lm_head.weight"), "head.weight");
  EXPECT_EQ(names.in_model("other"), "other");
  EXPECT_NE(refusal([&] { WeightNames::from_file(folder.write("n.json", R"({"a.*": "b"})")); }), "");
  EXPECT_NE(refusal([&] { WeightNames::from_file(folder.write("n.json", "[]")); }), "");
}

TEST(PlainPickle, RefusesWhatIsNoPickle) {
  EXPECT_NE(refusal([] { with_plain_dicts(std::string("\x80", 1)); }), "");
  EXPECT_NE(refusal([] { with_plain_dicts("X\xff\xff\xff\x7f"); }), "");
  EXPECT_NE(refusal([] { with_plain_dicts("\xf0"); }), "");
  const int deep = 300'000;
  EXPECT_NE(refusal([&] { with_plain_dicts(std::string(deep, '(') + std::string(deep, 't')); }).find("too deeply"),
            std::string::npos);
  EXPECT_NE(refusal([&] { with_plain_dicts("N" + std::string(deep, '\x85')); }).find("too deeply"), std::string::npos);
  EXPECT_NE(refusal([&] { with_plain_dicts(std::string("\x80\x02}r\xff\xff\xff\x0f.", 9)); }).find("remembers"),
            std::string::npos);
  EXPECT_NE(refusal([&] { with_plain_dicts("t"); }).find("never began"), std::string::npos);
}

}  // namespace
}  // namespace weft::weights_file_test
