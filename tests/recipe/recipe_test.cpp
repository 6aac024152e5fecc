// Recipe: parsing, and the one-line error for every kind of bad input.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <variant>

#include "tests/support/refusal.h"
#include "weft/base/error.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/build/data_checks.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/read/saved_recipe.h"

namespace weft {
namespace {

constexpr const char* kSmall = R"(
model = { name = "gpt", heads = 4, width = 128 }
data = { name = "text" }
batch = { global = 64 }
run = { steps = 20 }
)";

std::filesystem::path source_folder() { return WEFT_SOURCE; }

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(text, "r.toml", overrides);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recipe, InlineTablesAndSectionsMeanTheSame) {
  const Recipe inline_tables = parse_recipe(kSmall, "r.toml");
  const Recipe sections = parse_recipe(
      "[model]\nname = 'gpt'\nheads = 4\nwidth = 128\n[data]\nname = \"text\"\n[batch]\nglobal = 64\n[run]\nsteps = 20\n",
      "r.toml");
  for (const Recipe& recipe : {inline_tables, sections}) {
    EXPECT_EQ(recipe.path, "r.toml");
    EXPECT_EQ(recipe.model.name, "gpt");
    EXPECT_EQ(recipe.model.heads, 4);
    EXPECT_EQ(recipe.model.layers, 6) << "left out: the default";
    EXPECT_EQ(recipe.batch.global, 64);
    EXPECT_FALSE(recipe.batch.micro.has_value());
    EXPECT_FALSE(recipe.layout.dp.has_value());
    EXPECT_EQ(recipe.run.steps, 20);
  }
}

