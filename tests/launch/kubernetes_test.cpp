// Kubernetes manifests: rejected input, and names and text in the output. tests/cluster/kubernetes_test.py checks them against
// Kubernetes' schemas and runs them.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <functional>

#include "weft/base/error.h"
#include "weft/launch/kubernetes/manifest.h"
#include "weft/launch/kubernetes/names.h"
#include "weft/launch/kubernetes/pod_paths.h"

namespace weft::kubernetes_test {
namespace {

KubernetesOptions options() {
  KubernetesOptions options{.name = "gpt", .image = "registry.example/weft:1"};
  options.nodes = 2;
  options.recipe_name = "gpt.toml";
  options.recipe = "run = { steps = 1 }\n";
  options.cpus = "4";
  options.memory = "2Gi";
  options.shared_memory = "1Gi";
  options.token = "secret";
  return options;
}

std::string refusal(const std::function<void(KubernetesOptions&)>& change) {
  KubernetesOptions changed = options();
  change(changed);
  try {
    kubernetes_manifest(changed);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::vector<YAML::Node> documents(const KubernetesOptions& wanted) { return YAML::LoadAll(kubernetes_manifest(wanted)); }

TEST(Kubernetes, RefusesWhatTheClusterWould) {
  const auto begins = [](const std::string& text, const std::string& start) {
    return text.starts_with(start) ? "" : "not so: " + text;
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.name = "Gpt"; }), "--name Gpt: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.name = "8gpt"; }), "--name 8gpt: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.name = std::string(56, 'a'); }), "--name aaa"), "");
  EXPECT_EQ(refusal([](auto& o) { o.name = std::string(55, 'a'); }), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.name = std::string(55, 'a'), o.nodes = 11; }), "--name aaa"), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.name = std::string(55, 'a'), o.jobset = true; }), "--name aaa"), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.name_space = "a.b"; }), "--namespace a.b: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.image = "my image"; }), "--image my image: "), "");
  // Names of any length: matching must not recurse per character.
  const std::string longest(120'000, 'a');
  EXPECT_EQ(begins(refusal([&](auto& o) { o.image = longest; }), "--image aaa"), "");
  EXPECT_EQ(begins(refusal([&](auto& o) { o.name = longest; }), "--name aaa"), "");
  EXPECT_EQ(begins(refusal([&](auto& o) { o.claim = longest; }), "--claim aaa"), "");
  EXPECT_EQ(begins(refusal([&](auto& o) { o.memory = std::string(120'000, '1'); }), "--memory 111"), "");
  EXPECT_EQ(begins(refusal([&](auto& o) { o.recipe_name = longest; }), "aaa"), "");
  EXPECT_EQ(begins(refusal([&](auto& o) { o.data = {{.claim = "a", .path = "/" + longest + "/"}}; }), "--data a:/aaa"), "");
  EXPECT_EQ(refusal([&](auto& o) { o.data = {{.claim = "a", .path = "/" + longest}}; }), "");
  for (const char* image : {"", "a'b", "a\\b", "a\tb", "a\x1b"}) {
    EXPECT_EQ(begins(refusal([&](auto& o) { o.image = image; }), "--image "), "");
  }
  for (const char* size :
       {"", "1.", ".5", "1..5", "1.5.5", "0.0", "0m", "Gi", "1gi", "-1", "1e9", "1234567890123456", "1.0123456789"}) {
    EXPECT_EQ(begins(refusal([&](auto& o) { o.memory = size; }), "--memory "), "");
  }
  for (const char* size : {"1", "0.5", "500m", "64Gi", "123456789012345.123456789E"}) {
    EXPECT_EQ(refusal([&](auto& o) { o.memory = size; }), "") << size;
  }
  for (const char* path : {"", "a", "/", "/a/", "//a", "/a//b", "/a:b", "/.", "/a/..", "/../a", "/a/./b"}) {
    EXPECT_EQ(begins(refusal([&](auto& o) { o.data = {{.claim = "a", .path = path}}; }), "--data a:"), "") << path;
  }
  for (const char* claim : {"-a", "a-", "a.-b", "a..b", ".a", "a.", "A", "a_b"}) {
    EXPECT_EQ(begins(refusal([&](auto& o) { o.claim = claim; }), "--claim "), "") << claim;
  }
  EXPECT_EQ(refusal([&](auto& o) { o.claim = "a-b.c0.d"; }), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.memory = "12GB"; }), "--memory 12GB: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.cpus = "0"; }), "--cpus 0: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.storage = "many"; }), "--storage many: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.token_secret = "a_b"; }), "--token-secret a_b: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.recipe_name = "a b.toml"; }), "a b.toml: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.recipe = std::string(1'000'001, '#'); }), "gpt.toml: 1000001 bytes"), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.health_port = o.port; }), "--port and --health-port"), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.data = {{"c", "data"}}; }), "--data c:data: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.data = {{"c", "/a/../b"}}; }), "--data c:/a/../b: "), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.data = {{"c", "/d"}, {"e", "/d"}}; }), "--data e:/d: /d is taken"), "");
  EXPECT_EQ(begins(refusal([](auto& o) { o.data = {{"c", "/recipe"}}; }), "--data c:/recipe: "), "");
}

