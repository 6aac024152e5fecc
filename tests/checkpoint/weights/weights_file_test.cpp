// Weights written by other tools: files and names.
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
#include "weft/checkpoint/weights/weight_names.h"

namespace weft::weights_file_test {
namespace {

using test::refusal;

const NamedTensor kA{"a", at::arange(6, at::kFloat).view({2, 3})};
const NamedTensor kB{"b.weight", at::arange(4, at::kFloat).to(at::kBFloat16)};

/// Made by Python's torch.save() from the state dict of a module with a Linear(3, 2) and a BatchNorm1d(3).
TEST(WeightsFile, ReadsAPythonStateDict) {
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

/// Each file is named by its kind, with advice.
TEST(WeightsFile, RejectsOtherFiles) {
  const test::TempFolder folder;
  EXPECT_NE(refusal([&] { open_weights(folder.file("none.safetensors")); }), "");
  const std::string zip = "PK\3\4" + std::string(22, '\0');
  const std::pair<std::string, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer"},
      {"\n<!DOCTYPE html>\n<html><head><title>\xc3\xa9</title>", "an HTML page"},
      {"<HTML><body>404</body></HTML>", "an HTML page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML, as servers"},
      {"{\"error\": \"Invalid username or password.\"}", "text"},
      {"Entry not found", "text"},
      {"", "empty"},
      {std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M", 18),
       "a checkpoint of PyTorch before 1.6"},
      {"\x80\x04\x95\x1f and so on", "a Python pickle"},
      {"\x89HDF\r\n\x1a\n0123", "HDF5"},
      {"\x93NUMPY\x01\0v", "a NumPy array"},
      {zip + "\x05" + std::string(3, '\0') + "a.npy...", "a NumPy archive"},
      {"\x1f\x8b\x08 and so on", "compressed with gzip"},
      {"GGUF\x03 and so on", "weights of llama.cpp (GGUF)"},
      {"model/" + std::string(251, '\0') + "ustar  ", "a tar archive"},
      {"PK\3\4 and no more", "a truncated zip archive"},
      {zip + std::string(60, '\1'), "a zip archive without a state dict of torch.save(), or truncated; unpack it"},
      {"PAR1" + std::string(60, '\1'), "Parquet; name the file that holds the weights"},
      {std::string("MMIDIDX\0\0", 9), "Megatron's index of a .bin file; name the file that holds the weights"},
  };
  for (const auto& [bytes, what] : files) {
    const std::string said = refusal([&, &bytes = bytes] { open_weights(folder.write("x.safetensors", bytes)); });
    EXPECT_NE(said.find(what), std::string::npos) << said;
    EXPECT_TRUE(said.starts_with(folder.file("x.safetensors"))) << said;
    EXPECT_TRUE(said.find("; ") != std::string::npos && said.find('\n') == std::string::npos) << said;
  }
  std::filesystem::remove(folder.file("x.safetensors"));
  EXPECT_NE(refusal([&] { open_weights(folder.path().string()); }).find("no checkpoint is there"), std::string::npos);
}

/// A damaged file is either read or rejected in one line.
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

std::string text(const std::string& t) { return "X" + std::string(1, static_cast<char>(t.size())) + std::string(3, '\0') + t; }

/// Writes what torch.save() makes of a pickle, with one record of `bytes` bytes.
std::string torch_file(const std::string& path, const std::string& pickle, size_t bytes) {
  caffe2::serialize::PyTorchStreamWriter writer(path);
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  const std::string data(bytes, '\0');
  writer.writeRecord("data/0", data.data(), data.size());
  writer.writeEndOfFile();
  return path;
}

/// A tensor in opcodes that lies in the record.
std::string tensor_of(const std::string& numel, const std::string& offset, const std::string& size, const std::string& stride) {
  const std::string storage = "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + numel + "tQ";
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + size + "\x85" + stride +
         "\x85\x89"
         "ccollections\nOrderedDict\n)RtR";
}

/// State dict of one tensor "a" in a record of `bytes` bytes; sizes in pickle's opcodes.
std::string state_dict(const std::string& path, const std::string& numel, const std::string& offset, const std::string& size,
                       const std::string& stride, size_t bytes) {
  return torch_file(path, std::string("\x80\x02}") + text("a") + tensor_of(numel, offset, size, stride) + "s.", bytes);
}

/// A pickle's sizes may differ from those of its records.
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

/// Other entries that training programs save with the state dict, and where they put it.
TEST(WeightsFile, LooksIntoNestedStateDicts) {
  const test::TempFolder folder;
  const std::string none = std::string("K\0", 2), one = "K\x01", two = "K\x02";
  const std::string dict = "}" + text("w") + tensor_of(two, none, two, one) + "s" + text("step") + "K\x07s";
  const auto opened = [&](const std::string& value) {
    return open_weights(torch_file(folder.file("x.pt"), "\x80\x02" + value + ".", 8));
  };
  struct Row {
    std::string value, note;
  };
  const std::string optimizer =
      text("optimizer") + "}" + text("state") + "}K\x03}" + text("lr") + "G" + std::string(8, '\0') + "sss" + "s";
  const Row rows[] = {{dict, ""},
                      {"}" + text("model") + dict + "s" + optimizer, "under 'model'"},
                      {"}" + optimizer + text("state_dict") + dict + "s" + text("model") + "}s", "under 'state_dict'"},
                      {"}" + text("module") + "}" + text("model") + dict + "ss", "under 'module.model'"}};
  for (const Row& row : rows) {
    const std::unique_ptr<WeightsFile> file = opened(row.value);
    EXPECT_EQ(file->names(), (std::vector<std::string>{"w"})) << row.note;
    EXPECT_EQ(file->shape("w"), (std::vector<int64_t>{2}));
    EXPECT_EQ(file->origin().notes.size(), row.note.empty() ? 0u : 1u);
    if (!row.note.empty()) {
      EXPECT_NE(file->origin().notes.front().find(row.note), std::string::npos);
    }
  }
  EXPECT_NE(refusal([&] { opened("}" + optimizer); }).find("it holds no named tensor, only 'optimizer'"), std::string::npos);
  EXPECT_NE(refusal([&] { opened("K\x03"); }).find("it holds a value of type Int"), std::string::npos);
  const std::string module = refusal([&] { opened("cnets\nNet\n)\x81}" + text("training") + "K\x01sb"); });
  EXPECT_NE(module.find("it holds a Python object, such as a whole module; save only the state dict, "
                        "torch.save(torch.load(f, weights_only=False).state_dict(), g)"),
            std::string::npos)
      << module;
}

/// Programs also save arguments, counters and numbers, by classes that must not be looked up here.
TEST(WeightsFile, SkipsObjectsOfOtherClasses) {
  const test::TempFolder folder;
  const std::string none = std::string("K\0", 2), one = "K\x01", two = "K\x02", namespace_of = "cargparse\nNamespace\n";
  const std::string dict = text("model") + "}" + text("w") + tensor_of(two, none, two, one) + "ss";
  const std::string items = text("a") + "K\x07";
  const std::pair<std::string, const char*> values[] = {
      {namespace_of + ")\x81}" + items + "sb", "an object"},
      {namespace_of + "q\x05)\x81q\x06}" + text("b") + "h\x05)\x81sb", "one in another, by the name that was kept"},
      {"ccollections\nCounter\n}" + items + "s\x85R", "a call"},
      {"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(" + items + "u", "a call whose result is filled"},
      {"ca\nB\n)R" + items + "s", "the same with one item"},
      {"ca\nB\n)R(" + one + two + "e" + one + "a", "a list"},
      {"c__builtin__\nset\n](" + one + two + "e\x85R", "a set"},
      {"ctorch\nSize\n" + one + "\x85\x85R", "a size"},
      {"ctorch\nfloat32\n", "a type of elements"},
      {std::string("\x8a\6\0\0\0\0\0\1", 8), "a number of 6 bytes"},
      {"\x8a\x0b" + std::string(11, '\x7f'), "one of 11"},
      {std::string("\x8a\0", 2), "zero"},
  };
  for (const auto& [value, what] : values) {
    const std::string path = torch_file(folder.file("x.pt"), "\x80\x02}" + text("args") + value + "s" + dict + ".", 8);
    const std::unique_ptr<WeightsFile> file = open_weights(path);
    EXPECT_EQ(file->names(), (std::vector<std::string>{"w"})) << what;
    EXPECT_EQ(file->shape("w"), (std::vector<int64_t>{2})) << what;
  }
  EXPECT_EQ(with_plain_dicts(std::string("\x8a\5\0\0\0\0\x80.", 8)), std::string("\x8a\x08\0\0\0\0\x80\xff\xff\xff.", 11));
}

/// Folders as Hugging Face and others leave them.
TEST(WeightsFile, FindsTheFilesOfAFolder) {
  const auto names_in = [](const std::vector<std::pair<std::string, std::vector<NamedTensor>>>& files) {
    const test::TempFolder folder;
    for (const auto& [name, tensors] : files) {
      if (name.ends_with(".bin")) {
        const std::string one = "K\x01", none = std::string("K\0", 2);
        torch_file(folder.file(name), "\x80\x02}" + text(tensors.front().name) + tensor_of(one, none, one, one) + "s.", 4);
      } else {
        save_safetensors(folder.file(name), tensors);
      }
    }
    std::string text;
    for (const std::string& name : open_weights(folder.path().string())->names()) text += name + " ";
    return text;
  };
  EXPECT_EQ(names_in({{"pytorch_model.bin", {kA}}}), "a ");
  EXPECT_EQ(names_in({{"model.safetensors", {kB}}, {"pytorch_model.bin", {kA}}}), "b.weight ");
  EXPECT_EQ(names_in({{"model-00001-of-00002.safetensors", {kA}}, {"model-00002-of-00002.safetensors", {kB}}}), "a b.weight ");
  EXPECT_EQ(names_in({{"pytorch_model-00001-of-00002.bin", {kA}}, {"pytorch_model-00002-of-00002.bin", {kB}}}), "a b.weight ");
  EXPECT_NE(refusal([&] {
              names_in({{"model-00001-of-00003.safetensors", {kA}}, {"model-00003-of-00003.safetensors", {kB}}});
            }).find("it has 2 of 3 shards of weights: 'model-00002-of-00003.safetensors' is missing"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              names_in({{"model-00001-of-00001.safetensors", {kA}}, {"model-00002-of-00002.safetensors", {kB}}});
            }).find("keep the shards of one model"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              names_in({{"best.safetensors", {kA}}});
            }).find("to use 'best.safetensors', name it"),
            std::string::npos);
  const test::TempFolder folder;
  folder.write("flax_model.msgpack", "\x81");
  const auto said = [](const std::string& path) { return refusal([&] { open_weights(path); }); };
  EXPECT_NE(said(folder.path().string()).find("weft cannot read the form of 'flax_model.msgpack'; save"), std::string::npos);
  EXPECT_NE(
      said(folder.write("config.json", R"({"model_type": "gpt2"})")).find("so it is the config of a model; name the file"),
      std::string::npos);
  EXPECT_NE(said(folder.write("a.index.json", "{}")).find("so it is not an index of weights; name"), std::string::npos);
}