TEST(Recipe, EveryKeyReachesItsPlace) {
  const Recipe recipe = parse_recipe(R"(
    [model]
    name = "gpt"
    layers = 2
    heads = 2
    kv_heads = 1
    width = 8
    ffn = 24
    context = 16
    vocabulary = 300
    classes = 3
    dropout = 0.25
    rope_theta = 5e5
    norm_eps = 1e-6
    weights = "w.safetensors"
    weight_names = "n.json"
    weights_skip = "fc.*"
    [data]
    name = "tokens"
    path = "ids.bin"
    tokenizer = "uint16"
    evaluation = 0.2
    [batch]
    global = 32
    micro = 4
    [layout]
    style = "naive"
    dp = 2
    pp = 3
    shard = 4
    cp = 5
    tp = 6
    backend = "gloo"
    bucket_mb = 1
    [optimizer]
    name = "sgd"
    lr = 1
    warmup = 3
    decay = "step"
    final_lr = 0.1
    decay_every = "2 epochs"
    decay_factor = 0.5
    weight_decay = 0.02
    beta1 = 0.8
    beta2 = 0.9
    eps = 1e-6
    momentum = 0.7
    nesterov = true
    clip = 2.5
    ema = 0.99
    ema_warmup = false
    [run]
    steps = 100
    evaluate_every = "1e6 tokens"
    target = "loss <= 2.1"
    evaluate = "both"
    seed = 42
    threads = 2
    reproducible_slots = 8
    reproducible_tp = 12
    noise_scale = true
    device = "cpu"
    hardware = "h.toml"
    timeout_s = 7.5
    ports = "20000-20100"
  )",
                                     "r.toml");
  const ModelRecipe& m = recipe.model;
  EXPECT_EQ((std::vector<int64_t>{m.layers, m.heads, m.kv_heads, m.width, m.ffn, m.context, m.vocabulary, m.classes}),
            (std::vector<int64_t>{2, 2, 1, 8, 24, 16, 300, 3}));
  EXPECT_EQ((std::vector<double>{m.dropout, m.rope_theta, m.norm_eps}), (std::vector<double>{0.25, 5e5, 1e-6}));
  EXPECT_EQ(m.weights + m.weight_names + m.weights_skip, "w.safetensorsn.jsonfc.*");
  EXPECT_EQ(recipe.data.path + recipe.data.tokenizer, "ids.binuint16");
  EXPECT_EQ(recipe.data.evaluation, 0.2);
  const Recipe rows = parse_recipe(kSmall, "r.toml", {"data.name=jsonl", "data.path=x", "data.shuffle_mb=32.5"});
  EXPECT_EQ(rows.data.shuffle_mb, 32.5);
  EXPECT_EQ(recipe.batch.micro, 4);
  const LayoutRecipe& l = recipe.layout;
  EXPECT_EQ((std::vector<int64_t>{*l.dp, l.pp, *l.shard, l.cp, l.tp}), (std::vector<int64_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(l.style + " " + l.backend, "naive gloo");
  EXPECT_EQ(l.bucket_mb, 1.0);
  const OptimizerRecipe& o = recipe.optimizer;
  EXPECT_EQ(o.name + o.decay, "sgdstep");
  EXPECT_EQ((std::vector<double>{o.lr, o.final_lr, o.decay_factor, o.weight_decay, *o.beta1, *o.beta2, *o.eps, *o.momentum,
                                 o.clip, o.ema}),
            (std::vector<double>{1, 0.1, 0.5, 0.02, 0.8, 0.9, 1e-6, 0.7, 2.5, 0.99}));
  EXPECT_FALSE(o.ema_warmup);
  EXPECT_EQ(run_length_text(o.warmup) + ", " + run_length_text(o.decay_every), "3, 2 epochs");
  EXPECT_EQ(o.nesterov, true);
  const RunRecipe& r = recipe.run;
  EXPECT_EQ((std::vector<int64_t>{*r.steps, *r.threads, r.reproducible_slots, r.reproducible_tp}),
            (std::vector<int64_t>{100, 2, 8, 12}));
  EXPECT_EQ(run_length_text(r.evaluate_every), "1000000 tokens");
  EXPECT_EQ(r.target + r.evaluate, "loss <= 2.1both");
  EXPECT_TRUE(r.noise_scale);
  EXPECT_EQ(r.seed, 42u);
  EXPECT_EQ(r.device + " " + r.hardware, "cpu h.toml");
  EXPECT_EQ(r.timeout_s, 7.5);
  EXPECT_EQ(r.ports, "20000-20100");
}

TEST(Recipe, AWordStandsForALayout) {
  const std::string text = kSmall;
  for (const std::string word : {"auto", "naive"}) {
    EXPECT_EQ(parse_recipe(text + "layout = \"" + word + "\"\n", "r.toml").layout.style, word);
    EXPECT_EQ(parse_recipe(text, "r.toml", {"layout=" + word}).layout.style, word) << "with --set";
  }
  const auto error_of = [&](const std::string& line) { return test::refusal([&] { parse_recipe(text + line, "r.toml"); }); };
  EXPECT_NE(error_of("layout = \"atuo\"\n").find("layout.style must be one of \"mesh\", \"master\", \"naive\", \"auto\""),
            std::string::npos)
      << error_of("layout = \"atuo\"\n");
  EXPECT_NE(error_of("run = \"auto\"\n"), "") << "no other section has one";
  EXPECT_EQ(parse_recipe(text + "layout = { style = \"auto\", schedule = \"gpipe\" }\n", "r.toml").layout.schedule, "gpipe");
}

TEST(Recipe, ABatchMayGrowInPhases) {
  const std::string text = std::string(R"(
    model = { name = "mlp" }
    data = { name = "fashion-mnist" }
    batch = { global = 64, micro = 4, ramp = [{ global = 16, steps = 10 }, { global = 32, steps = 20 }] }
    run = { steps = 100 }
  )");
  const Recipe recipe = parse_recipe(text, "r.toml", {"batch.ramp.2.steps=5"});
  ASSERT_EQ(recipe.batch.ramp.size(), 2u);
  EXPECT_EQ(recipe.batch.ramp[0].global_batch, 16);
  EXPECT_EQ(recipe.batch.ramp[1].steps, 5);
  EXPECT_EQ(recipe_values(recipe).at("batch.ramp.1.global"), "16") << "in checkpoints";
  const std::pair<const char*, const char*> refused[] = {
      {"batch.ramp.1.steps=0", "batch.ramp.1.steps must be an integer of at least 1"},
      {"batch.ramp.1.global=33", "batch.ramp, phase 1: global = 33 is more than the next phase's global = 32"},
      {"batch.global=16", "batch.ramp, phase 2: global = 32 is more than batch.global = 16"},
      {"run.steps=30", "run.steps = 30 ends before the 30 steps of batch.ramp"},
      {"optimizer.decay_every=1 epoch", "batch.ramp with optimizer.decay_every = \"1 epoch\""}};
  for (const auto& [override, says] : refused) {
    const std::string reported = test::refusal([&, change = std::string(override)] { parse_recipe(text, "r.toml", {change}); });
    EXPECT_NE(reported.find(says), std::string::npos) << reported;
  }
}

TEST(Recipe, OverridesWinAndTheLastWinsMost) {
  const Recipe recipe = parse_recipe(
      kSmall, "r.toml",
      {"run.steps=30", "run.steps=40", "optimizer.lr=1e-2", "optimizer.clip=1", "layout.dp=2", "optimizer.nesterov=true",
       "data.path=/some/file name=1.txt", "layout.backend=\"shm\"", "optimizer.decay=cosine"});
  EXPECT_EQ(recipe.run.steps, 40);
  EXPECT_EQ(recipe.optimizer.lr, 0.01);
  EXPECT_EQ(recipe.optimizer.clip, 1.0);
  EXPECT_EQ(recipe.layout.dp, 2);
  EXPECT_EQ(recipe.optimizer.nesterov, true);
  EXPECT_EQ(recipe.data.path, "/some/file name=1.txt") << "unquoted text is a string";
  EXPECT_EQ(recipe.layout.backend, "shm");
  EXPECT_EQ(recipe.optimizer.decay, "cosine");
  EXPECT_EQ(parse_recipe(kSmall, "r", {"data.path=123"}).data.path, "123") << "a file may be called so";
}

TEST(Recipe, TheLaterOfTwoLengthsOfTheRunCounts) {
  for (const auto& [overrides, text] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{{{"run.epochs=1.5"}, "1.5 epochs"},
                                                                     {{"run.epochs=2", "run.tokens=3e9"}, "3000000000 tokens"},
                                                                     {{"run.samples=1000", "run.steps=7"}, "7"}}) {
    EXPECT_EQ(run_length_text(length_of(parse_recipe(kSmall, "r", overrides).run)), text);
  }
}

TEST(Recipe, EvaluationSetsComeAnyNumberOfTimes) {
  const std::string two = std::string(kSmall) + "[[evaluation]]\nname = 'a'\npath = 'x'\n[[evaluation]]\nname = '";
  const Recipe recipe = parse_recipe(two + "b'\npath = 'y'", "r.toml");
  ASSERT_EQ(recipe.evaluations.size(), 2u);
  EXPECT_EQ(recipe.evaluations[0].name + recipe.evaluations[1].path, "ay");
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {two + "a'\npath = 'y'", "r.toml: two evaluation sets are called 'a'; give each its own name"},
           {two + "'\npath = 'y'", "r.toml: evaluation.name and evaluation.path cannot be empty"},
           {two + "b'", "r.toml:9:1: evaluation.path is missing"},
           {two + "b'\npaht = 'y'", "r.toml:11:1: unknown key 'evaluation.paht'; did you mean 'evaluation.path'?"}}) {
    EXPECT_EQ(error_of(text).substr(0, error.size()), error);
  }
  EXPECT_EQ(error_of(two + "c, not averaged'\npath = 'y'", {"optimizer.ema=0.9", "run.evaluate=both"}),
            "r.toml: evaluation.name = 'c, not averaged' is taken by run.evaluate = \"both\"; use another name");
  const std::string mixture =
      "model = { name = 'gpt' }\ndata = { name = 'mix', mix = [{ name = 'text' }] }\nbatch = { global = 1 }\nrun = { steps = 1 "
      "}\n";
  EXPECT_EQ(error_of(mixture), "no error");
  EXPECT_EQ(error_of(mixture + "[[evaluation]]\nname = 'a'\npath = 'x'"),
            "r.toml: [[evaluation]] needs a data.name that is a kind of file, not \"mix\"; leave it out");
}