TEST(Kubernetes, TextComesThroughAsItIs) {
  for (const std::string recipe :
       {"a = 1\n", "a = 1", "a = 1\n\n\n", "  indented = 1\n", "\n\nfirst = 1\n", "tab = \"\t\"\n", "crlf = 1\r\n",
        "---\n...\n# comment: 'quotes\" \n", "control = \x01\n", "ä = \"ö\"\n", "ends in blanks   \n  \n"}) {
    KubernetesOptions wanted = options();
    wanted.recipe = recipe;
    EXPECT_EQ(documents(wanted)[0]["data"]["gpt.toml"].as<std::string>(), recipe);
  }
  KubernetesOptions wanted = options();
  wanted.train_arguments = {"--set=run.name=$(HOME): # a", "--set=run.name='x\"'"};
  wanted.name = "on";
  wanted.recipe_name = "yes";
  wanted.notes = {"a note"};
  const std::vector<YAML::Node> all = documents(wanted);
  const YAML::Node command = all.back()["spec"]["template"]["spec"]["containers"][0]["command"];
  EXPECT_EQ(command[command.size() - 2].as<std::string>(), "--set=run.name=$$(HOME): # a");
  EXPECT_EQ(command[command.size() - 1].as<std::string>(), "--set=run.name='x\"'");
  EXPECT_NE(kubernetes_manifest(wanted).find("name: \"on\""), std::string::npos);
  EXPECT_NE(kubernetes_manifest(wanted).find("\"yes\": "), std::string::npos);
  EXPECT_NE(kubernetes_manifest(wanted).find("# a note\n"), std::string::npos);
}

TEST(Kubernetes, NamesARecipeAsKubernetesDoes) {
  EXPECT_EQ(kubernetes_name("recipes/gpt.toml"), "gpt");
  EXPECT_EQ(kubernetes_name("Image Net_ResNet50.toml"), "image-net-resnet50");
  EXPECT_EQ(kubernetes_name("7b.toml"), "weft-7b");
  EXPECT_EQ(kubernetes_name("____.toml"), "weft");
  EXPECT_EQ(kubernetes_name(std::string(39, 'a') + "--b.toml"), std::string(39, 'a'));
}

TEST(Kubernetes, ReadsSizes) {
  EXPECT_EQ(size_in_bytes("--memory", "1Gi"), 1073741824.0);
  EXPECT_EQ(size_in_bytes("--memory", "1.5Ki"), 1536.0);
  EXPECT_EQ(size_in_bytes("--memory", "2G"), 2e9);
  EXPECT_EQ(size_in_bytes("--memory", "3k"), 3000.0);
  EXPECT_EQ(size_in_bytes("--memory", "500"), 500.0);
  EXPECT_EQ(size_in_bytes("--memory", "500m"), 0.5);
  EXPECT_THROW(size_in_bytes("--memory", "1GB"), InputError);
}

TEST(Kubernetes, PlacesWhatARecipeNames) {
  const auto place = [](KubernetesOptions where, const PodPath& path) -> std::string {
    try {
      return placed_paths(where, {path}).at(0);
    } catch (const InputError& error) {
      return std::string("refused: ") + error.what();
    }
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) == std::string::npos ? "no " + part + " in " + text : "";
  };
  KubernetesOptions bare = options(), with = options();
  with.claim = "files";
  with.data = {{"corpus", "/data"}};
  EXPECT_EQ(has(place(bare, {.key = "data.path", .path = "a.txt"}), "refused: data.path a.txt: a relative path"), "");
  EXPECT_EQ(has(place(with, {.key = "data.path", .path = "./a.txt"}), ": /work/a.txt of the volume files"), "");
  EXPECT_EQ(has(place(with, {.key = "data.path", .path = "../a.txt"}), "must be in the image"), "");
  EXPECT_EQ(has(place(with, {.key = "data.path", .path = "/data/a.txt"}), "in the volume corpus"), "");
  EXPECT_EQ(has(place(with, {.key = "data.path", .path = "/database"}), "must be in the image"), "");
  EXPECT_EQ(has(place(with, {.key = "save.folder", .path = "/data/x", .is_kept = true}),
                "refused: save.folder /data/x: the volume corpus is"),
            "");
  EXPECT_EQ(
      has(place(with, {.key = "save.folder", .path = "/tmp/x", .is_kept = true}), "refused: save.folder /tmp/x: in no volume"),
      "");
  EXPECT_EQ(
      has(place(bare, {.key = "save.folder", .path = "s3://b/x", .is_url = true, .is_kept = true}), "WITHOUT credentials"), "");
  bare.env_secrets = {"s3"};
  EXPECT_EQ(has(place(bare, {.key = "save.folder", .path = "s3://b/x", .is_url = true, .is_kept = true}),
                "with the pods' credentials"),
            "");
}

}  // namespace
}  // namespace weft::kubernetes_test