TEST(WeightNames, IgnoreWrappers) {
  EXPECT_EQ(without_wrappers("module._orig_mod.h.0.weight"), "h.0.weight");
  EXPECT_EQ(without_wrappers("_orig_mod.module.module.w"), "w");
  EXPECT_EQ(without_wrappers("h._checkpoint_wrapped_module.0._fsdp_wrapped_module.w"), "h.0.w");
  EXPECT_EQ(without_wrappers("h.module.w"), "h.module.w");
  EXPECT_EQ(without_wrappers("modules.w"), "modules.w");
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

TEST(PlainPickle, RejectsOtherData) {
  EXPECT_NE(refusal([] { with_plain_dicts(std::string("\x80", 1)); }), "");
  EXPECT_NE(refusal([] { with_plain_dicts("X\xff\xff\xff\x7f"); }), "");
  EXPECT_NE(refusal([] { with_plain_dicts("\xf0"); }), "");
  const int deep = 300'000;
  EXPECT_NE(refusal([&] { with_plain_dicts(std::string(deep, '(') + std::string(deep, 't')); }).find("too deeply"),
            std::string::npos);
  EXPECT_NE(refusal([&] { with_plain_dicts("N" + std::string(deep, '\x85')); }).find("too deeply"), std::string::npos);
  EXPECT_NE(refusal([&] { with_plain_dicts(std::string("\x80\x02}r\xff\xff\xff\x0f.", 9)); }).find("memo index"),
            std::string::npos);
  EXPECT_NE(refusal([&] { with_plain_dicts("t"); }).find("never begun"), std::string::npos);
}

}  // namespace
}  // namespace weft::weights_file_test