TEST(Recipe, RequiredKeysMayComeFromOverrides) {
  EXPECT_EQ(parse_recipe("model = { name = 'cnn' }\ndata = { name = 'fashion-mnist' }", "r", {"batch.global=8", "run.steps=2"})
                .batch.global,
            8);
}

struct Bad {
  const char* what;
  std::string text;
  std::string error;
};

std::string one_of(const std::vector<std::string>& names) { return fmt::format("one of \"{}\"", fmt::join(names, "\", \"")); }

std::string without(const std::string& part) {
  std::string text = kSmall;
  return text.erase(text.find(part), part.size());
}

TEST(Recipe, EveryBadInputNamesPlaceKeyAndValidValues) {
  const Bad cases[] = {
      {"unknown key", "model = { name = 'gpt', layer = 3 }",
       "r.toml:1:25: unknown key 'model.layer'; did you mean 'model.layers'?"},
      {"unknown key in a section", "[run]\nsteps = 3\nsede = 1",
       "r.toml:3:1: unknown key 'run.sede'; did you mean 'run.seed'?"},
      {"key of another section", "[model]\nlr = 3", "r.toml:2:1: unknown key 'model.lr'; did you mean 'optimizer.lr'?"},
      {"unknown section", "modle = { name = 'gpt' }", "r.toml:1:1: unknown key 'modle'; did you mean 'model'?"},
      {"key outside its section", "lr = 1e-3", "r.toml:1:1: unknown key 'lr'; did you mean 'optimizer.lr'?"},
      {"section that is no table", "model = 'gpt'",
       "r.toml:1:1: model must be a table (model = { ... } or [model]), found 'gpt'"},
      {"string for an integer", "model = { layers = 'six' }",
       "r.toml:1:20: model.layers must be an integer of at least 1 and at most 10000, found 'six'"},
      {"float for an integer", "[run]\nsteps = 2e3", "r.toml:2:9: run.steps must be an integer of at least 1, found 2000.0"},
      {"above the largest", "[run]\nsteps = 2000000000",
       "r.toml:2:9: run.steps must be an integer of at least 1 and at most 1000000000, found 2000000000"},
      {"string for a number", "[optimizer]\nlr = '1e-3'", "r.toml:2:6: optimizer.lr must be a number above 0, found '1e-3'"},
      {"integer for a truth", "[optimizer]\nnesterov = 1", "r.toml:2:12: optimizer.nesterov must be true or false, found 1"},
      {"number for a string", "[data]\npath = 3", "r.toml:2:8: data.path must be a string, found 3"},
      {"array for a number", "[optimizer]\nlr = [1, 2]",
       "r.toml:2:6: optimizer.lr must be a number above 0, found an array ([ 1, 2 ])"},
      {"table for a number", "[optimizer]\nlr = { a = 1 }",
       "r.toml:2:6: optimizer.lr must be a number above 0, found a table ({ a = 1 })"},
      {"not a choice", "model = { name = 'gtp' }",
       "r.toml:1:18: model.name must be " + one_of(model_names()) + ", found 'gtp'"},
      {"zero steps", "[run]\nsteps = 0", "r.toml:2:9: run.steps must be an integer of at least 1, found 0"},
      {"negative seed", "[run]\nseed = -1", "r.toml:2:8: run.seed must be an integer of at least 0, found -1"},
      {"dropout of one", "[model]\ndropout = 1.0",
       "r.toml:2:11: model.dropout must be a number of at least 0 and below 1, found 1.0"},
      {"NaN", "[optimizer]\nlr = nan", "r.toml:2:6: optimizer.lr must be a finite number above 0, found nan"},
      {"TOML that is none", "[run\nsteps = 3", "r.toml:1:5: "},
      {"the same key twice", "[run]\nsteps = 3\nsteps = 4", "r.toml:3:"},
      {"no model", without("name = \"gpt\", "), "r.toml: model.name is missing (which model): " + one_of(model_names())},
      {"no batch", without("global = 64"),
       "r.toml: batch.global is missing (samples per step, over all ranks): an integer of at least 1"},
      {"no length", without("run = { steps = 20 }"),
       "r.toml: the length of the run is missing: set run.steps, run.epochs, run.samples or run.tokens"},
      {"two lengths", without("run = { steps = 20 }") + "run = { steps = 3, epochs = 1 }",
       "r.toml: run.steps and run.epochs each give the length of the run; keep one of them"},
      {"an empty file", "", "r.toml: model.name is missing"},
      {"a path that ends early", "data = { path = \"/a\\u0000b\" }",
       "r.toml:1:17: data.path contains a NUL, which would end it early; remove it, found "},
      {"a key that moves the cursor", "[run]\n\"\\u001b[2J\" = 1", "r.toml:2:1: unknown key 'run.\\x1b[2J'; keys are run."},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.what);
    const std::string error = error_of(bad.text);
    EXPECT_EQ(error.substr(0, bad.error.size()), bad.error) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << "one line";
  }
}

TEST(Recipe, EveryBadOverrideNamesItself) {
  const Bad cases[] = {
      {"a list", "batch.ramp=[{ global = 2, steps = 1 }]",
       "--set batch.ramp=[{ global = 2, steps = 1 }]: a list is set in the recipe's file; --set changes keys of its entries, "
       "as batch.ramp.1.KEY"},
      {"unknown key", "model.layer=3", "--set model.layer=3: unknown key 'model.layer'; did you mean 'model.layers'?"},
      {"unknown section", "optimiser.lr=3", "--set optimiser.lr=3: unknown key 'optimiser.lr'; did you mean 'optimizer.lr'?"},
      {"no value", "model.layers", "--set model.layers: write it as section.key=value"},
      {"no key", "=3", "--set =3: write it as section.key=value"},
      {"empty value",
       "model.layers=", "--set model.layers=: model.layers must be an integer of at least 1 and at most 10000, found ''"},
      {"word for a number", "run.steps=many", "--set run.steps=many: run.steps must be an integer of at least 1, found 'many'"},
      {"not a choice", "optimizer.name=adam",
       "--set optimizer.name=adam: optimizer.name must be " + one_of(optimizer_names()) + ", found 'adam'"},
      {"more than a value", "run.steps=3\nseed=4", "--set run.steps=3\\nseed=4: run.steps must be"},
      {"no length", "optimizer.warmup=3 weeks",
       "--set optimizer.warmup=3 weeks: optimizer.warmup must be a number of steps, or a length: \"2 epochs\", \"1e6 "
       "samples\", "
       "\"3e9 tokens\", found '3 weeks'"},
      {"a negative length", "run.evaluate_every=-1",
       "--set run.evaluate_every=-1: run.evaluate_every must be a number of steps"},
      {"time where ranks would differ", "run.evaluate_every=10 min",
       "--set run.evaluate_every=10 min: run.evaluate_every must be a number of steps"},
      {"zero", "batch.global=0", "--set batch.global=0: batch.global must be an integer of at least 1, found 0"},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.what);
    const std::string error = error_of(kSmall, {bad.text});
    EXPECT_EQ(error.substr(0, bad.error.size()), bad.error) << error;
  }
}

TEST(Recipe, KeysThatDoNotFitTogether) {
  struct Case {
    std::vector<std::string> overrides;
    std::string error;
  };
  const Case cases[] = {
      {{"model.heads=5"}, "r.toml: model.heads = 5 does not divide model.width = 128; the nearest that does is 4"},
      {{"save.folder=s", "model.weights=\"h.\\u0007\""},
       "r.toml: model.weights = 'h.\\x07' has control characters, or is not UTF-8, which a checkpoint's index cannot "
       "store; use another name"},
      {{"model.name=exported", "model.inputs=tokens"},
       "r.toml: model.path is missing: model.name = \"exported\" needs the file that torch.export.save() wrote"},
      {{"model.path=net.pt2"}, "r.toml: model.path is read only with model.name = \"exported\"; set that too, or leave it out"},
      {{"model.weights_skip=fc.*"},
       "r.toml: model.weights_skip is read only with model.weights; set that too, or leave it out"},
      {{"run.ports=20100-20000"},
       "r.toml: run.ports = \"20100-20000\": expected the first and the last port, from 1024 to 65535, as in \"20000-20100\""},
      {{"run.ports=20000-20100", "run.device=cuda"},
       "r.toml: run.ports does not limit NCCL, which takes any port; leave it out, and narrow the system's range on each "
       "host: sysctl net.ipv4.ip_local_port_range"},
      {{"batch.micro=65"}, "r.toml: batch.micro = 65 is more than batch.global = 64"},
      {{"model.heads=1000", "model.width=16"},
       "r.toml: model.heads = 1000 does not divide model.width = 16; the nearest that does is 16"},
      {{"model.heads=10000", "model.width=10007"},
       "r.toml: model.heads = 10000 does not divide model.width = 10007; the nearest that does is 1"},
      {{"model.name=llama", "model.heads=5"},
       "r.toml: model.heads = 5 does not divide model.width = 128; the nearest that does is 4"},
      {{"model.name=llama", "model.width=12"},
       "r.toml: model.width = 12 over model.heads = 4 makes heads of 3; rotary positions need an even number"},
      {{"model.name=llama", "model.kv_heads=3"},
       "r.toml: model.kv_heads = 3 does not divide model.heads = 4; the nearest that does is 2"},
      {{"run.reproducible_slots=999999"},
       "r.toml: run.reproducible_slots = 999999 must be a power of two; the nearest is 524288"},
      {{"run.reproducible_slots=6"}, "r.toml: run.reproducible_slots = 6 must be a power of two; the nearest are 4 and 8"},
      {{"optimizer.ema_warmup=false"},
       "r.toml: optimizer.ema_warmup is read only with optimizer.ema; set that too, or leave it out"},
      {{"run.evaluate=both"}, "r.toml: run.evaluate = \"both\" is read only with optimizer.ema; set that too, or leave it out"},
      {{"run.target=0.9"},
       "r.toml: run.target = \"0.9\" is not a target: it has no comparison; write one as \"accuracy >= 0.9\" "
       "or \"loss <= 2.1\""},
      {{"run.target=loss <= 2.1"},
       "r.toml: run.target = \"loss <= 2.1\" needs run.evaluate_every: evaluations decide whether it is reached"},
      {{"optimizer.warmup=20"},
       "r.toml: optimizer.warmup = 20 does not end within run.steps = 20; shorten the warm-up (optimizer.warmup=0: "
       "none)"},
      {{"run.epochs=3", "optimizer.warmup=3 epochs"},
       "r.toml: optimizer.warmup = 3 epochs does not end within run.epochs = 3; shorten the warm-up "
       "(optimizer.warmup=0: none)"},
      {{"model.name=mlp", "data.name=fashion-mnist", "run.evaluate_every=9 tokens"},
       "r.toml: run.evaluate_every counts tokens, which model \"mlp\" does not read"},
      {{"model.name=mlp", "data.name=fashion-mnist", "run.tokens=9"},
       "r.toml: run.tokens counts tokens, which model \"mlp\" does not read"},
      {{"data.flip=true"}, "r.toml: data.flip is for images, not for text; leave it out"},
      {{"data.crop_padding=4"}, "r.toml: data.crop_padding is for images, not for text; leave it out"},
      {{"data.least_area=0.5"}, "r.toml: data.least_area is for images, not for text; leave it out"},
      {{"data.alpha=black"}, "r.toml: data.alpha is for images, not for text; leave it out"},
      {{"data.exif_rotation=true"}, "r.toml: data.exif_rotation is for images, not for text; leave it out"},
      {{"model.name=mlp", "data.name=fashion-mnist", "data.exif_rotation=true"},
       "r.toml: data.alpha and data.exif_rotation are for image files, not for data.name = \"fashion-mnist\"; leave "
       "them out"},
      {{"data.mixup=0.2"}, "r.toml: data.mixup is for images, not for text; leave it out"},
      {{"model.name=mlp", "data.name=fashion-mnist", "data.pack=documents"}, "r.toml: data.pack is for tokens; leave it out"},
      {{"data.pack=documents", "layout.cp=2"},
       "r.toml: data.pack = \"documents\" with layout.cp = 2, whose ranks share samples as one sequence; use cp = 1, or "
       "\"stream\""},
      {{"data.pack=documents", "data.document_end=3"},
       "r.toml: data.document_end is read only with data.name = \"tokens\" and data.pack = \"documents\"; leave it out"},
      {{"data.document_end=3", "data.name=tokens", "data.tokenizer=uint16", "data.path=x"},
       "r.toml: data.document_end is read only with data.name = \"tokens\" and data.pack = \"documents\"; leave it out"},
      {{"data.pack=documents", "data.document_end=256", "data.name=tokens", "data.tokenizer=uint16", "data.path=x"},
       "r.toml: data.document_end = 256 is not below model.vocabulary = 256"},
      {{"model.class_weights=1"}, "r.toml: model.class_weights is for images and arrays, not for text; leave it out"},
      {{"model.name=mlp", "data.name=fashion-mnist", "model.class_weights=1, 2"},
       "r.toml: model.class_weights has 2 numbers for model.classes = 10; give one per class"},
      {{"model.name=mlp", "data.name=fashion-mnist", "model.class_weights=1,-1"},
       "r.toml: model.class_weights: '-1' is no number of at least 0; give one per class, as in \"1, 0.5, 2\""},
      {{"model.loss=mean_squares"},
       "r.toml: model.loss is read only with model.name = \"exported\"; set that too, or leave it out"},
      {{"model.name=exported", "model.path=p", "model.inputs=tokens", "model.loss=huber"},
       "r.toml: model.loss = \"huber\"; it must be \"cross_entropy\", \"mean_squares\" or a file, \"FILE.pt2\""},
      {{"model.name=exported", "model.path=p", "model.inputs=arrays"},
       "r.toml: model.name = \"exported\" with model.inputs = \"arrays\" cannot learn from data.name = \"text\"; it needs "
       "\"arrays\""},
      {{"model.label_smoothing=0.1"}, "r.toml: model.label_smoothing is for images, not for text; leave it out"},
      {{"layout.schedule_file=own.csv"},
       "r.toml: layout.schedule_file is read only with layout.schedule = \"csv\" (here: \"1f1b\"); set that too, or leave "
       "it out"},
      {{"layout.chunks=3", "layout.schedule=zb-v"},
       "r.toml: layout.chunks is read only with layout.schedule = \"interleaved\" (here: \"zb-v\"); set that too, or "
       "leave it out"},
      {{"layout.schedule_activations=3"},
       "r.toml: layout.schedule_activations is read only with layout.schedule = \"auto\" (here: \"1f1b\"); set that "
       "too, or leave it out"},
      {{"layout.stage_gb=3", "layout.stages=even"},
       "r.toml: layout.stage_gb is read only with layout.stages = \"auto\" (here: \"even\"); set that too, or leave it "
       "out"},
      {{"layout.gathered_mb=1"},
       "r.toml: layout.gathered_mb is read only with layout.shard_level = \"parameters\" (here: \"none\"); set that "
       "too, or leave it out"},
      {{"layout.prefetch=5", "layout.shard_level=optimizer"},
       "r.toml: layout.prefetch is read only with layout.shard_level = \"gradients\" or \"parameters\" "
       "(here: \"optimizer\"); set that too, or leave it out"},
      {{"layout.reshard_after_forward=false", "layout.shard_level=gradients"},
       "r.toml: layout.reshard_after_forward is read only with layout.shard_level = \"parameters\" "
       "(here: \"gradients\"); set that too, or leave it out"},
      {{"layout.bucket_mb=1", "layout.shard_level=gradients"},
       "r.toml: layout.bucket_mb is read only with layout.shard_level = \"none\" (here: \"gradients\"); set that too, "
       "or leave it out"},
      {{"layout.recompute_every=7"},
       "r.toml: layout.recompute_every is read only with layout.recompute = \"blocks\" (here: \"none\"); set that too, "
       "or leave it out"},
      {{"layout.style=naive", "layout.schedule=gpipe"},
       "r.toml: layout.schedule is not read with layout.style = \"naive\"; leave one of them out"},
      {{"layout.style=naive", "layout.stage_gb=3"},
       "r.toml: layout.stage_gb is not read with layout.style = \"naive\"; leave one of them out"},
      {{"layout.style=master", "layout.stages=even"},
       "r.toml: layout.stages is not read with layout.style = \"master\"; leave one of them out"},
      {{"layout.style=master", "layout.profile=here.toml"},
       "r.toml: layout.profile is not read with layout.style = \"master\"; leave one of them out"},
      {{"layout.schedule=csv"}, "r.toml: layout.schedule = \"csv\" needs layout.schedule_file"},
      {{"layout.stages=evn"},
       "r.toml: layout.stages = \"evn\"; it must be \"auto\", \"even\" or the number of blocks of each stage, as in \"3,2,3\""},
      {{"optimizer.decay=step"},
       "r.toml: optimizer.decay = \"step\" needs optimizer.decay_every, the steps or epochs between drops"},
      {{"optimizer.name=sgd", "optimizer.nesterov=true", "optimizer.momentum=0"},
       "r.toml: optimizer.nesterov needs a momentum above 0"},
      {{"optimizer.name=muon", "optimizer.momentum=0"}, "r.toml: optimizer.nesterov needs a momentum above 0"},
      {{"optimizer.scale_lr=linear"},
       "r.toml: optimizer.scale_lr = \"linear\" needs batch.reference, the global batch that optimizer.lr was found for"},
      {{"batch.reference=256"},
       "r.toml: batch.reference is read only with optimizer.scale_lr = \"linear\" or \"sqrt\" (here: \"none\"); set that too, "
       "or leave it out"},
      {{"optimizer.warmup=5", "optimizer.warmup_from=reference"},
       "r.toml: optimizer.warmup_from = \"reference\" needs optimizer.scale_lr and optimizer.warmup"},
      {{"data.name=fashion-mnist"},
       "r.toml: model.name = \"gpt\" cannot learn from data.name = \"fashion-mnist\"; it needs \"text\", \"jsonl\", "
       "\"parquet\" or \"tokens\""},
      {{"data.label_column=class"},
       "r.toml: data.label_column is read only for images with data.name = \"parquet\"; leave it out"},
      {{"data.name=parquet", "data.path=x", "data.label_column=class"},
       "r.toml: data.label_column is read only for images with data.name = \"parquet\"; leave it out"},
      {{"data.name=parquet", "data.path=x", "data.tokenizer=uint16"},
       "r.toml: data.tokenizer = \"uint16\" is for data.name = \"tokens\"; \"parquet\" takes \"bytes\""},
      {{"data.name=parquet"},
       "r.toml: data.path is missing: data.name = \"parquet\" has no default; add it or --set data.path=FOLDER"},
      {{"data.evaluation_path=x"},
       "r.toml: data.evaluation_path is read only with data.name = \"webdataset\", \"parquet\", \"jsonl\" or \"arrays\" (here: "
       "\"text\"); "
       "leave it out"},
      {{"model.name=mlp"},
       "r.toml: model.name = \"mlp\" cannot learn from data.name = \"text\"; it needs images, such as \"fashion-mnist\""},
      {{"data.tokenizer=uint16"},
       "r.toml: data.tokenizer = \"uint16\" is for data.name = \"tokens\"; \"text\" takes \"bytes\""},
      {{"data.name=tokens", "data.tokenizer=uint16"},
       "r.toml: data.path is missing: data.name = \"tokens\" has no default; add it or --set data.path=FILE"},
      {{"model.vocabulary=65"}, "r.toml: model.vocabulary = 65 is too small for bytes; it must be at least 256"},
      {{"data.shuffle_mb=16"},
       "r.toml: data.shuffle_mb is read only with data.name = \"jsonl\" or \"parquet\"; set that too, or leave it out"},
      {{"save.folder=s", "save.upload=./s/"}, "r.toml: save.upload equals save.folder; name another location"},
      {{"save.deadline_s=30"}, "r.toml: save.deadline_s is read only with save.folder; set that too, or leave it out"},
      {{"save.folder=s", "save.keep=0", "save.keep_every=5"},
       "r.toml: save.keep_every is read only with save.folder and a save.keep above 0; set that too, or leave it out"},
      {{"data.name=jsonl", "data.path=a", "data.evaluation_path=b", "data.evaluation=0.2"},
       "r.toml: data.evaluation is read only with data without data.evaluation_path; set that too, or leave it out"},
      {{"layout.backend=nccl", "run.device=cpu"},
       "r.toml: layout.backend = \"nccl\" moves tensors of GPUs, but run.device = \"cpu\""},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of(kSmall, c.overrides), c.error);
}

TEST(Recipe, FilesThatCannotBeRead) {
  EXPECT_THROW(
      try { load_recipe("/nonexistent/r.toml"); } catch (const InputError& error) {
        EXPECT_STREQ(error.what(), "cannot read the recipe '/nonexistent/r.toml': No such file or directory");
        throw;
      },
      InputError);
  EXPECT_THROW(
      try { load_recipe("/tmp"); } catch (const InputError& error) {
        EXPECT_STREQ(error.what(), "cannot read the recipe '/tmp': it is a folder, not a regular file");
        throw;
      },
      InputError);
}

constexpr const char* kMixture = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
batch = { global = 4 }
run = { steps = 1 }
[data]
name = "mix"
[[data.mix]]
name = "text"
path = "books"
weight = 0.7
[[data.mix]]
name = "tokens"
path = "code"
tokenizer = "uint16"
)";

TEST(Recipe, ParametersHaveGroups) {
  const std::string text = R"(
model = { name = "mlp", layers = 1, width = 16 }
data = { name = "fashion-mnist" }
batch = { global = 4 }
optimizer = { groups = [{ names = "hidden.*", lr_factor = 0.5, weight_decay = 0.1 }, { names = "*.bias", frozen = true }] }
run = { steps = 1 }
)";
  const Recipe recipe = parse_recipe(text, "r.toml", {"optimizer.groups.2.lr_factor=2"});
  EXPECT_EQ(rules_text(recipe.optimizer.groups), "'hidden.*': rate x 0.5, weight decay 0.1, '*.bias': rate x 2, frozen");
  EXPECT_EQ(recipe_values(recipe).at("optimizer.groups.2.names"), "*.bias") << "in checkpoints";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"optimizer.groups.1.lr_factor=-1", "optimizer.groups.1.lr_factor must be a number of at least 0"},
      {"optimizer.groups.3.frozen=true", "the recipe has no entry 3 of optimizer.groups; add it to its file"},
      {"optimizer.groups.1.names=", "[[optimizer.groups]]: names is empty"},
      {"optimizer.groups.1.muon=true", "optimizer.groups.muon is read only with optimizer.name = \"muon\" (here: \"adamw\")"}};
  for (const auto& [override, says] : rows) {
    EXPECT_NE(test::refusal([&, &o = override] { parse_recipe(text, "r.toml", {o}); }).find(says), std::string::npos) << says;
  }
}

TEST(Recipe, DocumentsCanBePacked) {
  EXPECT_EQ(parse_recipe(kSmall, "r.toml").data.pack, "stream");
  const Recipe recipe =
      parse_recipe(kSmall, "r.toml",
                   {"data.name=tokens", "data.tokenizer=uint16", "data.path=x", "data.pack=documents", "data.document_end=7"});
  EXPECT_EQ(recipe.data.pack, "documents");
  EXPECT_EQ(recipe.data.document_end, 7);
  const Recipe parts = parse_recipe(kMixture, "r.toml", {"data.pack=documents", "data.mix.2.document_end=9"});
  EXPECT_EQ(recipe_of_part(parts, 0).data.document_end, std::nullopt);
  EXPECT_EQ(recipe_of_part(parts, 1).data.document_end, 9);
  EXPECT_EQ(recipe_of_part(parts, 1).data.pack, "documents") << "the mixture's";
}

TEST(Recipe, MixturesHaveParts) {
  const Recipe recipe = parse_recipe(kMixture, "r.toml", {"data.mix.2.weight=0.3", "data.mix.1.path=texts"});
  ASSERT_EQ(recipe.data.mix.size(), 2u);
  EXPECT_EQ(recipe.data.mix[0].path, "texts");
  EXPECT_EQ(recipe.data.mix[0].weight, 0.7);
  EXPECT_EQ(recipe.data.mix[1].tokenizer, "uint16");
  EXPECT_EQ(recipe.data.mix[1].weight, 0.3);
  EXPECT_EQ(recipe_values(recipe).at("data.mix.2.path"), "code") << "in checkpoints";
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{"data.mix.3.weight=1"}, "--set data.mix.3.weight=1: the recipe has no entry 3 of data.mix; add it to its file"},
      {{"data.mix.1.weight=0"}, "data.mix.1.weight must be a number above 0"},
      {{"data.mix.1.weight=0.12345678"}, "at most six digits after the point"},
      {{"data.mix.1.name=mix"}, "data.mix.1.name must be one of"},
      {{"data.mix.1.name=cifar10"}, "cannot learn from data.name = \"cifar10\""},
      {{"data.mix.2.path="}, "data.path is missing"},
      {{"data.name=text"}, "[[data.mix]] is read only with data.name = \"mix\""},
      {{"data.path=x"}, "move them below [[data.mix]]"},
      {{"data.document_end=3"}, "move them below [[data.mix]]"},
      {{"data.pack=documents", "data.mix.2.document_end=3", "layout.cp=2"}, "with layout.cp = 2"},
      {{"data.skip_bad=true"}, "data.skip_bad skips damaged images and rows"},
      {{"data.mix.1.column=body"}, "data.column is read only with data.name = \"jsonl\" or \"parquet\""},
      {{"data.mix.1.name=jsonl", "data.mix.1.tokenizer=uint16"}, "\"jsonl\" takes \"bytes\""},
  };
  for (const auto& [more, says] : rows) {
    const std::string text = test::refusal([&, m = more] { parse_recipe(kMixture, "r.toml", m); });
    EXPECT_NE(text.find(says), std::string::npos) << text;
  }
  const std::string start = "model = { name = \"gpt\" }\nbatch = { global = 4 }\nrun = { steps = 1 }\n";
  const std::vector<std::pair<std::string, std::string>> files = {
      {"data = { name = \"mix\" }", "needs one [[data.mix]] per part"},
      {"data = { name = \"mix\", mix = 3 }", "write [[data.mix]] above each"},
      {"data = { name = \"mix\", mix = [{ path = \"x\" }] }", "data.mix.name is missing"},
      {"data = { name = \"mix\", mix = [{ name = \"text\", wait = 1 }] }", "unknown key 'data.mix.wait'"},
      {"data = { name = \"mix\", mix = [{ name = \"text\", weight = \"1\" }] }", "data.mix.weight must be a number"},
      {"[[data]]\nname = \"mix\"", "data must be a table"},
  };
  for (const auto& [data, says] : files) {
    const std::string text = test::refusal([&, d = data] { parse_recipe(start + d, "r.toml"); });
    EXPECT_NE(text.find(says), std::string::npos) << text;
  }
}

TEST(Recipe, TheRepositorysRecipesLoad) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "recipes")) {
    if (entry.path().extension() != ".toml") continue;
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(load_recipe(entry.path().string(), {"data.path=somewhere"}));
    ++found;
  }
  EXPECT_GE(found, 3);
}

/// The values of a key as docs/recipes.md has them: "integer, 1 to 10000", "number, above 0", "\"gpt\", \"cnn\"", "length".
std::string documented_values(const FileKey& key) {
  if (!key.choices.empty()) return fmt::format("\"{}\"", fmt::join(key.choices, "\", \""));
  if (std::holds_alternative<bool*>(key.target) || std::holds_alternative<std::optional<bool>*>(key.target))
    return "true, false";
  if (std::holds_alternative<std::string*>(key.target)) return "string";
  if (std::holds_alternative<RunLength*>(key.target)) return key.takes_time ? "length or time" : "length";
  const auto plain = [](double bound) {
    return bound == std::floor(bound) ? fmt::format("{:.0f}", bound) : fmt::format("{:g}", bound);
  };
  const bool is_number =
      std::holds_alternative<double*>(key.target) || std::holds_alternative<std::optional<double>*>(key.target);
  const std::string kind = is_number ? "number" : "integer", least = plain(key.range.min);
  const bool has_most = key.range.max < 1e9;
  const std::string low = key.range.open_min ? "above " + least : has_most ? least : "at least " + least;
  return kind + ", " + low +
         (has_most ? fmt::format(" to {}{}", key.range.open_max ? "below " : "", plain(key.range.max)) : "");
}

TEST(Recipe, DocumentationHasExactlyTheseKeys) {
  std::ifstream in(source_folder() / "docs" / "recipes.md");
  std::ostringstream text;
  text << in.rdbuf();
  Recipe recipe;
  size_t rows = 0;
  std::vector<FileKey> keys = recipe_keys(recipe);
  for (const RepeatedSection& section : repeated_recipe_sections(recipe)) {
    keys.insert(keys.end(), section.known.begin(), section.known.end());
  }
  for (const FileKey& key : keys) {
    const std::string begin = "\n| `" + key.dotted() + "` | " + documented_values(key) + " | ",
                      end = std::string(" | ") + key.meaning + " |\n";
    const size_t at = text.str().find(begin);
    EXPECT_NE(at, std::string::npos) << begin << "..." << end;
    if (at == std::string::npos) continue;
    const std::string row = text.str().substr(at, text.str().find('\n', at + 1) + 1 - at);
    EXPECT_TRUE(row.ends_with(end)) << row << "must end with:" << end;
    ++rows;
  }
  size_t documented = 0;
  for (size_t at = 0; (at = text.str().find("\n| `", at)) != std::string::npos; ++at) ++documented;
  EXPECT_EQ(documented, rows);
}

constexpr const char* kOfEveryKind = R"(
model = { name = "gpt", heads = 4, width = 128, dropout = 1e-05 }
data = { name = "tokens", tokenizer = "uint16", path = "\"quoted\" = [1]", evaluation = 0.25 }
batch = { global = 64, micro = 8, ramp = [{ global = 16, steps = 2 }, { global = 32, steps = 3 }] }
run = { tokens = 1e6, seed = 7, evaluate_every = 5, name = "a = b" }
save = { folder = "s3://bucket/a", every = "10 min" }
[optimizer]
name = "sgd"
nesterov = false
warmup = "2 epochs"
clip = 0.5
[[optimizer.groups]]
names = "h.0.*"
frozen = true
[[optimizer.groups]]
names = "'h.1.*"
lr_factor = 0.5
[[evaluation]]
name = "books"
path = "elsewhere"
[[evaluation]]
name = "letters"
path = "further on"
)";

constexpr const char* kMixed = R"(
model = { name = "gpt", heads = 4, width = 128 }
batch = { global = 64 }
run = { steps = 20 }
[data]
name = "mix"
[[data.mix]]
name = "text"
path = "books"
weight = 0.75
[[data.mix]]
name = "text"
path = "code"
weight = 0.25
)";

/// A checkpoint stores a recipe completely.
TEST(Recipe, ComesBackFromItsValues) {
  std::vector<Recipe> recipes = {parse_recipe(kSmall, "r.toml"), parse_recipe(kOfEveryKind, "r.toml"),
                                 parse_recipe(kMixed, "r.toml")};
  for (const auto& file : std::filesystem::directory_iterator(source_folder() / "recipes")) {
    if (file.path().extension() == ".toml") recipes.push_back(load_recipe(file.path().string()));
  }
  ASSERT_GT(recipes.size(), 8U);
  for (const Recipe& recipe : recipes) {
    const std::map<std::string, std::string> values = recipe_values(recipe);
    const Recipe again = recipe_of_values(values, "runs/a");
    EXPECT_EQ(recipe_values(again), values) << recipe.path;
    EXPECT_EQ(again.path, "runs/a");
  }
  std::map<std::string, std::string> values = recipe_values(recipes[1]);
  EXPECT_EQ(values.at("evaluation.2.name"), "letters");
  EXPECT_EQ(recipe_of_values(values, "runs/a", {"evaluation.2.name=post", "batch.micro=4"}).evaluations[1].name, "post");
  const std::map<std::string, std::string> unread = {{"layout.prefetch", "2"}, {"save.keep", "7"}};  // taken by version 0.1
  for (const auto& [key, value] : unread) {
    std::map<std::string, std::string> old = recipe_values(recipes[0]);
    ASSERT_NE(old.at(key), value);
    old[key] = value;
    EXPECT_EQ(recipe_values(recipe_of_values(old, "runs/a")), recipe_values(recipes[0])) << key;
  }
  values["model.heads"] = "many";
  EXPECT_EQ(test::refusal([&] {
              recipe_of_values(values, "runs/a");
            }).find("runs/a: weft did not write the recipe stored there: --set model.heads"),
            0U);
}

}  // namespace
}  // namespace weft
